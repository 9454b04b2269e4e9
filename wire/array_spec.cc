#include "wire/array_spec.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"

namespace memlease::wire {
namespace {

absl::Status invalid(std::string_view message, std::string_view hint) {
  return make_error(ErrorCode::kInvalidArgument, message, hint);
}

absl::Status validate_shape(const ArraySpec& spec) {
  if (spec.shape.size() > kMaxNdim) {
    return invalid(fmt::format("shape has {} dimensions, at most {} are possible",
                               spec.shape.size(), kMaxNdim),
                   "Flatten some dimensions.");
  }
  std::uint64_t bytes = spec.dtype.itemsize_bytes();
  for (const std::int64_t extent : spec.shape) {
    if (extent < 0) {
      return invalid(
          fmt::format("shape ({}) has the negative extent {}", fmt::join(spec.shape, ", "), extent),
          "Extents are 0 or more.");
    }
    if (extent > 0 && bytes > kMaxArrayBytes / static_cast<std::uint64_t>(extent)) {
      return invalid(fmt::format("shape ({}) of {} needs more than {} bytes a slot",
                                 fmt::join(spec.shape, ", "), name_of(spec.dtype), kMaxArrayBytes),
                     "Split the array.");
    }
    if (extent > 0) bytes *= static_cast<std::uint64_t>(extent);
  }
  return absl::OkStatus();
}

// Sorted by stride, each dimension must step over the whole of the smaller ones. That is stricter
// than "no two elements overlap" (which is hard to decide), and every layout in use passes.
absl::Status validate_strides(const ArraySpec& spec) {
  if (spec.strides_bytes.empty()) return absl::OkStatus();
  const auto shown = fmt::format("strides ({}) of shape ({})", fmt::join(spec.strides_bytes, ", "),
                                 fmt::join(spec.shape, ", "));
  if (spec.strides_bytes.size() != spec.shape.size()) {
    return invalid(fmt::format("{} differ in length", shown),
                   "Give one stride in bytes per dimension.");
  }
  if (std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end())
    return absl::OkStatus();
  const std::int64_t itemsize = spec.dtype.itemsize_bytes();
  std::vector<std::size_t> order(spec.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return spec.strides_bytes[a] < spec.strides_bytes[b];
  });
  std::int64_t span = itemsize;
  for (const std::size_t dim : order) {
    const std::int64_t extent = spec.shape[dim];
    const std::int64_t stride = spec.strides_bytes[dim];
    if (stride % itemsize != 0) {
      return invalid(
          fmt::format("{}: {} is not a multiple of the item size {}", shown, stride, itemsize),
          "Elements of an array begin at multiples of their size.");
    }
    if (extent == 1) continue;
    if (stride < span) {
      return invalid(fmt::format("{}: elements would overlap or lie before the first one", shown),
                     "Use positive strides that step over the inner dimensions.");
    }
    if (stride > static_cast<std::int64_t>(kMaxArrayBytes) / extent) {
      return invalid(fmt::format("{}: needs more than {} bytes", shown, kMaxArrayBytes),
                     "Use smaller strides.");
    }
    span = stride * (extent - 1) + span;
  }
  return absl::OkStatus();
}

absl::Status validate_max_slots(const ArraySpec& spec) {
  if (spec.max_slots < spec.slots || spec.max_slots > kMaxSlots) {
    return invalid(fmt::format("max_slots is {}, {} (slots) to {} are possible", spec.max_slots,
                               spec.slots, kMaxSlots),
                   "Leave it out, or give slots for an array that never grows.");
  }
  if (spec.max_slots == spec.slots) return absl::OkStatus();
  if (spec.slots == 1) {
    return invalid(fmt::format("slots is 1 and max_slots {}: with one slot readers and the writer "
                               "take turns, and the array does not grow",
                               spec.max_slots),
                   "Use slots=2 or more.");
  }
  return absl::OkStatus();
}

}  // namespace

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

std::string name_of_replica(std::string_view home, std::string_view device) {
  return fmt::format("{}@{}", home, device);
}

bool is_replica_name(std::string_view name) { return name.find('@') != std::string_view::npos; }

absl::Status validate_opened_name(std::string_view name) {
  const std::size_t at = name.find('@');
  if (auto status = validate_name(name.substr(0, at)); !status.ok() || at == name.npos) {
    return status;
  }
  const std::string_view device = name.substr(at + 1);
  if (!device.empty() && std::all_of(device.begin(), device.end(), is_name_char)) {
    return absl::OkStatus();
  }
  return invalid("what follows the @ in the name is not a device",
                 "A replica's name is its array's, @, and its device: memleasectl ls shows it.");
}

absl::Status validate_pattern(std::string_view pattern) {
  constexpr const char* kHint =
      "A pattern is a name in which * is any text and ? any one character: sim/*/density.";
  if (pattern.size() > kMaxNameBytes) {
    return invalid(fmt::format("the pattern has {} bytes, at most {} are possible", pattern.size(),
                               kMaxNameBytes),
                   kHint);
  }
  constexpr std::string_view kOthers = "*?/@";
  const auto wrong = std::ranges::find_if_not(
      pattern, [&](char c) { return is_name_char(c) || kOthers.find(c) != kOthers.npos; });
  if (wrong == pattern.end()) return absl::OkStatus();
  return invalid(fmt::format("the pattern has byte 0x{:02x} at position {}",
                             static_cast<unsigned char>(*wrong), wrong - pattern.begin()),
                 kHint);
}

absl::Status validate_name(std::string_view name) {
  if (is_replica_name(name)) {
    return invalid(fmt::format("'{}' has an @, which only names of replicas have", name),
                   "Open the array itself, and ask it for its replica: array.on(device).");
  }
  constexpr std::string_view kHint =
      "Names are paths like sim/rank0/density: parts of A-Z a-z 0-9 . _ - joined by single "
      "slashes.";
  if (name.empty()) return invalid("the name is empty", kHint);
  if (name.size() > kMaxNameBytes) {
    return invalid(
        fmt::format("the name has {} bytes, at most {} are possible", name.size(), kMaxNameBytes),
        kHint);
  }
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return invalid(fmt::format("the name '{}' has the part '{}'", name, part), kHint);
    }
    const auto bad = std::find_if_not(part.begin(), part.end(), is_name_char);
    if (bad != part.end()) {
      return invalid(
          fmt::format("the name has byte 0x{:02x} at position {}", static_cast<unsigned char>(*bad),
                      begin + static_cast<std::size_t>(bad - part.begin())),
          kHint);
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status validate(const ArraySpec& spec) {
  if (auto status = validate_name(spec.name); !status.ok()) return status;
  if (!is_known(spec.dtype)) {
    return invalid(
        fmt::format("dtype {{code {}, bits {}, lanes {}}} is not known",
                    static_cast<int>(spec.dtype.code), spec.dtype.bits, spec.dtype.lanes),
        "Known are " + known_dtype_names() + ".");
  }
  if (auto status = validate_shape(spec); !status.ok()) return status;
  if (auto status = validate_strides(spec); !status.ok()) return status;
  if (spec.slots < 1 || spec.slots > kMaxSlots) {
    return invalid(fmt::format("slots is {}, 1 to {} are possible", spec.slots, kMaxSlots),
                   "Rule of thumb: the number of slow readers + 2.");
  }
  if (spec.max_slots != 0) {
    if (auto status = validate_max_slots(spec); !status.ok()) return status;
  }
  if ((spec.mode & ~0666U) != 0) {
    return invalid(fmt::format("mode {:#o} has bits beside read and write", spec.mode),
                   "Use e.g. 0600, 0640 or 0664.");
  }
  if ((spec.mode & 0600U) != 0600U) {
    return invalid(fmt::format("mode {:#o} locks the owner out", spec.mode),
                   "The owner reads and writes: 06xx.");
  }
  if (spec.lifetime != Lifetime::kSession && spec.lifetime != Lifetime::kPersistent) {
    return invalid(fmt::format("lifetime {} is not known", static_cast<int>(spec.lifetime)),
                   "Use session or persistent.");
  }
  if (spec.writer != Writer::kAny && spec.writer != Writer::kExclusive) {
    return invalid(fmt::format("writer {} is not known", static_cast<int>(spec.writer)),
                   "Use any or exclusive.");
  }
  return absl::OkStatus();
}

std::vector<std::int64_t> strides_bytes_of(const ArrayKind& kind) {
  if (!kind.strides_bytes.empty()) return kind.strides_bytes;
  std::vector<std::int64_t> strides(kind.shape.size());
  std::int64_t stride = kind.dtype.itemsize_bytes();
  for (std::size_t i = kind.shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(kind.shape[i], 1);
  }
  return strides;
}

std::uint64_t size_bytes_of(const ArrayKind& kind) {
  const auto strides = strides_bytes_of(kind);
  std::uint64_t bytes = kind.dtype.itemsize_bytes();
  for (std::size_t i = 0; i < kind.shape.size(); ++i) {
    if (kind.shape[i] == 0) return 0;
    if (kind.shape[i] > 1) {
      bytes +=
          static_cast<std::uint64_t>(strides[i]) * static_cast<std::uint64_t>(kind.shape[i] - 1);
    }
  }
  return bytes;
}

std::uint32_t max_slots_of(const ArrayKind& kind) {
  if (kind.max_slots != 0) return kind.max_slots;
  if (kind.slots == 1) return kind.slots;
  if (size_bytes_of(kind) <= kDefaultGrowthBytes / kMaxSlots) return kMaxSlots;
  return std::min(8 * kind.slots, kMaxSlots);
}

std::string describe(const ArrayKind& kind) {
  return fmt::format("{}[{}]", name_of(kind.dtype), fmt::join(kind.shape, ","));
}

}  // namespace memlease::wire
