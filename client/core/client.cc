#include <memlease/client.h>

#include <algorithm>
#include <utility>

#include "client/core/array_state.h"
#include "client/core/connect_session.h"
#include "client/core/connection.h"
#include "client/core/crash_point.h"
#include "client/core/patience.h"
#include "client/core/raise.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease {
namespace {

using internal::check;
using internal::crash_point;
using internal::Session;
using internal::value_or_raise;

wire::ArraySpec to_spec(const CreateOptions& options, Session& session) {
  wire::ArraySpec spec;
  spec.name = options.name;
  spec.dtype = {static_cast<wire::DTypeCode>(options.dtype.code), options.dtype.bits,
                options.dtype.lanes};
  spec.shape = options.shape;
  spec.strides_bytes = options.strides_bytes;
  spec.device = value_or_raise(session.imports().importers().resolve(options.device));
  spec.slots = options.slots;
  spec.lifetime = options.lifetime == Lifetime::Persistent ? wire::Lifetime::kPersistent
                                                           : wire::Lifetime::kSession;
  spec.mode = options.mode;
  return spec;
}

}  // namespace

Client::Client(std::shared_ptr<internal::Connection> connection) noexcept
    : connection_(std::move(connection)) {}

Client Client::connect(const ConnectOptions& options) {
  auto session = value_or_raise(internal::connect_session(options));
  return Client(std::make_shared<internal::Connection>(std::move(session)));
}

Array Client::create(const CreateOptions& options) const {
  Session& session = *value_or_raise(connection_->use());
  const wire::ArraySpec spec = to_spec(options, session);
  check(wire::validate(spec));
  crash_point("create.begin");
  const auto opened = value_or_raise(session.control().create(spec, options.exist_ok));
  crash_point("create.answered");
  auto state = value_or_raise(session.join(opened));
  crash_point("create.mapped");
  return Array(std::move(state), opened.created);
}

Array Client::open(const std::string& name) const {
  if (auto state = connection_->find_open(name)) return Array(std::move(state));
  Session& session = *value_or_raise(connection_->use());
  check(wire::validate_name(name));
  return Array(value_or_raise(session.join(value_or_raise(session.control().open(name)))));
}

bool Client::exists(const std::string& name) const {
  Session& session = *value_or_raise(connection_->use());
  check(wire::validate_name(name));
  return value_or_raise(session.control().wait_for(name, std::chrono::milliseconds::zero()));
}

std::vector<std::string> Client::list(const std::string& pattern) const {
  Session& session = *value_or_raise(connection_->use());
  return value_or_raise(session.control().list(pattern));
}

Array Client::wait_for(const std::string& name, Timeout timeout) const {
  Session& session = *value_or_raise(connection_->use());
  check(wire::validate_name(name));
  internal::Patience patience(session, timeout, kForever);
  for (;;) {
    const auto slice = std::chrono::ceil<std::chrono::milliseconds>(patience.slice());
    if (value_or_raise(session.control().wait_for(name, slice))) {
      auto opened = session.control().open(name);
      if (opened.ok()) return Array(value_or_raise(session.join(*opened)));
      // Withdrawn again in between: keep waiting.
      if (wire::code_of(opened.status()) != wire::ErrorCode::kNotFound) check(opened.status());
    }
    check(patience.step());
    if (patience.expired()) {
      check(wire::make_error(wire::ErrorCode::kTimeout,
                             fmt::format("no array '{}' that this process may read appeared within "
                                         "{}",
                                         name, patience.limit_text()),
                             "Is the program running that creates it? memleasectl ls"));
    }
  }
}

void Client::withdraw(const std::string& name) const {
  Session& session = *value_or_raise(connection_->use());
  check(wire::validate_name(name));
  crash_point("withdraw.begin");
  check(session.control().withdraw(name));
  crash_point("withdraw.answered");
  session.note_release();
  session.flush();
}

const std::string& Client::directory() const { return connection_->session().directory(); }

std::uint32_t Client::session_id() const { return wire::to_int(connection_->session().id()); }

std::uint64_t Client::calls() const { return connection_->session().control().calls(); }

std::uint64_t Client::copies() const { return connection_->session().copies(); }

void Client::close() const { connection_->close(); }

}  // namespace memlease
