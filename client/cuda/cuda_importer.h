// GPUs through libmemlease_cuda.so: see client/ordering/importer.h for what is promised.
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
  absl::Status check_device() override;
  absl::StatusOr<std::unique_ptr<StreamMark>> mark(Stream stream) override;
  absl::Status order(Stream before, Stream after) override;
  absl::Status check_stream(Stream stream) override;
  bool is_capturing(Stream stream) override;
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
  // "opening memory of GPU-6a9f… (cuda:0): …".
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

// The process's, which is never destroyed.
class CudaImporters : public ImporterSource {
 public:
  static CudaImporters& instance();
  absl::StatusOr<std::string> resolve(const std::string& device) override;
  absl::StatusOr<Importer*> importer(const std::string& uuid) override;
  absl::StatusOr<Importer*> holder(const void* address) override;

 private:
  using Importers = std::vector<std::unique_ptr<CudaImporter>>;  // by ordinal
  // Looks for them once; they stay as they are then.
  absl::StatusOr<const Importers*> look() ABSL_LOCKS_EXCLUDED(mutex_);

  wire::Mutex mutex_{wire::HeldOverLocks(7)};
  std::optional<const Importers> importers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
