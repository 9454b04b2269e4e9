// Session pages of a client that lies: any word of its rows may hold anything at any moment. The
// honest reader, the honest writer and the daemon go on, and touch nothing but their own.
#include <array>
#include <cstring>
#include <vector>

#include "tests/client/slots/slot_world.h"
#include "tests/fuzz/fuzz.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;
using internal::WriteAttempt;

// Reader 0 is honest, reader 1 lies; so does writer 0. Writer 1 is honest.
class Liars {
 public:
  explicit Liars(std::uint32_t slots) : world_(slots, 2) {}

  void step(Input& input) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:
        return lie(&world_.writer_row(0), wire::writer_row_units(world_.slots()), input);
      case 1:
        return lie(&world_.reader_row(1), wire::reader_row_units(world_.slots()), input);
      case 2:
        return read(input.take<std::uint64_t>(), input.take<std::uint64_t>());
      case 3:
        return read(0, 0);
      case 4:
        return look(input.take<std::uint64_t>());
      case 5:
        return write(input.take<std::uint8_t>());
      case 6:
        world_.writer(1).adopt(world_.writer_row(0));
        world_.give_right_to(1);
        return;
      default:
        return die();
    }
  }

 private:
  // Of the row a word is set, whichever it is.
  static void lie(void* row, std::uint32_t units, Input& input) {
    const std::size_t words = units * wire::kRowUnitBytes / sizeof(wire::Word);
    const std::size_t at = input.take<std::uint8_t>() % words;
    static_cast<wire::Word*>(row)[at].store(input.take<std::uint64_t>());
  }

  void read(std::uint64_t version, std::uint64_t newer_than) {
    internal::SlotReader& reader = world_.reader(0);
    const ReadAttempt attempt = reader.acquire(version, newer_than);
    if (attempt.outcome != internal::ReadOutcome::kAcquired) {
      require(!reader.holds_any(), "a read that failed holds nothing");
      return;
    }
    require(attempt.slot < world_.slots(), "a slot of the array");
    require(attempt.version != 0, "no lease of version 0");
    require(version == 0 ? attempt.version > newer_than : attempt.version == version,
            "the version that was asked for");
    require(reader.holds(attempt.slot) == 1, "a lease holds its slot once");
    reader.release(attempt.slot);
  }

  void look(std::uint64_t version) {
    internal::SlotReader& reader = world_.reader(0);
    require(reader.likely_slot() < world_.slots(), "a guess is a slot of the array");
    static_cast<void>(reader.counts());
    static_cast<void>(reader.poisoned(version));
  }

  void write(std::uint8_t how) {
    internal::SlotWriter& writer = world_.writer(1);
    int tries = 0;
    SlotWaitOf wait([&](const auto&, auto) { return ++tries < 2; });
    const WriteAttempt attempt = writer.begin(wait);
    require(writer.current().slot < world_.slots(), "what stands is a slot of the array");
    if (attempt.outcome != internal::WriteOutcome::kReady) return;
    require(attempt.slot < world_.slots(), "a slot of the array to write");
    writer.for_each_read_fence(attempt.slot, [](wire::RowRef, std::uint64_t) {});
    if (how % 2 == 0) {
      writer.publish(attempt.slot, attempt.version);
    } else {
      writer.drop(attempt.slot);
    }
  }

  // Writer 0's process exits, and the daemon takes over what it left.
  void die() {
    world_.give_right_to(0);
    world_.die(0);
    const auto stands =
        wire::unpack_publication(world_.writer_row(SlotWorld::kTakeover).publication.load());
    require(stands.slot < world_.slots(), "the takeover row's publication is of a slot");
    static_cast<void>(server::holds_any(world_.reader_row(1), world_.slots()));
    static_cast<void>(server::is_writing(world_.writer_row(0)));
  }

  SlotWorld world_;
};

}  // namespace
}  // namespace memlease::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<std::uint32_t, 4> kSlots{1, 2, 3, 64};
  memlease::testing::Input input(data, size);
  memlease::testing::Liars liars(kSlots[input.take<std::uint8_t>() % kSlots.size()]);
  while (!input.empty()) liars.step(input);
  return 0;
}
