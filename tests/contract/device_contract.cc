#include "tests/contract/device_contract.h"

#include <chrono>
#include <memory>
#include <thread>

#include "tests/contract/findings.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using server::DeviceBackend;
using server::SharedMemory;
using wire::code_of;
using wire::ErrorCode;

constexpr std::uint64_t kWordBytes = 8;

void check_sizes(const DeviceBackend& backend, Findings& findings) {
  const auto sizes = backend.segment_sizes();
  findings.expect(sizes.unit >= kWordBytes && sizes.first % sizes.unit == 0 &&
                      sizes.most % sizes.unit == 0 && sizes.first <= sizes.most,
                  "sizes of segments are no multiples of their unit");
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{4096}, sizes.unit}) {
    const std::uint64_t alignment = backend.alignment_bytes(size);
    findings.expect(alignment >= 256 && (alignment & (alignment - 1)) == 0,
                    "an alignment is no power of two, or less than 256");
  }
}

void check_memory(SharedMemory& memory, std::uint64_t size_bytes, Findings& findings) {
  findings.expect(memory.size_bytes() == size_bytes, "the size is another one than was asked for");
  findings.expect(code_of(memory.export_fd(false).status()) == ErrorCode::kUnsupported,
                  "memory with a handle has a descriptor, too");
}

// Two segments, and one that comes after the first has gone.
void check_bytes(DeviceBackend& backend, Neighbour& neighbour, Findings& findings) {
  const std::uint64_t size_bytes = backend.segment_sizes().unit;
  const std::uint64_t words = size_bytes / kWordBytes;
  auto one = backend.create_segment(size_bytes, wire::ReserveKept::kAll);
  auto other = backend.create_segment(size_bytes, wire::ReserveKept::kAll);
  if (!one.ok() || !other.ok()) {
    findings.expect(false, "a segment could not be made");
    return;
  }
  for (auto* memory : {one->get(), other->get()}) check_memory(*memory, size_bytes, findings);
  findings.expect((*one)->data() == nullptr, "the daemon maps a segment");
  const wire::DeviceHandle* const handle = (*one)->handle();
  if (handle == nullptr || (*other)->handle() == nullptr) {
    findings.expect(false, "a segment has no handle");
    return;
  }
  findings.expect(*handle != *(*other)->handle(), "two segments have one handle");
  findings.expect(neighbour.differing(*handle, words, 0) == 0, "fresh bytes are not zero");
  findings.expect(neighbour.fill(*handle, words, 7) && neighbour.differing(*handle, words, 7) == 0,
                  "what one process writes another does not see");
  findings.expect(neighbour.differing(*(*other)->handle(), words, 0) == 0,
                  "two segments share bytes");
  one->reset();
  const auto later = backend.create_segment(size_bytes, wire::ReserveKept::kAll);
  findings.expect(later.ok() && (*later)->handle() != nullptr &&
                      neighbour.differing(*(*later)->handle(), words, 0) == 0,
                  "used bytes are not zero when they come back");
}

void check_limits(DeviceBackend& backend, Findings& findings) {
  const std::uint64_t unit = backend.segment_sizes().unit;
  const auto too_large =
      backend.create_segment((std::uint64_t{1} << 50) / unit * unit, wire::ReserveKept::kAll);
  findings.expect(code_of(too_large.status()) == ErrorCode::kOutOfMemory,
                  "more than there is is not OutOfMemory");
  findings.expect(backend.create_segment(unit, wire::ReserveKept::kAll).ok(),
                  "after OutOfMemory there is no memory at all");
}

}  // namespace

std::vector<std::string> violations_of(DeviceBackend& backend, Neighbour& neighbour) {
  Findings findings;
  check_sizes(backend, findings);
  check_bytes(backend, neighbour, findings);
  check_limits(backend, findings);
  return findings.take();
}

}  // namespace memlease::testing
