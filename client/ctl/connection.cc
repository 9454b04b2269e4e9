#include "client/ctl/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <variant>

#include "client/socket/connect_socket.h"
#include "client/socket/directory.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/attach_frame.h"
#include "wire/error.h"
#include "wire/frame_socket.h"
#include "wire/place.h"
#include "wire/utf8.h"

namespace memlease::ctl {

using wire::ErrorCode;

absl::StatusOr<Connection> connect(const Options& options) {
  const auto directories = internal::candidate_directories(options.directory);
  absl::Status last;
  for (const std::string& directory : directories) {
    last = internal::check_directory(directory);
    if (last.ok()) {
      auto admin = internal::AdminStub::connect(directory, options.timeout);
      if (admin.ok()) return Connection{directory, *std::move(admin)};
      last = admin.status();
    }
    if (wire::code_of(last) == ErrorCode::kBusy) {  // at its door; what calls say is another matter
      return wire::make_error(ErrorCode::kDaemonUnavailable, wire::message_of(last),
                              wire::hint_of(last));
    }
    if (wire::code_of(last) != ErrorCode::kDaemonUnavailable) return last;
  }
  if (directories.size() == 1) return last;
  return wire::make_error(
      ErrorCode::kDaemonUnavailable,
      fmt::format("no daemon answers in {}", fmt::join(directories, " or in ")),
      "Start one with memleased, or name its directory with --directory or MEMLEASE_DIR.");
}

absl::Status with_its_reason(const absl::Status& status, const std::string& directory) {
  constexpr int kLongestMs = 200;  // it says so unasked
  if (wire::code_of(status) != ErrorCode::kDaemonLost) return status;
  const auto socket = internal::connect_socket(directory, wire::kAttachSocket, SOCK_SEQPACKET);
  if (!socket.ok()) return status;
  pollfd entry{socket->fd.get(), POLLIN, 0};
  if (::poll(&entry, 1, kLongestMs) <= 0) return status;
  const auto received = wire::receive_frame(socket->fd.get(), wire::Ancillary::kFiles);
  const auto frame = wire::parse_frame(received.bytes(), wire::protocol_of(received.bytes()));
  const auto* said = frame.ok() ? std::get_if<wire::ErrorFrame>(&frame->payload) : nullptr;
  if (said == nullptr || said->code != ErrorCode::kClosed) return status;
  return wire::make_error(ErrorCode::kDaemonUnavailable, said->message, said->hint);
}

void print_record(const Table& record, const Options& options, const std::vector<Table>& nested) {
  if (options.json) {
    std::fputs(as_json_object(record, nested).c_str(), stdout);
    return;
  }
  std::fputs(as_lines(record, options.style).c_str(), stdout);
  for (const Table& table : nested) {
    if (table.rows.empty()) continue;
    std::fputs(("\n" + as_text(table, options.style)).c_str(), stdout);
  }
}

ExitCode exit_code_of(const absl::Status& status) {
  if (status.ok()) return kSuccess;
  switch (wire::code_of(status)) {
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kNotFound:
      return kNotFound;
    case ErrorCode::kDaemonUnavailable:
    case ErrorCode::kDaemonLost:
      return kUnreachable;
    case ErrorCode::kDenied:
      return kDenied;
    case ErrorCode::kTimeout:
      return kTimeout;
    default:
      return kFailure;
  }
}

void print_error(const absl::Status& status, const Options& options) {
  const ErrorCode code = wire::code_of(status);
  const std::string message = wire::message_of(status);
  const std::string hint = wire::hint_of(status);
  if (options.json) {
    const Table error{
        .key = "",
        .columns = {{"code", ""}, {"name", ""}, {"message", ""}, {"hint", ""}},
        .rows = {{wire::id_of(code), std::string(wire::name_of(code)), message, hint}}};
    fmt::print(stderr, "{{\"error\": {}}}\n", [&] {
      std::string object = as_json_object(error);
      object.pop_back();  // the newline
      return object;
    }());
    return;
  }
  fmt::print(stderr, "memleasectl: {} [{}]\n", wire::printable(message), wire::id_of(code));
  if (!hint.empty()) fmt::print(stderr, "  {}\n", wire::printable(hint));
}

}  // namespace memlease::ctl
