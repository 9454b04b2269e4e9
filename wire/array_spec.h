// What an array is, as its creator asks for it: name, element type, shape, layout, device, slots,
// lifetime, mode, writer. Validation stands here once; client and daemon both call it, the daemon
// because it trusts nobody, the client so that a mistake costs no call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/dtype.h"
#include "wire/session_pages.h"

namespace memlease::wire {

inline constexpr std::uint32_t kDefaultSlots = 3;
inline constexpr std::size_t kMaxNdim = 32;
inline constexpr std::size_t kMaxNameBytes = 255;
// What an array may grow to where nobody says how far, in bytes, as long as that is the whole of
// kMaxSlots.
inline constexpr std::uint64_t kDefaultGrowthBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 46;

enum class Lifetime : std::uint8_t { kSession = 1, kPersistent = 2 };
// Which process of those that may write becomes the writer: whoever asks next, or one alone.
enum class Writer : std::uint8_t { kAny = 1, kExclusive = 2 };

// What arrays of one kind have in common: all but their names.
struct ArrayKind {
  DType dtype;
  std::vector<std::int64_t> shape;          // elements per dimension
  std::vector<std::int64_t> strides_bytes;  // empty = C order
  std::string device = "host";
  std::uint32_t slots = kDefaultSlots;
  std::uint32_t max_slots = 0;  // that it may grow to while readers hold the others; 0 = default
  Lifetime lifetime = Lifetime::kSession;
  std::uint32_t mode = 0600;  // of rw-rw-rw- alone
  Writer writer = Writer::kAny;
  friend bool operator==(const ArrayKind&, const ArrayKind&) = default;
};

struct ArraySpec : ArrayKind {
  std::string name;
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

inline bool is_host(const ArrayKind& kind) { return kind.device == "host"; }

bool is_name_char(char c);  // one of A-Z a-z 0-9 . _ -
// Path-like: parts of such characters joined by single '/', neither first nor last, no "." or "..".
absl::Status validate_name(std::string_view name);
// A replica's own name is "its home's@its device", which no array can be created by.
std::string name_of_replica(std::string_view home, std::string_view device);
bool is_replica_name(std::string_view name);
// Of what is opened or withdrawn: an array's name or a replica's.
absl::Status validate_opened_name(std::string_view name);
// A name in which `*` is any text and `?` any one character; may be empty.
absl::Status validate_pattern(std::string_view pattern);

// All of the spec. On success the array's layout is sound: every element lies inside of
// size_bytes(), no two elements overlap, and nothing overflows.
absl::Status validate(const ArraySpec& spec);

// Strides that a validated spec has, in bytes: its own or those of C order.
std::vector<std::int64_t> strides_bytes_of(const ArrayKind& kind);
// Bytes of one slot of a validated spec (0 where a dimension is 0).
std::uint64_t size_bytes_of(const ArrayKind& kind);
// The slots that a validated spec may grow to: its own max_slots, or by default 64 where these are
// small, else eight times its slots; what cannot grow (slots=1): its slots.
std::uint32_t max_slots_of(const ArrayKind& kind);
// "float32[512,512]".
std::string describe(const ArrayKind& kind);

}  // namespace memlease::wire
