// The shared file of a world: what the processes that use the stand-in know of each other. It plays
// the part of the driver and its devices. Every field that two processes write is atomic; an entry
// appears and vanishes by one store to its state, and no lock is shared, so a process may be killed
// anywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace fakecuda {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u64 kMagic = 0x6b61'6664'6c72'6f77;  // "worldfak"
inline constexpr u32 kLayoutVersion = 4;
inline constexpr u64 kGranularity = 2ULL << 20;

inline constexpr u32 kMaxDevices = 16;
inline constexpr u32 kMaxProcesses = 4096;
inline constexpr u32 kMaxCalls = 256;
inline constexpr u32 kMaxFaults = 32;
inline constexpr u32 kMaxAllocations = 16384;
inline constexpr u32 kMaxEvents = 65536;
inline constexpr u32 kEventRing = 64;
inline constexpr u32 kMaxOvertaken = 16;
inline constexpr u32 kWakeWords = 256;
inline constexpr u32 kNameBytes = 1 << 20;
inline constexpr u32 kMaxRecords = 1 << 22;

// What a test may choose about the world, at any time.
enum class Knob : u32 {
  kDriverVersion,        // 13000; too old a driver makes every call fail with 35
  kPeerAccess,           // 1: each device can reach the others
  kIpcEvents,            // attribute 125
  kStreamMemoryOps,      // attribute 122; 0: the calls are not supported
  kReadOnlyRegister,     // attribute 113
  kRegisteredInPlace,    // attribute 91; 0: the device has registered memory at other addresses
  kCpuStoreWakes,        // 1: a CPU's store to a word lets a stream go on that waits for it
  kLaterRecordReleases,  // 1: a later record frees those who wait for one that never completes
  kRecordsQueue,         // 1: a record completes after the earlier ones; a lost one blocks them all
  kWaitsFollow,          // 1: who waits for an event waits for its newest record, not the last then
  kNotReadyStays,        // 1: a query's "not ready" is the last error
  kStaleHandlesAlias,    // 1: a handle of freed memory opens what lies there now
  kPidNamespaceMatters,  // 1: a handle from another PID namespace does not open
  kEventsPrivate,        // 1: event handles do not open, as with a /dev/shm of one's own
  kShmMatters,           // 1: an event handle from where /dev/shm is another does not open
  kEventsOutlive,        // 1: an event that its exporter has destroyed goes on for who opened it
  kCloseLosesRecord,     // 1: a record never completes if its recorder, not the exporter, closed it
  kStaleStreamsRefused,  // 1: a destroyed stream is refused with 400; 0: its use is a SIGSEGV
  kOpensWait,            // 1: opening memory or events, closing events waits for the context's work
  kClosesWait,           // 1: closing another process's memory, unregistering pages does
  kExchangeIgnored,      // 1: a thread keeps its capture mode, whatever it asks for
  kThreadsApart,         // 1: the checker takes a process's host threads for unordered
  kDelayUs,              // longest random pause before each operation of a stream
  kCount,
};

struct Device {
  std::array<unsigned char, 16> uuid;
  u64 capacity_bytes;
};

// One process that uses the stand-in.
struct Process {
  enum State : u32 { kFree, kMaking, kLive, kEnded };
  std::atomic<u32> state;
  u32 pid;
  u64 start_time;
  u64 pid_namespace;
  u64 shm;  // device of its /dev/shm
  std::array<char, 16> name;
  std::array<std::atomic<u32>, kMaxDevices> contexts;  // ever made
  // What it holds now; not 0 at a proper end is a leak.
  std::atomic<std::int32_t> allocations;
  std::atomic<std::int32_t> imports;
  std::atomic<std::int32_t> host_buffers;
  std::atomic<std::int32_t> streams;
  std::atomic<std::int32_t> events;
  std::array<std::atomic<u32>, kMaxCalls> calls;
};

struct Allocation {
  enum State : u32 { kFree, kMaking, kLive, kFreed };
  std::atomic<u32> state;
  std::atomic<u32> generation;
  u32 device;
  u32 owner;  // index of a Process
  u64 id;     // never given twice
  u64 size_bytes;
  u64 address;  // in the owner
};

struct EventSlot {
  enum State : u32 { kFree, kMaking, kLive, kDestroyed };
  std::atomic<u32> state;
  std::atomic<u32> generation;
  u32 device;
  u32 owner;
  std::atomic<u32> wake;     // grows with each completion; a futex
  std::atomic<u32> pending;  // records that streams have not come to
  std::atomic<u64> issued;
  std::atomic<u64> newest_done;
  std::atomic<u64> done_at_ns;
  std::array<std::atomic<u64>, kEventRing> done;  // of record id at [id % kEventRing]
  // Records whose place in `done` a later one took before they were complete; 0: none.
  std::array<std::atomic<u64>, kMaxOvertaken> overtaken;
};

struct Fault {
  enum State : u32 { kFree, kMaking, kLive };
  enum Mode : u32 { kRefuse, kPoison };  // the call fails, or the context breaks after it
  std::atomic<u32> state;
  std::atomic<u32> call;  // index of a CallName
  std::atomic<u32> pid;   // 0: any process
  std::atomic<u32> mode;
  std::atomic<std::int32_t> error;
  std::atomic<std::int32_t> skip;   // calls that still succeed
  std::atomic<std::int32_t> times;  // that fail then; negative: all
};

struct CallName {
  enum State : u32 { kFree, kMaking, kLive };
  std::atomic<u32> state;
  std::array<char, 60> name;
};

// What happened, in an order in which each cause stands before its effects.
enum class Kind : u32 {
  kNone,
  kAgent,     // a: process, b: AgentKind | device << 8, c: its number or thread id
  kAllocate,  // a: allocation, b: size, c: process
  kEnqueue,   // a: operation, b: its name
  kExecute,   // a: operation
  kTouch,     // b: the name of what the host does by itself next
  kAccess,    // a: allocation, b: offset | kWriteBit, c: size
  kFree,      // a: allocation; a write of all of it
  kRelease,   // the key of b and c, whose KeyKind is a
  kAcquire,
  kWriteWord,  // a: memory, b: offset, c: value
  kWaitWord,   // a: memory, b: offset | condition << 60, c: value
  kSawWord,    // by a host; a: memory, b: offset, c: value
  kExit,       // a: process; all that it did is over
  kViolation,  // a: Violation, b and c: its subject
};
inline constexpr u64 kWriteBit = 1ULL << 63;

enum class AgentKind : u32 { kHost, kStream, kLegacyStream, kPerThreadStream };

enum class KeyKind : u64 {
  kMark,   // b: a marker
  kEvent,  // b: slot << 32 | generation, c: record
  kHost,   // b, c: whatever two host sides agree on
};

enum class Violation : u64 {
  kFreedWhileOpen,         // b: allocation
  kEventUsedAfterDestroy,  // b: slot
  kStreamUsedAfterDestroy,
  kSharedNeighbours,         // b: allocation, c: size
  kUnorderedWord,            // b: offset, c: value; a word went backwards
  kUnmappedWhileRegistered,  // b: memory, c: size
  kUnregisteredWhileInUse,   // likewise
};

struct Record {
  std::atomic<Kind> kind;
  u32 agent;
  u64 a, b, c;
};

struct Layout {
  u64 magic;
  u32 version;
  u32 devices;
  u64 id;
  std::array<std::atomic<u32>, static_cast<std::size_t>(Knob::kCount)> knobs;
  std::array<Device, kMaxDevices> device;
  std::atomic<u32> faults_in_use;
  std::array<Fault, kMaxFaults> faults;
  std::array<CallName, kMaxCalls> calls;
  std::atomic<u64> next_id;  // of allocations, operations, markers
  std::atomic<u32> next_agent;
  std::atomic<u32> next_event;  // where to look for a free slot first
  std::array<std::atomic<u32>, kWakeWords> word_wakes;
  std::array<Process, kMaxProcesses> processes;
  std::array<Allocation, kMaxAllocations> allocations;
  std::array<EventSlot, kMaxEvents> events;
  std::atomic<u32> names_used;
  std::array<char, kNameBytes> names;
  std::atomic<u64> records_used;
  std::array<Record, kMaxRecords> records;
};

static_assert(std::atomic<u64>::is_always_lock_free && sizeof(Record) == 32);

}  // namespace fakecuda
