#include <memlease/stream.h>

#include "client/api/connect_session.h"
#include "client/api/throw.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {

Stream::Stream(CUstream_st* stream)
    : Stream(from_handle(reinterpret_cast<std::uintptr_t>(stream))) {}

Stream Stream::from_handle(std::uintptr_t handle) {
  if (handle == 0) {
    internal::throw_error(wire::make_error(
        wire::ErrorCode::kInvalidArgument,
        "stream 0 is ambiguous: the legacy or the per-thread default stream, depending on how a "
        "program was compiled",
        "Pass cudaStreamLegacy (1), cudaStreamPerThread (2), or a stream that you have created."));
  }
  Stream stream;
  stream.handle_ = handle;
  return stream;
}

Stream stream_on(int device_ordinal, Stream wanted) {
  internal::ImporterSource& importers = internal::process_importers();
  const auto uuid =
      internal::value_or_throw(importers.resolve(fmt::format("cuda:{}", device_ordinal)));
  internal::Importer* const importer = internal::value_or_throw(importers.importer(uuid));
  if (!wanted) return internal::value_or_throw(importer->export_stream());
  internal::check(importer->check_stream(wanted));
  return wanted;
}

}  // namespace memlease
