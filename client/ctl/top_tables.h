// What `memleasectl top` shows of a daemon at one moment, as tables. Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "client/ctl/live.h"
#include "client/ctl/table.h"

namespace memlease::ctl {

enum class SortKey { kRate, kBandwidth, kBytes, kVersion, kOpen, kName };
// By the words of --sort.
extern const std::map<std::string, SortKey> kSortKeys;

// A table, and which of its columns matter most: fit().
struct Ranked {
  Table table;
  std::vector<int> ranks;
};

// The greatest first, names from A; at most `rows` of them. In tables of sessions and devices a key
// that these do not have is the rate.
Ranked top_arrays(const Live& live, const v1::ListSessionsReply& sessions, SortKey key,
                  std::size_t rows);
Ranked top_sessions(const Live& live, const v1::ListSessionsReply& sessions, SortKey key,
                    std::size_t rows);
Ranked top_devices(const Live& live, SortKey key, std::size_t rows);
// One row: the sums.
Table top_sums(const Live& live, const v1::ListSessionsReply& sessions);

}  // namespace memlease::ctl
