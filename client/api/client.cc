#include <memlease/client.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "client/api/connect_session.h"
#include "client/api/connection.h"
#include "client/api/throw.h"
#include "client/arrays/count_watch.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease {
namespace {

using internal::ArrayTable;
using internal::check;
using internal::Connection;
using internal::crash_point;
using internal::value_or_throw;

wire::ArraySpec to_spec(const CreateOptions& options, ArrayTable& arrays) {
  wire::ArraySpec spec;
  spec.name = options.name;
  spec.dtype = {static_cast<wire::DTypeCode>(options.dtype.code), options.dtype.bits,
                options.dtype.lanes};
  spec.shape = options.shape;
  spec.strides_bytes = options.strides_bytes;
  spec.device = value_or_throw(arrays.imports().importers().resolve(options.device));
  spec.slots = options.slots;
  spec.max_slots = options.max_slots;
  spec.lifetime = options.lifetime == Lifetime::Persistent ? wire::Lifetime::kPersistent
                                                           : wire::Lifetime::kSession;
  spec.mode = options.mode;
  spec.writer = options.writer == Writer::Exclusive ? wire::Writer::kExclusive : wire::Writer::kAny;
  return spec;
}

// What the calls of a client are made with.
Connection& here(Connection& connection) { return *value_or_throw(connection.in_this_process()); }

// Up to the last dot: "0.1" of "0.1.3".
std::string_view minor_version(std::string_view version) {
  return version.substr(0, version.rfind('.'));
}

absl::Status check_headers(std::string_view headers) {
  if (minor_version(headers) == minor_version(MEMLEASE_VERSION)) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kVersionSkew,
      fmt::format("this program was compiled with the headers of memlease {}, and "
                  "has loaded the library of memlease {}",
                  headers, MEMLEASE_VERSION),
      "Recompile it, or let it find the library that belongs to its headers "
      "(ldd PROGRAM shows which one it finds).");
}

// What this process's session says of itself; 0 in a forked child that has none yet.
template <typename Of>
auto of_session(const Connection& connection, Of of) -> decltype(of(connection.session())) {
  auto& session = connection.last().session();
  return session.forked() ? 0 : of(session);
}

// What the daemon says of a name is true of that daemon: says of which.
absl::Status in_daemon(const std::string& directory, const absl::Status& status) {
  if (wire::code_of(status) != wire::ErrorCode::kNotFound) return status;
  return wire::make_error(
      wire::ErrorCode::kNotFound,
      fmt::format("{}, in the daemon of {}", wire::message_of(status), directory),
      wire::hint_of(status));
}

}  // namespace

Client::Client(std::shared_ptr<internal::Connection> connection) noexcept
    : connection_(std::move(connection)) {}

Client Client::connect(const ConnectOptions& options, const char* header_version) {
  check(check_headers(header_version));
  auto arrays = value_or_throw(internal::connect_session(options));
  const char* const strict = std::getenv("MEMLEASE_STRICT");
  return Client(std::make_shared<internal::Connection>(
      std::move(arrays), options.check_interrupt,
      options.strict || (strict != nullptr && std::string_view(strict) == "1"),
      options.check_after_signals));
}

Array Client::create(const CreateOptions& options) const {
  Connection& connection = here(*connection_);
  const auto arrays = value_or_throw(connection.use());
  const wire::ArraySpec spec = to_spec(options, *arrays);
  check(wire::validate(spec));
  check(wire::validate(options.attributes));
  crash_point("create.begin");
  internal::ControlPort& control = arrays->session().control();
  const auto opened = value_or_throw(control.create(spec, options.attributes, options.exist_ok,
                                                    options.owner, connection.interrupt()));
  crash_point("create.answered");
  auto joined = connection.join(opened, connection.interrupt());
  // Nobody has asked for an array that its creator does not get.
  if (!joined.ok() && opened.created) {
    static_cast<void>(control.withdraw(spec.name, connection.interrupt()));
  }
  auto handle = value_or_throw(std::move(joined));
  if (opened.created && spec.lifetime == wire::Lifetime::kSession) connection.keep_session();
  crash_point("create.mapped");
  return Array(std::move(handle), opened.created);
}

Array Client::open(const std::string& name, std::optional<std::uint32_t> owner) const {
  Connection& connection = here(*connection_);
  check(wire::validate_name(name));  // a replica may be open here, by a name that is none
  if (auto handle = connection.find_open(name)) {
    const Array array(std::move(handle));
    if (!owner || *owner == array.owner_uid()) return array;  // else the daemon says whose it is
  }
  const auto arrays = value_or_throw(connection.use());
  const auto opened = arrays->session().control().open(name, owner, connection.interrupt());
  crash_point("open.answered");
  if (!opened.ok()) check(in_daemon(directory(), opened.status()));
  auto handle = connection.join(*opened, connection.interrupt());
  crash_point("open.mapped");
  return Array(value_or_throw(std::move(handle)));
}

bool Client::exists(const std::string& name) const {
  Connection& connection = here(*connection_);
  const auto arrays = value_or_throw(connection.use());
  check(wire::validate_name(name));
  return value_or_throw(
             arrays->session().control().look_up(name, /*to_wait=*/false, connection.interrupt()))
      .exists;
}

std::vector<std::string> Client::list(const std::string& pattern) const {
  Connection& connection = here(*connection_);
  const auto arrays = value_or_throw(connection.use());
  check(wire::validate_pattern(pattern));
  return value_or_throw(arrays->session().control().list(pattern, connection.interrupt()));
}

Array Client::wait_for(const std::string& name, Timeout timeout,
                       std::optional<std::uint32_t> owner) const {
  return wait_for(name, timeout, owner, nullptr);
}

Array Client::wait_for(const std::string& name, Timeout timeout, std::optional<std::uint32_t> owner,
                       const internal::Stop* stop) const {
  Connection& connection = here(*connection_);
  const auto arrays = value_or_throw(connection.use());
  check(wire::validate_name(name));
  const auto still_open = [&] { return connection.still_open(); };
  internal::WaitLimit wait_limit(arrays->session(), connection.interrupt_check(), timeout, kForever,
                                 still_open, stop);
  const auto interrupt = [&] { return wait_limit.check_call(); };
  internal::CountWatch watch;
  for (;;) {
    const bool last = wait_limit.expired();
    const auto look =
        value_or_throw(arrays->session().control().look_up(name, /*to_wait=*/!last, interrupt));
    if (look.exists) {
      auto opened = arrays->session().control().open(name, owner, interrupt);
      if (opened.ok()) return Array(value_or_throw(connection.join(*opened, interrupt)));
      // Withdrawn again in between: keep waiting.
      if (wire::code_of(opened.status()) != wire::ErrorCode::kNotFound) check(opened.status());
    }
    check(wait_limit.step());
    if (last) {
      check(wire::make_error(wire::ErrorCode::kTimeout,
                             fmt::format("no array '{}' that this process may read appeared within "
                                         "{} in the daemon of {}",
                                         name, wait_limit.limit_text(), directory()),
                             "Is the program running that creates it, with the same daemon? "
                             "memleasectl --directory=" +
                                 directory() + " ls"));
    }
    if (!look.exists) check(watch.await_change(arrays->session(), look.creations, wait_limit));
  }
}

void Client::withdraw(const std::string& name) const {
  Connection& connection = here(*connection_);
  const auto arrays = value_or_throw(connection.use());
  check(wire::validate_opened_name(name));
  crash_point("withdraw.begin");
  check(in_daemon(directory(), arrays->session().control().withdraw(name, connection.interrupt())));
  crash_point("withdraw.answered");
  arrays->leave_withdrawn(name);
  check(arrays->flush(connection.interrupt()));
}

const std::string& Client::directory() const { return connection_->session().directory(); }

bool Client::closed() const noexcept { return connection_->last().closed(); }

std::uint32_t Client::session_id() const {
  return of_session(*connection_, [](const auto& session) { return wire::to_int(session.id()); });
}

std::uint64_t Client::calls() const {
  return of_session(*connection_, [](auto& session) { return session.control().calls(); });
}

std::uint64_t Client::copies() const {
  return of_session(*connection_, [](const auto& session) { return session.copies(); });
}

std::uint64_t Client::protected_slots() const {
  return of_session(*connection_,
                    [](auto& session) { return session.view_counts().protected_slots.load(); });
}

std::uint64_t Client::refused_protections() const {
  return of_session(*connection_,
                    [](auto& session) { return session.view_counts().refused_protections.load(); });
}

std::uint64_t Client::refused_registrations() const {
  return of_session(*connection_,
                    [](const auto& session) { return session.refused_registrations(); });
}

std::uint64_t Client::empty_writes() const {
  return of_session(*connection_,
                    [](auto& session) { return session.view_counts().empty_writes.load(); });
}

void Client::close() const { internal::check(connection_->close()); }

bool leases_alive() { return internal::any_lease(); }

}  // namespace memlease
