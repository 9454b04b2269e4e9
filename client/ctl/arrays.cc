// ls, info, withdraw.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "client/ctl/commands.h"
#include "client/ctl/listing.h"
#include "fmt/format.h"
#include "memlease/v1/admin.pb.h"
#include "wire/array_spec.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::ctl {
namespace {

using Info = v1::ArrayInfo;
using Spec = wire::ArraySpec;
using ArrayField = Field<Info, Spec>;

// While readers hold the others.
std::uint32_t added_slots(const Info& array, const Spec& spec) {
  return array.slots() > spec.slots ? array.slots() - spec.slots : 0;
}

// Of what a client says it has copied: as many as there can be, if that is a lie.
std::uint64_t bytes_of(std::uint64_t copies, std::uint64_t size_bytes) {
  std::uint64_t bytes = 0;
  return __builtin_mul_overflow(copies, size_bytes, &bytes)
             ? std::numeric_limits<std::uint64_t>::max()
             : bytes;
}

const ArrayField kFields[] = {
    {"name", "", "", [](const Info&, const Spec& s) -> Cell { return s.name; }},
    {"", "NAME", "Name",
     [](const Info& a, const Spec& s) -> Cell {
       return s.name + (a.withdrawn() ? " (withdrawn)" : "");
     }},
    {"", "TYPE", "Type", [](const Info&, const Spec& s) -> Cell { return wire::describe(s); }},
    {"dtype", "", "",
     [](const Info&, const Spec& s) -> Cell { return std::string(wire::name_of(s.dtype)); }},
    {"shape", "", "", [](const Info&, const Spec& s) -> Cell { return s.shape; }},
    {"strides_bytes", "", "Strides in bytes",
     [](const Info&, const Spec& s) -> Cell { return wire::strides_bytes_of(s); }},
    {"device", "DEVICE", "", [](const Info&, const Spec& s) -> Cell { return Device{s.device}; }},
    {"", "", "Device", [](const Info&, const Spec& s) -> Cell { return s.device; }},
    {"slots", "", "", [](const Info&, const Spec& s) -> Cell { return std::uint64_t{s.slots}; }},
    {"added_slots", "", "",
     [](const Info& a, const Spec& s) -> Cell { return std::uint64_t{added_slots(a, s)}; }},
    {"", "SLOTS", "Slots",
     [](const Info& a, const Spec& s) -> Cell {
       const std::uint32_t added = added_slots(a, s);
       if (added == 0) return std::uint64_t{s.slots};
       return fmt::format("{}+{}", s.slots, added);
     }},
    {"max_slots", "", "Most slots",
     [](const Info&, const Spec& s) -> Cell { return std::uint64_t{s.max_slots}; }},
    {"version", "VERSION", "Version",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.version()}; }},
    {"slot_versions", "", "Versions in slots",
     [](const Info& a, const Spec&) -> Cell {
       return std::vector<std::uint64_t>(a.slot_versions().begin(), a.slot_versions().end());
     }},
    {"empty_writes", "", "Empty writes",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.empty_writes()}; }},
    {"copied_versions", "", "Versions copied",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.copied_versions()}; }},
    {"copied_bytes", "", "Size of copies",
     [](const Info& a, const Spec& s) -> Cell {
       return Bytes{bytes_of(a.copied_versions(), wire::size_bytes_of(s))};
     }},
    {"slot_bytes", "", "Size of a slot",
     [](const Info&, const Spec& s) -> Cell { return Bytes{wire::size_bytes_of(s)}; }},
    {"bytes", "BYTES", "Size of all slots",
     [](const Info& a, const Spec&) -> Cell { return Bytes{a.bytes()}; }},
    {"held_bytes", "HELD", "Held by readers",
     [](const Info& a, const Spec&) -> Cell { return Bytes{a.held_bytes()}; }},
    {"readers", "READERS", "Readers at work",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.readers()}; }},
    {"subscribers", "SUBSCRIBERS", "Subscribers",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.subscribers()}; }},
    {"writer_pid", "WRITER", "Writer (pid)",
     [](const Info& a, const Spec&) -> Cell {
       return a.writer_session_id() == 0 ? Cell() : Cell(Pid{a.writer_pid()});
     }},
    {"writer_session", "", "Writer (session)",
     [](const Info& a, const Spec&) -> Cell {
       return a.writer_session_id() == 0 ? Cell() : Cell(std::uint64_t{a.writer_session_id()});
     }},
    {"lifetime", "LIFETIME", "Lifetime",
     [](const Info&, const Spec& s) -> Cell {
       return std::string(s.lifetime == wire::Lifetime::kPersistent ? "persistent" : "session");
     }},
    {"exclusive_writer", "", "Exclusive writer",
     [](const Info&, const Spec& s) -> Cell { return s.writer == wire::Writer::kExclusive; }},
    {"owner_uid", "OWNER", "Owner",
     [](const Info& a, const Spec&) -> Cell { return Uid{a.owner_uid()}; }},
    {"owner_gid", "", "",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.owner_gid()}; }},
    {"mode", "MODE", "Mode", [](const Info&, const Spec& s) -> Cell { return Mode{s.mode}; }},
    {"withdrawn", "", "", [](const Info& a, const Spec&) -> Cell { return a.withdrawn(); }},
    {"created_unix_ms", "CREATED", "Created",
     [](const Info& a, const Spec&) -> Cell { return Time{a.created_unix_ms()}; }},
    {"array_id", "", "Array id",
     [](const Info& a, const Spec&) -> Cell { return std::uint64_t{a.array_id()}; }},
};

using Fields = std::vector<const ArrayField*>;

absl::StatusOr<Row> row_of(const Info& array, const Fields& fields) {
  const auto spec = wire::from_proto(array.spec());
  if (!spec.ok()) return spec.status();
  Row row;
  row.reserve(fields.size() + 1);
  for (const ArrayField* field : fields) row.push_back(field->cell_of(array, *spec));
  return row;
}

// One more cell.
absl::Status add_attributes(const Info& array, Row& row) {
  auto attributes = wire::from_proto(array.attributes());
  if (!attributes.ok()) return attributes.status();
  row.emplace_back(*std::move(attributes));
  return absl::OkStatus();
}

constexpr std::string_view kAttributes = "attributes";

// Of a column's title; what --sort takes.
std::string lower(std::string_view title) {
  std::string key(title);
  for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

// What a cell is sorted by, if it is a number.
std::optional<std::uint64_t> number_of(const Cell& cell) {
  if (const auto* number = std::get_if<std::uint64_t>(&cell)) return *number;
  if (const auto* bytes = std::get_if<Bytes>(&cell)) return bytes->count;
  if (const auto* time = std::get_if<Time>(&cell)) return time->unix_ms;
  return std::nullopt;
}

// Numbers from the largest, everything else as a table spells it. Rows that are equal stay in the
// order of names, in which they come.
void sort_rows(std::vector<Row>& rows, std::size_t column) {
  std::stable_sort(rows.begin(), rows.end(), [column](const Row& a, const Row& b) {
    const auto left = number_of(a[column]);
    const auto right = number_of(b[column]);
    if (left && right) return *left > *right;
    return to_plain(a[column]) < to_plain(b[column]);
  });
}

}  // namespace

std::vector<std::string> sort_keys() {
  std::vector<std::string> keys;
  for (const ArrayField& field : kFields) {
    if (!field.title.empty()) keys.push_back(lower(field.title));
  }
  return keys;
}

absl::Status list_arrays(const Connection& daemon, const Options& options,
                         const std::string& pattern, const std::string& sort_key) {
  Fields fields;
  std::vector<Column> columns;
  std::optional<std::size_t> sorted_by;
  for (const ArrayField& field : kFields) {
    const bool sorts = !sort_key.empty() && lower(field.title) == sort_key;
    if ((options.json ? field.key : field.title).empty() && !sorts) continue;
    if (sorts) sorted_by = fields.size();
    fields.push_back(&field);
    columns.push_back({field.key, field.title});
  }
  if (options.json) columns.push_back({kAttributes, ""});
  Listing listing("arrays", columns, options);
  std::vector<Row> unsorted;
  const auto ask = [&](const std::string& from) {
    return daemon.admin->list_arrays(pattern, options.json, from);
  };
  const auto show = [&](const v1::ListArraysReply& page) -> absl::Status {
    std::vector<Row> rows;
    rows.reserve(static_cast<std::size_t>(page.arrays_size()));
    for (const Info& array : page.arrays()) {
      auto row = row_of(array, fields);
      if (!row.ok()) return row.status();
      if (options.json) {
        if (auto status = add_attributes(array, *row); !status.ok()) return status;
      }
      rows.push_back(*std::move(row));
    }
    if (sorted_by) {
      std::ranges::move(rows, std::back_inserter(unsorted));
    } else {
      listing.add(rows);
    }
    return absl::OkStatus();
  };
  if (auto status = for_each_page<v1::ListArraysReply>(ask, show); !status.ok()) return status;
  if (sorted_by) {
    sort_rows(unsorted, *sorted_by);
    listing.add(unsorted);
  }
  listing.end();
  return absl::OkStatus();
}

absl::Status show_array(const Connection& daemon, const Options& options, const std::string& name) {
  // Also makes sure that the name is no pattern.
  if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  const auto reply = daemon.admin->list_arrays(name, true);
  if (!reply.ok()) return reply.status();
  // One that is withdrawn but still held may stand beside a new one of the same name.
  const auto& arrays = reply->arrays();
  const auto named = [&](const v1::ArrayInfo& array) { return array.spec().name() == name; };
  auto found = std::find_if(arrays.begin(), arrays.end(), [&](const v1::ArrayInfo& array) {
    return named(array) && !array.withdrawn();
  });
  if (found == arrays.end()) found = std::find_if(arrays.begin(), arrays.end(), named);
  if (found == arrays.end()) {
    return wire::make_error(
        wire::ErrorCode::kNotFound,
        fmt::format("no array '{}' in {} that you may read", name, daemon.directory),
        "memleasectl ls shows those there are.");
  }
  Fields fields;
  Table record{"", {}, {}};
  for (const ArrayField& field : kFields) {
    fields.push_back(&field);
    record.columns.push_back({field.key, field.long_title});
  }
  record.columns.push_back({kAttributes, "Attributes"});
  auto row = row_of(*found, fields);
  if (!row.ok()) return row.status();
  if (auto status = add_attributes(*found, *row); !status.ok()) return status;
  record.rows.push_back(*std::move(row));
  print_record(record, options);
  return absl::OkStatus();
}

absl::Status withdraw(const Connection& daemon, const Options& options, const std::string& name) {
  if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  if (auto status = daemon.admin->withdraw(name); !status.ok()) return status;
  print_record({"", {{"withdrawn", "Withdrawn"}}, {{name}}}, options);
  return absl::OkStatus();
}

}  // namespace memlease::ctl
