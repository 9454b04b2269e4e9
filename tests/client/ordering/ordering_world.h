// An array on a fake GPU over plain pages: the events of its slots, and a reader and a writer of
// the slot protocol, whose streams are ordered by them.
#pragma once

#include <memory>

#include "client/ordering/import_cache.h"
#include "client/ordering/reader_order.h"
#include "client/ordering/version_events.h"
#include "gtest/gtest.h"
#include "tests/client/slots/slot_world.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"

namespace memlease::internal {

class OrderingWorld : public ::testing::Test {
 protected:
  static constexpr wire::RowRef kOwnRow{wire::FileId{9}, 1};
  static constexpr wire::FileId kEvents{8};
  static constexpr std::uint64_t kEventsOffset = 64;
  static constexpr wire::FileId kReaderFile{2};  // SlotWorld's
  static inline const Stream kOurs = Stream::from_handle(16);
  static inline const Stream kOther = Stream::from_handle(17);

  OrderingWorld() {
    answer.spec.name = "a";
    answer.spec.device = "GPU-1";
    answer.spec.slots = 2;
    answer.spec.max_slots = 2;
    answer.slot_bytes = 512;
    answer.slots = {{wire::FileId{3}, 0}, {wire::FileId{3}, 512}};
    answer.events = {kEvents, kEventsOffset};
    files->kinds = {{wire::to_int(kEvents), wire::FileKind::kEvents},
                    {wire::to_int(kOwnRow.file), wire::FileKind::kSessionPage},
                    {wire::to_int(kReaderFile), wire::FileKind::kSessionPage}};
    versions = *VersionEvents::open(gpu, imports, known(), kNoInterrupts);
    order = std::make_unique<ReaderOrder>(*versions);
    world = std::make_unique<testing::SlotWorld>(versions->layout(), 2);
  }
  // Is all over that the stream was given?
  bool idle(Stream stream) { return *(*gpu.mark(stream))->complete(); }

  KnownArray known() const {
    return {answer, std::make_shared<const wire::ArrayKind>(answer.spec)};
  }

  OpenAnswer answer;
  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  testing::FakeControl control;
  std::unique_ptr<testing::FakeFiles> files = std::make_unique<testing::FakeFiles>();
  MappingCache mappings{*files};
  ImportCache imports{control, mappings, gpu};
  std::unique_ptr<VersionEvents> versions;
  std::unique_ptr<ReaderOrder> order;
  std::unique_ptr<testing::SlotWorld> world;
};

}  // namespace memlease::internal
