// Handles for other processes: the rules and the traps of legacy IPC.
#include "tests/fakecuda/two_processes.h"

namespace fakecuda::testing {
namespace {

class Ipc : public TwoProcesses {};

TEST_F(Ipc, AnotherProcessSeesTheSameBytesElsewhere) {
  std::uint64_t* data = allocate();
  EXPECT_EQ(tk_fill(data, kWords, 42, nullptr), 0);
  CUDA_OK(cudaDeviceSynchronize());
  Peer peer("");
  const Answer opened = peer.ask("import data " + exported(data));
  PEER_OK(opened);
  EXPECT_NE(opened.number(), reinterpret_cast<std::uintptr_t>(data));
  checker_release(peer);
  EXPECT_EQ(peer.ask("check data 262144 42 0").number(), 0U);
  PEER_OK(peer.ask("close data"));
  checker_acquire(peer);
  CUDA_OK(cudaFree(data));
}

// R-SYNC-12: nor on hardware.
TEST_F(Ipc, TheSameProcessCannotOpen) {
  std::uint64_t* data = allocate();
  cudaIpcMemHandle_t handle = {};
  CUDA_OK(cudaIpcGetMemHandle(&handle, data));
  void* again = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorDeviceUninitialized);
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  cudaIpcEventHandle_t event_handle = {};
  CUDA_OK(cudaIpcGetEventHandle(&event_handle, event));
  cudaEvent_t opened = nullptr;
  EXPECT_EQ(cudaIpcOpenEventHandle(&opened, event_handle), cudaErrorDeviceUninitialized);
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, OpeningAgainCounts) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  Peer peer("");
  const Answer first = peer.ask("import one " + handle);
  const Answer second = peer.ask("import two " + handle);
  EXPECT_EQ(first.number(), second.number());
  PEER_OK(peer.ask("close one"));
  PEER_OK(peer.ask("check two 1 0 0"));
  PEER_OK(peer.ask("close two"));
  EXPECT_EQ(error(peer.ask("close two")), number(cudaErrorInvalidValue));
  checker_acquire(peer);
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, AnotherContextOfTheProcessFindsItMapped) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  Peer peer("");
  PEER_OK(peer.ask("import one " + handle));
  PEER_OK(peer.ask("device 1"));
  EXPECT_EQ(error(peer.ask("import two " + handle)), number(cudaErrorAlreadyMapped));
  EXPECT_EQ(error(peer.ask("close one")), number(cudaErrorInvalidValue)) << "it is not this one's";
  PEER_OK(peer.ask("device 0"));
  PEER_OK(peer.ask("close one"));
  PEER_OK(peer.ask("device 1"));
  PEER_OK(peer.ask("import two " + handle));
  PEER_OK(peer.ask("close two"));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, TheFlagMustBePassedAndTheHandleWhole) {
  Peer peer("");
  PEER_OK(peer.ask("malloc theirs 262144"));
  const Answer handle = peer.ask("export theirs");
  cudaIpcMemHandle_t ours = {};
  for (std::size_t i = 0; i < sizeof ours; ++i) {
    ours.reserved[i] = static_cast<char>(std::stoi(handle.text.substr(2 * i, 2), nullptr, 16));
  }
  void* address = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&address, ours, 0), cudaErrorInvalidValue);
  CUDA_OK(cudaIpcOpenMemHandle(&address, ours, cudaIpcMemLazyEnablePeerAccess));
  CUDA_OK(cudaIpcCloseMemHandle(address));
  ours.reserved[20] = static_cast<char>(ours.reserved[20] + 1);
  EXPECT_EQ(cudaIpcOpenMemHandle(&address, ours, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidValue);
  PEER_OK(peer.ask("free theirs"));
}

TEST_F(Ipc, AnInteriorAddressIsExportedAsItsAllocation) {
  std::uint64_t* data = allocate();
  EXPECT_EQ(exported(data), exported(data + 100));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, WhatWasImportedCannotBeExportedNorFreed) {
  std::uint64_t* data = allocate();
  Peer peer("");
  PEER_OK(peer.ask("import data " + exported(data)));
  EXPECT_EQ(error(peer.ask("export data")), number(cudaErrorInvalidValue));
  EXPECT_EQ(error(peer.ask("free data")), number(cudaErrorInvalidValue));
  PEER_OK(peer.ask("close data"));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, PartOfAGranuleIsExportedWithItsNeighbours) {
  std::uint64_t* data = allocate(100);
  exported(data);
  CUDA_OK(cudaFree(data));
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kMisuse);
  EXPECT_THAT(finding.text, ::testing::HasSubstr("neighbours"));
}

TEST_F(Ipc, FreeingWhatIsOpenIsFoundAndTheBytesStayTaken) {
  std::uint64_t* data = allocate();
  Peer peer("");
  PEER_OK(peer.ask("import data " + exported(data)));
  CUDA_OK(cudaFree(data));
  std::size_t left = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(total - left, kGranularity);
  PEER_OK(peer.ask("close data"));
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(total, left);
  const Finding finding = only(world.findings());
  EXPECT_THAT(finding.text, ::testing::HasSubstr("had it open"));
}

TEST_F(Ipc, AStaleHandleIsRefused) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  CUDA_OK(cudaFree(data));
  data = allocate();
  Peer peer("");
  EXPECT_EQ(error(peer.ask("import data " + handle)), number(cudaErrorInvalidResourceHandle));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, WithTheKnobAStaleHandleOpensWhatLiesThereNow) {
  world->set(Knob::kStaleHandlesAlias, 1);
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  CUDA_OK(cudaFree(data));
  data = allocate();
  EXPECT_EQ(exported(data), handle);
  Peer peer("");
  PEER_OK(peer.ask("import data " + handle));
  PEER_OK(peer.ask("close data"));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, APidNamespaceCanMatter) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  world->set(Knob::kPidNamespaceMatters, 1);
  Peer peer("");
  PEER_OK(peer.ask("import data " + handle)) << "it is the same one";
  PEER_OK(peer.ask("close data"));
  world->layout().processes[1].pid_namespace ^= 1;
  EXPECT_EQ(error(peer.ask("import data " + handle)), number(cudaErrorMapBufferObjectFailed));
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, APidThatIsTheSameInAnotherNamespaceIsRefused) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  Peer peer("");
  PEER_OK(peer.ask("device 0"));
  u32& pid = world->layout().processes[1].pid;
  const u32 real = std::exchange(pid, static_cast<u32>(getpid()));
  EXPECT_EQ(error(peer.ask("import data " + handle)), number(cudaErrorDeviceUninitialized));
  pid = real;
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, ADeviceThatIsHiddenHereCanBeOpened) {
  std::uint64_t* data = allocate();
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  {
    Peer peer("");
    PEER_OK(peer.ask("import data " + exported(data)));
    PEER_OK(peer.ask("fill data 16 3 0"));
    PEER_OK(peer.ask("sync 0"));
    PEER_OK(peer.ask("close data"));
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
  CUDA_OK(cudaFree(data));
  EXPECT_THAT(only(world.findings()), Is(What::kWriteAfterWrite)) << "freed without a word";
}

TEST_F(Ipc, AnEventWorksInBothDirections) {
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  std::uint64_t* data = allocate();
  const cudaStream_t stream = new_stream();
  Peer peer("");
  PEER_OK(peer.ask("import data " + exported(data)));
  PEER_OK(peer.ask("import_event event " + exported(event)));
  PEER_OK(peer.ask("stream s"));

  EXPECT_EQ(tk_fill(data, kWords, 1, stream), 0);
  CUDA_OK(cudaEventRecord(event, stream));
  PEER_OK(peer.ask("wait s event"));
  EXPECT_EQ(peer.ask("check data 262144 1 s").number(), 0U);

  PEER_OK(peer.ask("fill data 262144 2 s"));
  PEER_OK(peer.ask("record event s"));
  CUDA_OK(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(tk_add(data, kWords, 1, stream), 0);
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first_of(data), 3U);

  PEER_OK(peer.ask("close data"));
  PEER_OK(peer.ask("destroy_event event"));
  PEER_OK(peer.ask("destroy_stream s"));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaFree(data));
}

// One with timing, or not for other processes, is not exported.
TEST_F(Ipc, AnEventMustBeMadeForIt) {
  const cudaEvent_t event = new_event();
  cudaIpcEventHandle_t handle = {};
  EXPECT_EQ(cudaIpcGetEventHandle(&handle, event), cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Ipc, UsingAnEventAfterItsExporterDestroyedItIsFound) {
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  Peer peer("");
  PEER_OK(peer.ask("import_event event " + exported(event)));
  CUDA_OK(cudaEventDestroy(event));
  EXPECT_FALSE(peer.ask("record event 0").ok());
  PEER_OK(peer.ask("destroy_event event"));
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kMisuse);
  EXPECT_EQ(finding.first.pid, static_cast<u32>(peer.pid()));
}

TEST_F(Ipc, ADevShmOfOnesOwnCanMatter) {
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  const std::string handle = exported(event);
  world->set(Knob::kShmMatters, 1);
  Peer peer("");
  PEER_OK(peer.ask("import_event event " + handle)) << "it is the same one";
  PEER_OK(peer.ask("destroy_event event"));
  world->layout().processes[1].shm ^= 1;
  EXPECT_EQ(error(peer.ask("import_event event " + handle)),
            number(cudaErrorMapBufferObjectFailed));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Ipc, WhoIsInAnotherPidNamespaceCountsAsThere) {
  std::uint64_t* data = allocate();
  const std::string handle = exported(data);
  auto& owner = world->layout().processes[0];
  const u32 real = std::exchange(owner.pid, u32{1} << 30);  // there is nobody of that number
  Peer peer("");
  EXPECT_EQ(error(peer.ask("import data " + handle)), number(cudaErrorInvalidResourceHandle));
  owner.pid_namespace ^= 1;
  PEER_OK(peer.ask("import data " + handle));
  PEER_OK(peer.ask("close data"));
  owner.pid_namespace ^= 1;
  owner.pid = real;
  CUDA_OK(cudaFree(data));
}

TEST_F(Ipc, EventsCanBePrivateOrUnknownToTheDevice) {
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  const std::string handle = exported(event);
  Peer peer("");
  world->set(Knob::kEventsPrivate, 1);
  EXPECT_EQ(error(peer.ask("import_event event " + handle)),
            number(cudaErrorMapBufferObjectFailed));
  world->set(Knob::kIpcEvents, 0);
  EXPECT_EQ(error(peer.ask("import_event event " + handle)), number(cudaErrorNotSupported));
  CUDA_OK(cudaEventDestroy(event));
}

}  // namespace
}  // namespace fakecuda::testing
