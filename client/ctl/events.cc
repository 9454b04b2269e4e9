#include "client/ctl/events.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/listing.h"
#include "client/ctl/signals.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

using Event = v1::HistoryEvent;

bool has_duration(Event::Kind kind) {
  return kind == Event::WITHDRAWN || kind == Event::DIED || kind == Event::RECLAIMED ||
         kind == Event::EVICTED;
}

bool changes_slots(Event::Kind kind) { return kind == Event::GROWN || kind == Event::SHRUNK; }

const std::vector<Column> kColumns = {
    {"number", "NUMBER"}, {"unix_ms", "TIME"},   {"event", "EVENT"},  {"mechanism", ""},
    {"array", "ARRAY"},   {"bytes", "BYTES"},    {"held_ms", "HELD"}, {"pid", "PID", true},
    {"session", ""},      {"uid", "USER"},       {"slots", ""},       {"reason", "WHY"},
    {"hint", ""},         {"command", "COMMAND"}};

Row row_of(const Event& event) {
  const auto text = [](const std::string& s) { return s.empty() ? Cell() : Cell(s); };
  const bool of_daemon = !event.mechanism().empty();
  return {event.number(),
          Moment{event.unix_ms()},
          name_of(event.kind()),
          text(event.mechanism()),
          text(event.array()),
          of_daemon ? Cell() : Cell(Bytes{event.bytes()}),
          has_duration(event.kind()) ? Cell(Duration{event.held_ms()}) : Cell(),
          event.pid() == 0 && event.session_id() == 0 ? Cell() : Cell(Pid{event.pid()}),
          event.session_id() == 0 ? Cell() : Cell(std::uint64_t{event.session_id()}),
          of_daemon ? Cell() : Cell(Uid{event.uid()}),
          changes_slots(event.kind()) ? Cell(std::uint64_t{event.slots()}) : Cell(),
          text(event.reason()),
          text(event.hint()),
          event.command().empty() ? Cell() : Cell(Command{event.command()})};
}

std::vector<Row> rows_of(const v1::HistoryReply& reply) {
  std::vector<Row> rows;
  for (const Event& event : reply.events()) rows.push_back(row_of(event));
  return rows;
}

// What follows a follower: an event is a line, for people and in JSON.
class Writer {
 public:
  explicit Writer(const Options& options) : options_(options), lines_(kColumns, options.style) {}

  absl::Status write(const v1::HistoryReply& reply) {
    if (reply.dropped() > 0) write_dropped(reply.dropped());
    if (options_.json) {
      for (Row& row : rows_of(reply)) {
        std::fputs(as_json_object({"", kColumns, {std::move(row)}}).c_str(), stdout);
      }
    } else {
      std::fputs(lines_.add(rows_of(reply)).c_str(), stdout);
    }
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
    return cannot_write();
  }

 private:
  void write_dropped(std::uint64_t dropped) const {
    if (options_.json) {
      fmt::print("{{\"dropped\": {}}}\n", dropped);
    } else {
      fmt::print(stderr, "memleasectl: {} events were dropped here: there was no room for them\n",
                 dropped);
    }
  }

  const Options& options_;
  Lines lines_;
};

absl::Status check_number(std::uint64_t since, const v1::HistoryReply& reply) {
  if (since <= reply.newest()) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("there is no event {} yet: the newest one is {}", since, reply.newest()),
      "Numbers begin at 1 again with each run of the daemon: leave --since out.");
}

}  // namespace

std::string name_of(v1::HistoryEvent::Kind kind) {
  std::string name = Event::Kind_Name(kind);
  if (name.empty()) return fmt::format("kind {}", static_cast<int>(kind));  // of a newer daemon
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

absl::Status show_events(const Connection& daemon, const Options& options,
                         const EventsOptions& wanted) {
  Table table{"events", kColumns, {}};
  Writer writer(options);
  std::uint64_t after = wanted.since;
  std::uint64_t dropped = 0;
  for (bool first = true, wait = false;; first = false) {
    const auto reply = daemon.admin->history(after, wait);
    if (!reply.ok()) return reply.status();
    if (auto status = check_number(after, *reply); first && !status.ok()) return status;
    after = reply->through();
    const bool all = after >= reply->newest();
    if (wanted.follow) {
      if (auto status = writer.write(*reply); !status.ok()) return status;
      wait = all;
      continue;
    }
    dropped += reply->dropped();
    for (Row& row : rows_of(*reply)) table.rows.push_back(std::move(row));
    if (all) break;
  }
  if (options.json) {
    print_record({"", {{"newest", ""}, {"dropped", ""}}, {{after, dropped}}}, options, {table});
    return absl::OkStatus();
  }
  print(table, options);
  if (dropped > 0) {
    fmt::print(stderr, "memleasectl: {} older events were dropped: there was no room for them\n",
               dropped);
  }
  return absl::OkStatus();
}

}  // namespace memlease::ctl
