// Port: how this process opens memory of a device, and orders its own streams.
// Implemented by client/cuda/cuda_importer, in tests by FakeImporter; called by ImportCache and
// GpuOrder. Thread-safe.
//
// No call waits for the device unless it says so. Errors are kInternal where the device itself has
// failed: such errors stay, and everything on it fails from then on, in this process alone. Nothing
// that it was given before goes on then.
#pragma once

#include <memlease/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/strided_copy.h"
#include "wire/ids.h"
#include "wire/shared_word.h"

namespace memlease::internal {

// Destroying it closes it. In a forked child, and once the driver has been shut down, that does
// nothing.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;  // not for the host to touch
  virtual std::uint64_t size_bytes() const = 0;
};

// Each keeps a segment open, or pages registered.
using OpenMemory = std::vector<std::shared_ptr<const void>>;

// Pages of the host's that a copy on a device reads or writes without the host's help. Destroying
// it ends that, as with DeviceMemory, and may wait for the device; all copies there are done then.
class RegisteredPages {
 public:
  virtual ~RegisteredPages() = default;
};

// Of this process alone: what a stream had been given when it was made.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  virtual absl::StatusOr<bool> complete() = 0;
};

class Importer {
 public:
  virtual ~Importer() = default;
  virtual const std::string& device() const = 0;  // UUID
  virtual int ordinal() const = 0;                // in this process
  // kUnsupported where the driver does not find from here what the daemon has, as between
  // containers.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> open_memory(
      const wire::DeviceHandle& handle, std::uint64_t size_bytes) = 0;

  // Can streams write and wait for words of registered pages, also of those registered for reading?
  virtual bool orders_by_words() = 0;
  // The stream writes the value there, in registered pages, behind all that it was given before.
  virtual absl::Status write_word(wire::Word& word, std::uint64_t value, Stream stream) = 0;
  // What the stream is given from now on runs once the word is no less.
  virtual absl::Status wait_for_word(const wire::Word& word, std::uint64_t value,
                                     Stream stream) = 0;
  // An error if the device has failed, for this process.
  virtual absl::Status check_device() = 0;

  virtual absl::StatusOr<std::unique_ptr<StreamMark>> mark(Stream stream) = 0;
  // What `after` is given from now on runs behind what `before` was given until now.
  virtual absl::Status order(Stream before, Stream after) = 0;

  // kInvalidArgument: of another device, or capturing a graph.
  virtual absl::Status check_stream(Stream stream) = 0;
  // Is it, or does it depend on a stream that is?
  virtual bool is_capturing(Stream stream) = 0;
  // One of the process's own, for an export: never 0, 1 or 2, never destroyed.
  virtual absl::StatusOr<Stream> export_stream() = 0;
  // Another one, where events are joined.
  virtual absl::StatusOr<Stream> joining_stream() = 0;
  // Another one, which is never made to wait: for copies before which the host has waited.
  virtual absl::StatusOr<Stream> copy_stream() = 0;
  // Waits until the device has nothing to do for this process. kInvalidArgument: a stream of it is
  // capturing a graph, and nothing has been waited for.
  virtual absl::Status synchronize() = 0;
  // Between host and device or within the device, on the stream. From pageable memory it may wait
  // for the copy.
  virtual absl::Status copy(void* to, const void* from, std::uint64_t size_bytes,
                            Stream stream) = 0;
  // The same of rows: a row's offsets are counted from `to` and `from`.
  virtual absl::Status copy_rows(std::byte* to, const std::byte* from, const Rows& rows,
                                 Stream stream) = 0;

  // Locks pages of this process in memory, which stay mapped until they are unregistered: a copy
  // to or from them does not block. `writable`: as they are mapped; else nothing is copied to them.
  // An error means no more than that copies go without it.
  virtual absl::StatusOr<std::unique_ptr<RegisteredPages>> register_pages(std::byte* pages,
                                                                          std::uint64_t size_bytes,
                                                                          bool writable) = 0;

  // What another process learns of this one by shared pages, for a checker of races.
  virtual void checker_release(std::uint64_t key, std::uint64_t value) = 0;
  virtual void checker_acquire(std::uint64_t key, std::uint64_t value) = 0;
  // Likewise: the host has seen what a stream wrote to the word.
  virtual void checker_saw(const wire::Word& word) = 0;
};

class ImporterSource {
 public:
  virtual ~ImporterSource() = default;
  // "cuda:0", "cuda" or a UUID, as the user says it: the UUID. kInvalidArgument, kUnsupported.
  virtual absl::StatusOr<std::string> resolve(const std::string& device) = 0;
  // For an array's device, by its UUID; lives as long as the process. kUnsupported: no such GPU is
  // visible here.
  virtual absl::StatusOr<Importer*> importer(const std::string& uuid) = 0;
  // For the device whose memory the address is in, whoever allocated it. kInvalidArgument: none's.
  virtual absl::StatusOr<Importer*> holder(const void* address) = 0;
};

}  // namespace memlease::internal
