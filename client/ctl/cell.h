// One value that memleasectl shows, and its three spellings: for people (on a terminal), plain (in
// a pipe: exact numbers, points in time), and JSON. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/attributes.h"

namespace memlease::ctl {

struct Bytes {
  std::uint64_t count = 0;
};
// Bytes that may be limited: 0 = no limit.
struct Limit {
  std::uint64_t bytes = 0;
};
struct Time {
  std::uint64_t unix_ms = 0;
};
struct Duration {
  std::uint64_t ms = 0;
};
// When something happened: on a terminal the time of day.
struct Moment {
  std::uint64_t unix_ms = 0;
};
// A length of time that may be short.
struct Seconds {
  double count = 0;
};
struct Rate {
  double per_s = 0;
};
struct BytesRate {
  double per_s = 0;
};
// "host" or a GPU's UUID, of which a table for people has the beginning.
struct Device {
  std::string name;
};
// A process's command line, of which a table for people has the program's name without its folder,
// and as much as has room.
struct Command {
  std::string line;
};
// Of a process: 0 = there is one, in another PID namespace than the daemon's. "?" and null.
struct Pid {
  std::int32_t number = 0;
};
struct Uid {
  std::uint32_t value = 0;
};
struct Mode {
  std::uint32_t bits = 0;
};

// monostate: nothing, "-" and null. Attributes are spelt as JSON everywhere.
using Cell =
    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, std::string, Bytes, Limit, Time,
                 Duration, Moment, Seconds, Rate, BytesRate, Device, Command, Pid, Uid, Mode,
                 std::vector<std::int64_t>, std::vector<std::uint64_t>, wire::Attributes>;

// `now_ms` is what ages count to.
std::string to_human(const Cell& cell, std::uint64_t now_ms);
std::string to_plain(const Cell& cell);
std::string to_json(const Cell& cell);

// "1.5 GiB"; "3 min": at most three digits and a unit.
std::string human_bytes(std::uint64_t bytes);
std::string human_duration(std::uint64_t ms);
// Quoted and escaped; '?' for bytes that are not UTF-8.
std::string json_string(std::string_view text);

}  // namespace memlease::ctl
