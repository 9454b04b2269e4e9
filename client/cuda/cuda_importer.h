// GPUs through libmemlease_cuda.so. Implements the ports of client/ordering/importer.h, which say
// what each method promises; cuda/plugin.h says it of the calls beneath. Thread-safe.
//
// Errors of CUDA name the call and the GPU. Where the port names no other code, they are
// kOutOfMemory, kForkedClient in a child forked from a process that has used CUDA, or kInternal. In
// a forked child the destructors of what was opened before the fork call nothing.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ordering/importer.h"
#include "cuda/loader.h"
#include "wire/mutex.h"

namespace memlease::internal {

// One GPU of this process. Made by CudaImporters alone; lives as long as the process.
class CudaImporter : public Importer {
 public:
  CudaImporter(const memlease_cuda_table& cuda, cuda::Gpu gpu)
      : cuda_(cuda), gpu_(std::move(gpu)) {}

  const std::string& device() const override { return gpu_.uuid; }
  int ordinal() const override { return gpu_.ordinal; }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> open_memory(const wire::DeviceHandle& handle,
                                                            std::uint64_t size_bytes) override;
  bool orders_by_words() override;
  absl::Status write_word(wire::Word& word, std::uint64_t value, Stream stream) override;
  absl::Status wait_for_word(const wire::Word& word, std::uint64_t value, Stream stream) override;
  // Makes joining_stream(), which it asks. OK while a capture forbids the question.
  absl::Status check_device() override;
  absl::StatusOr<std::unique_ptr<StreamMark>> mark(Stream stream) override;
  absl::Status order(Stream before, Stream after) override;
  // The default streams (0, 1, 2) are taken as those of this GPU. kInvalidArgument also of one that
  // has been destroyed, as far as CUDA notices.
  absl::Status check_stream(Stream stream) override;
  bool is_capturing(Stream stream) override;
  // The process's own streams are made at the first call that needs them. Exports take four in
  // turn.
  absl::StatusOr<Stream> export_stream() override;
  absl::StatusOr<Stream> joining_stream() override;
  absl::StatusOr<Stream> copy_stream() override;
  absl::Status synchronize() override;
  absl::Status copy(void* to, const void* from, std::uint64_t size_bytes, Stream stream) override;
  absl::Status copy_rows(std::byte* to, const std::byte* from, const Rows& rows,
                         Stream stream) override;
  absl::StatusOr<std::unique_ptr<RegisteredPages>> register_pages(std::byte* pages,
                                                                  std::uint64_t size_bytes,
                                                                  bool writable) override;
  void checker_release(std::uint64_t key, std::uint64_t value) override;
  void checker_acquire(std::uint64_t key, std::uint64_t value) override;
  void checker_saw(const wire::Word& word) override;

  const memlease_cuda_table& cuda() const { return cuda_; }
  // What a call of CUDA failed with, as a status. `what`: the call in words, "opening the daemon's
  // memory"; the GPU is added. `code` is an error, not MEMLEASE_CUDA_OK.
  absl::Status error(std::int32_t code, const std::string& what) const;

 private:
  absl::StatusOr<Stream> make(Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const memlease_cuda_table& cuda_;
  const cuda::Gpu gpu_;
  wire::Mutex mutex_;
  Stream joining_ ABSL_GUARDED_BY(mutex_);
  Stream copying_ ABSL_GUARDED_BY(mutex_);
  std::array<Stream, 4> exports_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_export_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The GPUs that this process sees: one object for the process, which is never destroyed.
//
// The first call that needs them loads the plug-in and asks CUDA, which may take long; others wait
// meanwhile. kUnsupported where there is no plug-in or no driver; a later call looks again. Once
// found, they are not looked for again.
class CudaImporters : public ImporterSource {
 public:
  static CudaImporters& instance();
  // "host", "cpu" and a UUID need no GPU: they are answered without a look, also where there is
  // none. kUnsupported: this process has no GPU of that number.
  absl::StatusOr<std::string> resolve(const std::string& device) override;
  absl::StatusOr<Importer*> importer(const std::string& uuid) override;
  // kUnsupported: this process sees no GPU. Managed memory is none's.
  absl::StatusOr<Importer*> holder(const void* address) override;

 private:
  using Importers = std::vector<std::unique_ptr<CudaImporter>>;  // by ordinal
  // If they have not been found yet, looks under the mutex.
  absl::StatusOr<const Importers*> look() ABSL_LOCKS_EXCLUDED(mutex_);

  wire::Mutex mutex_{wire::HeldOverLocks(8)};
  std::optional<const Importers> importers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
