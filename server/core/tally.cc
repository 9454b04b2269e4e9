#include "server/core/tally.h"

#include <cstddef>
#include <limits>
#include <new>

namespace memlease::server {
namespace {

// Nobody counts so far between two looks: 500 days in microseconds. Sums cannot wrap around.
constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 45;

// What a count has grown by since `seen`, which it becomes; nothing if it has been set back, or is
// a lie.
std::uint64_t growth(std::uint64_t now, std::uint64_t& seen) {
  if (now <= seen) return 0;
  const std::uint64_t grown = now - seen;
  seen = now;
  return grown <= kMostAtOnce ? grown : 0;
}

// Sums of products that are not bounded so stay at the most there is.
void add_product(std::uint64_t& sum, std::uint64_t count, std::uint64_t bytes) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product) ||
      __builtin_add_overflow(sum, product, &sum)) {
    sum = std::numeric_limits<std::uint64_t>::max();
  }
}

}  // namespace

void Tally::reclaimed(std::string_view reason, std::uint64_t bytes) {
  Reclaims& reclaims = totals_.reclaims[std::string(reason)];
  ++reclaims.arrays;
  reclaims.bytes += bytes;
}

void Tally::look(Array& array, const wire::WriterRow& row) {
  const std::uint64_t version = wire::unpack_publication(row.publication.load()).version;
  totals_.versions += growth(version, array.tallied_version);
  totals_.empty_writes += growth(row.empty_writes.load(), array.tallied_empty_writes);
  const std::uint64_t copied = growth(row.copied_versions.load(), array.tallied_copied_versions);
  totals_.copied_versions += copied;
  add_product(totals_.copied_bytes, copied, array.slot_bytes);
}

void Tally::look(Session& session) {
  for (const auto& [domain, pages] : session.pages) {
    for (const wire::FileId file : pages->files()) {
      const auto& counts =
          *std::launder(reinterpret_cast<const wire::SessionCounts*>(files_.data({file, 0})));
      wire::SessionSums& seen = session.tallied[file];
      for (std::size_t i = 0; i < wire::SessionCounts::kWords; ++i) {
        totals_.sessions.words()[i] +=
            growth(counts.words()[i].load(std::memory_order_relaxed), seen.words()[i]);
      }
    }
  }
}

}  // namespace memlease::server
