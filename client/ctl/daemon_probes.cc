// Probes of the daemon: its directory, sockets, lock, version, and what it can rely on.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "client/ctl/check.h"
#include "client/ctl/daemon_limits.h"
#include "client/socket/connect_socket.h"
#include "client/socket/directory.h"
#include "fmt/format.h"
#include "memlease/version.h"
#include "wire/attach_frame.h"
#include "wire/error.h"
#include "wire/place.h"
#include "wire/unique_fd.h"

namespace memlease::ctl {
namespace {

using internal::AdminStub;

constexpr int kAttachTimeoutMs = 5000;

Check failure(std::string name, const absl::Status& status) {
  return {std::move(name), Verdict::kFailure, wire::message_of(status), wire::hint_of(status)};
}

// Where connect() would end up, or give up.
struct DaemonPlace {
  std::string directory;
  absl::Status trust;
  absl::StatusOr<std::unique_ptr<AdminStub>> admin;
};

DaemonPlace look_at(const std::string& directory, const Options& options) {
  DaemonPlace place{directory, internal::check_directory(directory), nullptr};
  place.admin = place.trust.ok() ? AdminStub::connect(directory, options.timeout)
                                 : absl::StatusOr<std::unique_ptr<AdminStub>>(place.trust);
  return place;
}

// Of several without a daemon the first that could be used.
DaemonPlace find_place(const Options& options) {
  std::vector<DaemonPlace> places;
  for (const std::string& directory : internal::candidate_directories(options.directory)) {
    DaemonPlace& place = places.emplace_back(look_at(directory, options));
    if (place.admin.ok() ||
        wire::code_of(place.admin.status()) != wire::ErrorCode::kDaemonUnavailable) {
      return std::move(place);
    }
  }
  const auto usable = std::find_if(places.begin(), places.end(),
                                   [](const DaemonPlace& place) { return place.trust.ok(); });
  return std::move(usable == places.end() ? places.front() : *usable);
}

// The kernel then has no number for it here, and what it says is its number where it is.
bool is_elsewhere(const DaemonPlace& place) { return (*place.admin)->daemon_pid() == 0; }

// The kernel names who made the sockets, which may be a service manager.
pid_t pid_of_daemon(const DaemonPlace& place, const v1::StatusReply& status) {
  const bool ask = status.sockets_passed() || is_elsewhere(place);
  return ask ? status.pid() : (*place.admin)->daemon_pid();
}

// That none is there is a fault only of one that the user has named.
Check check_directory(const DaemonPlace& place, bool named) {
  if (!place.trust.ok()) {
    Check check = failure("directory", place.trust);
    const bool missing = wire::code_of(place.trust) == wire::ErrorCode::kDaemonUnavailable;
    if (missing && !named) check.verdict = Verdict::kNote;
    return check;
  }
  struct stat info{};
  if (::stat(place.directory.c_str(), &info) != 0) {
    return failure("directory", wire::errno_error(wire::ErrorCode::kDaemonUnavailable,
                                                  place.directory, errno, "Start a daemon there."));
  }
  return {"directory", Verdict::kOk,
          fmt::format("{}: owned by uid {}, mode {:04o}", place.directory, info.st_uid,
                      info.st_mode & 07777U),
          ""};
}

struct HelloAnswer {
  wire::Frame frame;
  std::uint16_t protocol;  // that it is written in
};

// Says HELLO and reads the answer: a daemon that speaks our protocol asks who we are. Going away
// then opens no session.
absl::StatusOr<HelloAnswer> say_hello(const std::string& directory) {
  auto socket = internal::connect_socket(directory, wire::kAttachSocket, SOCK_SEQPACKET);
  if (!socket.ok()) return socket.status();
  const auto hello = wire::encode_frame(
      {0, wire::HelloFrame{wire::min_protocol(), wire::max_protocol(), MEMLEASE_VERSION}});
  const int fd = socket->fd.get();
  if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) {
    return wire::errno_error(wire::ErrorCode::kDaemonLost, "cannot send on attach.sock", errno);
  }
  pollfd entry{fd, POLLIN, 0};
  if (::poll(&entry, 1, kAttachTimeoutMs) != 1) {
    return wire::make_error(
        wire::ErrorCode::kTimeout,
        fmt::format("no answer on attach.sock within {} s", kAttachTimeoutMs / 1000),
        "The daemon is stopped or overloaded; restart it if that stays so.");
  }
  std::array<std::byte, wire::kMaxFrameBytes> buffer{};
  const ssize_t bytes = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (bytes <= 0) {
    return wire::make_error(wire::ErrorCode::kDaemonLost, "the daemon closed attach.sock at once",
                            "Its log says why.");
  }
  const auto answer = std::span(buffer).first(static_cast<std::size_t>(bytes));
  const std::uint16_t protocol = wire::protocol_of(answer);
  auto frame = wire::parse_frame(answer, protocol);
  if (!frame.ok()) return frame.status();
  return HelloAnswer{*std::move(frame), protocol};
}

Check check_attach_socket(const std::string& directory) {
  const auto answer = say_hello(directory);
  if (!answer.ok()) return failure("attach_socket", answer.status());
  if (const auto* error = std::get_if<wire::ErrorFrame>(&answer->frame.payload)) {
    return failure("attach_socket", wire::to_status(*error));
  }
  if (!std::holds_alternative<wire::ChallengeFrame>(answer->frame.payload)) {
    return {"attach_socket", Verdict::kFailure,
            fmt::format("answers HELLO with {}", wire::name_of(wire::type_of(answer->frame))),
            "Something else than a memlease daemon listens there: look at its process."};
  }
  return {"attach_socket", Verdict::kOk,
          fmt::format("answers, and speaks protocol {}", answer->protocol), ""};
}

// `daemon_pid` is its number where it runs, as the one in the lock file is.
Check check_lock(const std::string& directory, pid_t daemon_pid) {
  const wire::UniqueFd file(::open(fmt::format("{}/{}", directory, wire::kLockFile).c_str(),
                                   O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == EACCES) {
    return {"lock", Verdict::kNote, "only the daemon's own user may look at its lock", ""};
  }
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) {
    return {
        "lock", Verdict::kFailure,
        fmt::format("cannot look at {}/{}: {}", directory, wire::kLockFile, std::strerror(errno)),
        "Restart the daemon: without its lock a second one could start here."};
  }
  std::array<char, 32> text{};
  const bool read = ::pread(file.get(), text.data(), text.size() - 1, 0) > 0;
  const pid_t holder = read ? std::atoi(text.data()) : 0;
  if (lock.l_type == F_UNLCK) {
    return {"lock", Verdict::kFailure, "nobody holds it, although a daemon answers",
            "Restart the daemon: without its lock a second one could start here."};
  }
  if (holder != daemon_pid) {
    return {"lock", Verdict::kFailure,
            fmt::format("pid {} holds it, but pid {} answers", holder, daemon_pid),
            "End both, and start one daemon."};
  }
  return {"lock", Verdict::kOk, fmt::format("held by pid {}, which is who answers", holder), ""};
}

Check check_version(const v1::StatusReply& status) {
  if (status.version() == MEMLEASE_VERSION) {
    return {"version", Verdict::kOk, fmt::format("both sides are {}", status.version()), ""};
  }
  return {"version", Verdict::kWarning,
          fmt::format("the daemon is {}, memleasectl is {}", status.version(), MEMLEASE_VERSION),
          "Restart the daemon after an update; install client and daemon from one release."};
}

Check check_isolation(uid_t daemon_uid) {
  if (daemon_uid == ::geteuid()) {
    return {"isolation", Verdict::kNote,
            fmt::format("the daemon runs as you (uid {}): between your own processes, read-only is "
                        "an agreement and not enforced; other users are kept out",
                        daemon_uid),
            "To share with users whom you do not trust, run the daemon under a uid of its own."};
  }
  return {"isolation", Verdict::kOk,
          fmt::format("the daemon has a uid of its own ({}): the kernel keeps readers from writing",
                      daemon_uid),
          ""};
}

Check check_control_socket(const DaemonPlace& place,
                           const absl::StatusOr<v1::StatusReply>& status) {
  if (!status.ok()) return failure("control_socket", status.status());
  if (status->draining()) {
    return {"control_socket", Verdict::kWarning, "the daemon drains: it takes no new work",
            "Wait for its end, and start a new one."};
  }
  return {
      "control_socket", Verdict::kOk,
      is_elsewhere(place)
          ? fmt::format("a daemon in another PID namespace answers, pid {} there", status->pid())
          : fmt::format("pid {} answers", pid_of_daemon(place, *status)),
      ""};
}

// Sums over all that the daemon has, worked out once more.
Check check_books(AdminStub& admin) {
  constexpr int kShown = 5;
  const auto verified = admin.verify();
  if (!verified.ok()) return failure("books", verified.status());
  if (verified->violations().empty()) {
    return {
        "books", Verdict::kOk,
        fmt::format("right: {} arrays, {} sessions that have {} open, {} places in {} files, {} "
                    "accounts",
                    verified->arrays(), verified->sessions(), verified->memberships(),
                    verified->places(), verified->files(), verified->accounts()),
        ""};
  }
  std::string reason = fmt::format("{} things are wrong", verified->wrong());
  for (int i = 0; i < std::min(kShown, verified->violations_size()); ++i) {
    reason += fmt::format("{} {}", i == 0 ? ":" : ";", verified->violations(i));
  }
  return {"books", Verdict::kFailure, reason,
          "This is a defect of memlease: keep this answer and the daemon's log, report them, and "
          "restart the daemon when that can be."};
}

// What goes by the daemon's number or control group.
Check not_from_here(std::string name) {
  return {std::move(name), Verdict::kNote,
          "the daemon runs in another PID namespace: run this where it runs", ""};
}

}  // namespace

std::vector<Check> probe_daemon(const Options& options) {
  const DaemonPlace place = find_place(options);
  std::vector<Check> checks = {check_directory(place, !options.directory.empty())};
  if (!place.trust.ok()) return checks;
  const auto status = place.admin.ok() ? (*place.admin)->status()
                                       : absl::StatusOr<v1::StatusReply>(place.admin.status());
  checks.push_back(check_control_socket(place, status));
  if (!status.ok()) return checks;
  AdminStub& admin = **place.admin;
  const pid_t pid = pid_of_daemon(place, *status);
  const uid_t uid = status->sockets_passed() ? status->uid() : admin.daemon_uid();
  checks.push_back(check_attach_socket(place.directory));
  checks.push_back(check_lock(place.directory, status->pid()));
  checks.push_back(check_version(*status));
  checks.push_back(check_isolation(uid));
  const bool elsewhere = is_elsewhere(place);
  checks.push_back(elsewhere ? not_from_here("daemon_files")
                             : check_daemon_files(pid, status->sessions()));
  checks.push_back(elsewhere ? not_from_here("memory_limit") : check_memory_limit(pid, *status));
  if (options.verify) checks.push_back(check_books(admin));
  return checks;
}

}  // namespace memlease::ctl
