// Names of things that cross the process boundary. Each id says where it is unique. Those of
// arrays are never reused within one incarnation of the daemon, so a stale one is an error; those
// of sessions are after 2^32 others, and those of files as server/core/file_table.h tells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memlease::wire {

// One connected client process. 0 is never used.
enum class SessionId : std::uint32_t {};
// One array, from its creation until its last byte is returned. 0 is never used.
enum class ArrayId : std::uint64_t {};
// One shared file (segment, board, session page, takeover page) of the daemon. At most kMaxFileId,
// so that it fits into a word of the board beside a row number. Unique among the files that there
// are, and in a session for as long as it lives: one that it has been told of never means another
// file to it. 0 means "none".
enum class FileId : std::uint32_t {};

inline constexpr std::uint32_t kMaxFileId = (1U << 28) - 1;

constexpr std::uint32_t to_int(SessionId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint64_t to_int(ArrayId id) { return static_cast<std::uint64_t>(id); }
constexpr std::uint32_t to_int(FileId id) { return static_cast<std::uint32_t>(id); }

// Where a row of the slot protocol stands: the file of a session page and the number of its first
// 64-byte unit therein.
struct RowRef {
  FileId file{0};
  std::uint32_t unit = 0;
  friend bool operator==(const RowRef&, const RowRef&) = default;
};

// A byte range of a shared file.
struct FileRange {
  FileId file{0};
  std::uint64_t offset = 0;
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

// What a process opens a device's memory by that another one made: cudaIpcMemHandle_t. Means
// something on this machine alone.
using DeviceHandle = std::array<std::uint8_t, 64>;

// How many arrays a session leaves by one call at most.
inline constexpr std::size_t kMostDepartures = 256;

// From the oldest departure without an answer on, so many numbers of departures are in use at most.
inline constexpr std::uint64_t kDeparturesInDoubt = 4096;

// That a process asks for by one FETCH, and so the descriptors of a message.
inline constexpr std::size_t kMaxFetchedFiles = 8;

// The calls that can be made over the attach channel. The numbers stand on the wire.
enum class OpeningCall : std::uint8_t { kOpen = 1, kCreate = 2 };

// What a shared file holds; decides how an importer maps it.
enum class FileKind : std::uint32_t { kSegment = 1, kBoard = 2, kSessionPage = 3, kEvents = 4 };

}  // namespace memlease::wire
