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
  EXPECT_TRUE((*opened)->registered());
  EXPECT_EQ(*page(), *opened);
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(files.fetches, 1);
  opened->reset();
  EXPECT_EQ(gpu.registered_count(), 0U);
  imports.flush();
  EXPECT_EQ(control.calls(), 0U);
}

TEST_F(ImportCacheTest, APageThatCannotBeRegisteredIsForHostsAlone) {
  gpu.refuse_registrations(true);
  const auto opened = page();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->registered());
}

TEST_F(ImportCacheTest, ADroppedImportIsReportedByTheNextFlushAlone) {
  get(kFile).value().reset();
  EXPECT_EQ(gpu.open_memory_count(), 0);
  EXPECT_EQ(control.closed_memory, 0) << "whoever drops the last use makes no call";
  imports.flush();
  EXPECT_EQ(control.closed_memory, 1);
  const std::uint64_t calls = control.calls();
  imports.flush();
  EXPECT_EQ(control.calls(), calls) << "there is nothing to report";
}

TEST_F(ImportCacheTest, WhatIsOpenedAgainIsNotReportedAsClosed) {
  get(kFile).value().reset();
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
