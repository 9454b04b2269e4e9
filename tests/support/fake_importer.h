// A GPU as a client's process sees it, of host memory: what a handle leads to is mapped by the
// first open and unmapped by the last close, as a driver counts them, so that a stray access is a
// fault. Work on a stream is done when it is given, unless the test stalls the stream: then what it
// writes, and what waits for that, is complete when the stall ends. Thread-safe; outlives what it
// hands out.
//
// Stops at the gates open_memory, close_memory, register_pages, unregister_pages.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/ordering/importer.h"
#include "tests/support/gates.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

class FakeImporter : public internal::Importer, public internal::ImporterSource {
 public:
  FakeImporter(std::string device, Gates& gates) : device_(std::move(device)), gates_(gates) {}
  // A real one lives as long as the process, which notes its streams' waits.
  ~FakeImporter() override;

  // What the stream is given from now on is not complete before resume().
  void stall(Stream stream);
  void resume();
  // The device fails: nothing that it was given goes on, and every call is refused.
  void fail();
  // It captures a graph from now on, and is refused: what it is given goes into the graph.
  void capture(Stream stream);
  std::size_t captured_count() const;
  // The next open of memory fails.
  void refuse_next_open();
  // What is to be registered is refused, from now on or not.
  void refuse_registrations(bool refuses);
  // Whether streams do, from now on.
  void set_orders_by_words(bool does) { orders_by_words_ = does; }
  // Pages that are registered now. They must be mapped when that ends, no stream may have to look
  // there, and no two may overlap.
  std::size_t registered_count() const;
  // Marks that there are.
  int mark_count() const { return marks_; }
  // How often memory was closed, or pages were unregistered, while a stream was stalled: the driver
  // would wait for that.
  int stalled_closings() const;
  // Memory that is open now, as often as it is.
  int open_memory_count() const;

  const std::string& device() const override { return device_; }
  int ordinal() const override { return 0; }
  absl::StatusOr<std::unique_ptr<internal::DeviceMemory>> open_memory(
      const wire::DeviceHandle& handle, std::uint64_t size_bytes) override;
  bool orders_by_words() override { return orders_by_words_; }
  absl::Status write_word(wire::Word& word, std::uint64_t value, Stream stream) override;
  absl::Status wait_for_word(const wire::Word& word, std::uint64_t value, Stream stream) override;
  absl::Status check_device() override;
  absl::StatusOr<std::unique_ptr<internal::StreamMark>> mark(Stream stream) override;
  absl::Status order(Stream before, Stream after) override;
  absl::Status check_stream(Stream stream) override;
  bool is_capturing(Stream stream) override;
  absl::StatusOr<Stream> export_stream() override { return Stream::from_handle(0x100); }
  absl::StatusOr<Stream> joining_stream() override { return Stream::from_handle(0x300); }
  absl::StatusOr<Stream> copy_stream() override { return Stream::from_handle(0x200); }
  absl::Status synchronize() override;
  absl::Status copy(void* to, const void* from, std::uint64_t size_bytes, Stream stream) override;
  absl::Status copy_rows(std::byte* to, const std::byte* from, const internal::Rows& rows,
                         Stream stream) override;
  absl::StatusOr<std::unique_ptr<internal::RegisteredPages>> register_pages(
      std::byte* pages, std::uint64_t size_bytes, bool writable) override;
  void checker_release(std::uint64_t /*key*/, std::uint64_t /*value*/) override {}
  void checker_acquire(std::uint64_t /*key*/, std::uint64_t /*value*/) override {}
  void checker_saw(const wire::Word& /*word*/) override {}

  // The one device's source.
  absl::StatusOr<std::string> resolve(const std::string& device) override;
  absl::StatusOr<internal::Importer*> importer(const std::string& uuid) override;
  absl::StatusOr<internal::Importer*> holder(const void* address) override;

 private:
  class Memory;
  class Mark;
  class Registered;
  using Stalls = std::set<int>;  // what has to end before something is complete
  struct Allocation {
    wire::UniqueFd bytes;
    void* mapped = nullptr;
    int opens = 0;
  };
  bool over(const Stalls& stalls) const;  // mutex_ is held
  Stalls& given(Stream stream);           // likewise
  absl::Status failure() const;           // likewise

  const std::string device_;
  Gates& gates_;
  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable resumed_;  // running_ has lost some
  Stalls running_;
  int last_stall_ = 0;
  int stalled_closings_ = 0;
  std::map<std::uintptr_t, Stalls> streams_;
  std::set<std::uintptr_t> capturing_;
  std::size_t captured_ = 0;  // what they were given
  std::map<wire::DeviceHandle, Allocation> memory_;
  struct PendingWrite {
    wire::Word* word = nullptr;
    std::uint64_t value = 0;
    Stalls stalls;
  };
  std::vector<PendingWrite> pending_;  // in their order
  std::vector<std::pair<const wire::Word*, Stalls>> waits_;
  std::atomic<bool> orders_by_words_ = true;
  std::atomic<int> marks_ = 0;
  bool refuses_ = false;
  bool failed_ = false;
  std::map<std::byte*, std::uint64_t> registered_;  // sizes
  bool refuses_registrations_ = false;
};

}  // namespace memlease::testing
