// What is open in a process is open once, and the daemon learns of its closing before it is asked
// again; on a fake GPU and a fake daemon.
#include <future>
#include <limits>
#include <memory>

#include "client/ordering/import_cache.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using testing::FakeControl;
using wire::ErrorCode;

constexpr wire::FileId kFile{3};
constexpr wire::FileId kOtherFile{4};
constexpr wire::FileId kPage{9};

class ImportCacheTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<DeviceMemory>> get(wire::FileId file) {
    return imports.get(file, gpu, kNoInterrupts);
  }

  ImportCacheTest() { files.kind = wire::FileKind::kEvents; }
  absl::StatusOr<std::shared_ptr<EventPage>> page(InterruptCheck interrupt = kNoInterrupts) {
    return imports.event_page(kPage, wire::FileKind::kEvents, gpu, interrupt);
  }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  FakeControl control;
  testing::FakeFiles files;
  MappingCache mappings{files};
  ImportCache imports{control, mappings, gpu};
};

TEST_F(ImportCacheTest, WhatIsOpenIsOpenOnce) {
  const auto memory = get(kFile);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(*get(kFile), *memory);
  EXPECT_EQ(gpu.open_memory_count(), 1);
  EXPECT_EQ(control.calls(), 1U);
  EXPECT_EQ(control.calls(), 1U);
}

TEST_F(ImportCacheTest, APageIsMappedAndRegisteredOnceAndTheDaemonNotToldOfItsEnd) {
  auto opened = page();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->orders(gpu));
  EXPECT_EQ(*page(), *opened);
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(files.fetches, 1);
  opened->reset();
  imports.flush();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 0U);
  EXPECT_EQ(control.calls(), 0U);
}

// Closing may wait for the device, and the last use may end in the middle of a write.
TEST_F(ImportCacheTest, TheLastUseOfAPageDoesNotCloseIt) {
  page().value().reset();
  EXPECT_EQ(gpu.registered_count(), 1U);
  const auto again = page();
  EXPECT_EQ(files.fetches, 1) << "it is used again as it is";
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 1U) << "it is in use";
}

TEST_F(ImportCacheTest, APageIsNotClosedWhileAStreamMayLookThere) {
  const Stream stream = Stream::from_handle(16);
  auto opened = page().value();
  gpu.stall(stream);
  opened->note_wait(gpu, stream);
  opened.reset();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 1U);
  gpu.resume();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 0U);
}

// Then the process is about to exit, or nobody can say when the stream goes on.
TEST_F(ImportCacheTest, APageWhereAStreamMayLookOutlivesTheCache) {
  const Stream stream = Stream::from_handle(16);
  auto ending = std::make_unique<ImportCache>(control, mappings, gpu);
  auto opened = ending->event_page(kPage, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  gpu.stall(stream);
  opened->note_wait(gpu, stream);
  opened.reset();
  ending.reset();
  EXPECT_EQ(gpu.registered_count(), 1U);
}

TEST_F(ImportCacheTest, WaitsThatAreOverAreNotKept) {
  const auto opened = page().value();
  for (int i = 0; i < 1000; ++i) opened->note_wait(gpu, Stream::from_handle(16));
  EXPECT_LT(gpu.mark_count(), 20);
}

TEST_F(ImportCacheTest, ManyUnusedPagesAreClosedWhenOneMoreIsOpened) {
  for (std::uint32_t file = 100; file < 150; ++file) {
    const auto opened =
        imports.event_page(wire::FileId{file}, wire::FileKind::kEvents, gpu, kNoInterrupts);
    ASSERT_TRUE(opened.ok()) << opened.status();
  }
  EXPECT_LT(gpu.registered_count(), 20U);
}

// A process may have GPUs that are not equal.
TEST_F(ImportCacheTest, ADeviceThatCannotWaitForWordsDoesNotWhereAnotherOneCan) {
  testing::FakeImporter other{"GPU-2", gates};
  other.set_orders_by_words(false);
  const wire::RowRef row{kPage, 0};
  files.kind = wire::FileKind::kSessionPage;
  const auto here = imports.events_of(row, 2, gpu, kNoInterrupts).value();
  const auto there = imports.events_of(row, 2, other, kNoInterrupts).value();
  EXPECT_FALSE(here.by_host());
  EXPECT_TRUE(there.by_host());
}

TEST_F(ImportCacheTest, APageThatCannotBeRegisteredIsForHostsAlone) {
  gpu.refuse_registrations(true);
  const auto opened = page();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->orders(gpu));
}

TEST_F(ImportCacheTest, ADroppedImportIsClosedLaterAndReportedByTheNextFlushAlone) {
  get(kFile).value().reset();
  EXPECT_EQ(gpu.open_memory_count(), 1) << "closing may wait for the device";
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 0);
  EXPECT_EQ(control.closed_memory, 0) << "whoever closes it makes no call";
  imports.flush();
  EXPECT_EQ(control.closed_memory, 1);
  const std::uint64_t calls = control.calls();
  imports.flush();
  EXPECT_EQ(control.calls(), calls) << "there is nothing to report";
}

TEST_F(ImportCacheTest, MemoryThatIsUsedAgainIsStillOpen) {
  get(kFile).value().reset();
  const auto again = get(kFile);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(control.calls(), 1U);
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 1);
}

// The driver would wait for all streams of the process, and so for others' work, without an end.
TEST_F(ImportCacheTest, MemoryIsNotClosedWhileAStreamWaitsForAnotherProcess) {
  const Stream stream = Stream::from_handle(16);
  auto opened = page().value();
  gpu.stall(stream);
  opened->note_wait(gpu, stream);
  get(kFile).value().reset();
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 1) << "the page is in use";
  opened.reset();
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 1) << "it is not, but the stream waits";
  gpu.resume();
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 0);
}

// A page without waits of its own, too.
TEST_F(ImportCacheTest, NoPageIsClosedWhileAStreamWaitsAtAnother) {
  const Stream stream = Stream::from_handle(16);
  const auto waited = page().value();
  gpu.stall(stream);
  waited->note_wait(gpu, stream);
  imports.event_page(kOtherFile, wire::FileKind::kEvents, gpu, kNoInterrupts).value().reset();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 2U);
  gpu.resume();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(gpu.stalled_closings(), 0);
}

// Such as one that has come back to life in another session.
TEST_F(ImportCacheTest, NothingIsClosedWhileAStreamWaitsForWhatAnotherCacheHasOpen) {
  const Stream stream = Stream::from_handle(16);
  ImportCache other{control, mappings, gpu};
  const auto waited = other.event_page(kPage, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  gpu.stall(stream);
  waited->note_wait(gpu, stream);
  get(kFile).value().reset();
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 1);
  EXPECT_TRUE(imports.any_unused());
  gpu.resume();
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 0);
  EXPECT_FALSE(imports.any_unused());
}

TEST_F(ImportCacheTest, AllOutlivesTheCacheWhereAStreamMayLookSomewhere) {
  constexpr wire::FileId kAnotherPage{10};
  const Stream stream = Stream::from_handle(16);
  auto ending = std::make_unique<ImportCache>(control, mappings, gpu);
  auto opened = ending->event_page(kPage, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  ending->event_page(kAnotherPage, wire::FileKind::kEvents, gpu, kNoInterrupts).value().reset();
  ending->get(kFile, gpu, kNoInterrupts).value().reset();
  gpu.stall(stream);
  opened->note_wait(gpu, stream);
  opened.reset();
  ending.reset();
  EXPECT_EQ(gpu.open_memory_count(), 1);
  EXPECT_EQ(gpu.registered_count(), 2U);
  EXPECT_EQ(gpu.stalled_closings(), 0);
  gpu.resume();
}

TEST_F(ImportCacheTest, WhatIsOpenedAgainIsNotReportedAsClosed) {
  get(kFile).value().reset();
  imports.close_unused();
  const auto again = get(kFile);
  ASSERT_TRUE(again.ok());
  imports.flush();
  EXPECT_EQ(control.closed_memory, 0);
}

TEST_F(ImportCacheTest, ARefusedImportLeavesNothingAndCanBeTriedAgain) {
  control.refuses = true;
  EXPECT_EQ(wire::code_of(get(kFile).status()), ErrorCode::kUnsupported);
  imports.flush();
  EXPECT_EQ(control.closed_memory, 0) << "the daemon keeps nothing";
  control.refuses = false;
  EXPECT_TRUE(get(kFile).ok());
}

// The daemon may have answered all the same, and would keep it.
TEST_F(ImportCacheTest, AnInterruptedImportIsReportedAsClosedAndCanBeTriedAgain) {
  const auto interrupt = [] { return interrupted(std::make_exception_ptr(1)); };
  control.stopped = true;
  EXPECT_NE(interrupt_of(imports.get(kFile, gpu, interrupt).status()), nullptr);
  files.answers = 0;
  EXPECT_NE(interrupt_of(page(interrupt).status()), nullptr);
  files.answers = std::numeric_limits<int>::max();
  control.stopped = false;
  imports.flush();
  EXPECT_EQ(control.closed_memory, 1);
  EXPECT_TRUE(get(kFile).ok());
  EXPECT_TRUE(page().ok());
}

TEST_F(ImportCacheTest, AnInterruptEndsTheWaitForAnotherThreadsImport) {
  gates.shut("open_memory");
  auto first = std::async(std::launch::async, [&] { return get(kFile).value(); });
  ASSERT_TRUE(gates.reached("open_memory"));
  const auto interrupt = [] { return interrupted(std::make_exception_ptr(1)); };
  EXPECT_NE(interrupt_of(imports.get(kFile, gpu, interrupt).status()), nullptr);
  gates.open_all();
  EXPECT_EQ(first.get(), get(kFile).value());
}

TEST_F(ImportCacheTest, WhatItsOwnInterruptCheckNeedsOfAnImportIsRefused) {
  control.stopped = true;
  const auto inside = [&] { return get(kFile).status(); };
  EXPECT_EQ(wire::code_of(imports.get(kFile, gpu, inside).status()), ErrorCode::kBusy);
  control.stopped = false;
  EXPECT_TRUE(get(kFile).ok());
}

TEST_F(ImportCacheTest, WhatTheGpuRefusesIsReportedAsTheDaemonHasAnswered) {
  gpu.refuse_next_open();
  EXPECT_EQ(wire::code_of(get(kFile).status()), ErrorCode::kInternal);
  imports.flush();
  EXPECT_EQ(control.closed_memory, 1);
  EXPECT_TRUE(get(kFile).ok());
}

TEST_F(ImportCacheTest, OneThreadsOpeningKeepsNoOtherFileWaiting) {
  gates.shut("open_memory");
  auto first = std::async(std::launch::async, [&] { return get(kFile).value(); });
  ASSERT_TRUE(gates.reached("open_memory"));
  EXPECT_TRUE(get(kOtherFile).ok());
  auto second = std::async(std::launch::async, [&] { return get(kFile).value(); });
  gates.open_all();
  EXPECT_EQ(first.get(), second.get());
}

// To register pages may wait for the device.
TEST_F(ImportCacheTest, OneThreadsRegistrationKeepsNobodyElseWaiting) {
  gates.shut("register_pages");
  auto first = std::async(std::launch::async, [&] { return page().value(); });
  ASSERT_TRUE(gates.reached("register_pages"));
  EXPECT_TRUE(get(kFile).ok());
  auto second = std::async(std::launch::async, [&] { return page().value(); });
  gates.open_all();
  EXPECT_EQ(first.get(), second.get());
}

}  // namespace
}  // namespace memlease::internal
