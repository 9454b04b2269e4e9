#include "client/api/connection.h"

#include <utility>

#include "client/api/connect_session.h"
#include "client/session/wait_news.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

absl::Status client_closed() {
  return wire::make_error(wire::ErrorCode::kClosed, "this client has been closed",
                          "Call connect() again.");
}

absl::Status another_array(const OpenArray& before) {
  return wire::make_error(
      wire::ErrorCode::kWithdrawn,
      fmt::format(
          "the array '{}' that this handle was made for, before fork(), has been withdrawn; "
          "there is another one of that name now",
          before.name()),
      "Open it by its name if that one is meant.");
}

absl::Status another_daemon(const Session& session) {
  return wire::make_error(
      wire::ErrorCode::kDaemonLost,
      fmt::format("the daemon of {} that this handle was made with, before fork(), has gone, and "
                  "another one runs there now",
                  session.directory()),
      "Open or create the array again.");
}

}  // namespace

Connection::Connection(std::shared_ptr<ArrayTable> arrays, std::function<void()> check_interrupt,
                       bool strict, bool check_after_signals)
    : arrays_(std::move(arrays)),
      interrupt_check_(session().add_interrupt_check(check_interrupt, check_after_signals)),
      strict_(strict),
      check_after_signals_(check_after_signals),
      check_interrupt_(std::move(check_interrupt)) {}

// Destroying a client closes nothing: open(...) on a temporary client is how people write it, and
// the handle keeps this alive.
Connection::~Connection() {
  delete successor_.load();
  if (closed_.load() || session().forked()) return;
  session().remove_interrupt_check(interrupt_check_);
  session().remove_connection(false);
}

absl::Status Connection::still_open() const {
  return closed_.load() ? client_closed() : absl::OkStatus();
}

absl::StatusOr<Connection*> Connection::in_this_process() {
  Connection* connection = this;
  while (connection->session().forked()) {
    auto next = connection->successor();
    if (!next.ok()) return next.status();
    connection = *next;
  }
  return connection;
}

const Connection& Connection::last() const {
  const Connection* connection = this;
  while (connection->session().forked()) {
    const std::shared_ptr<Connection>* const next = connection->successor_.load();
    if (next == nullptr) break;
    connection = next->get();
  }
  return *connection;
}

// Several threads may connect at once; the first one's connection counts.
absl::StatusOr<Connection*> Connection::successor() {
  std::shared_ptr<Connection>* known = successor_.load();
  if (known == nullptr) {
    if (closed_.load()) return client_closed();
    ConnectOptions options;
    options.directory = session().directory();
    options.start = false;
    options.check_interrupt = check_interrupt_;
    auto arrays = connect_session(options);
    if (!arrays.ok()) return arrays.status();
    auto made = std::make_unique<std::shared_ptr<Connection>>(std::make_shared<Connection>(
        *std::move(arrays), check_interrupt_, strict_, check_after_signals_));
    if (successor_.compare_exchange_strong(known, made.get())) known = made.release();
  }
  if (closed_.load()) (*known)->close().IgnoreError();  // which may not have seen it
  return known->get();
}

void Connection::TellLater::operator()(ArrayTable* arrays) const {
  Session& session = arrays->session();
  if (!silent || session.forked() || session.control().silent()) return;
  arrays->flush(kNoInterrupts).IgnoreError();
}

absl::StatusOr<Connection::InUse> Connection::use() {
  if (closed_.load()) return client_closed();
  if (auto status = session().look(); !status.ok()) return status;
  if (auto status = arrays_->flush(interrupt()); !status.ok()) return status;
  return InUse(arrays_.get(), {session().control().silent()});
}

absl::StatusOr<std::shared_ptr<OpenArray>> Connection::join_again(const OpenArray& before) {
  auto arrays = use();
  if (!arrays.ok()) return arrays.status();
  if (session().incarnation() != before.session().incarnation()) {
    return another_daemon(session());
  }
  const wire::ArrayId id = before.facts().id;
  if (auto known = (*arrays)->find_open(before.name())) {
    if (known->facts().id == id) return known;
    known->membership().drop_handle();
    return another_array(before);
  }
  const auto answer = session().control().open(before.name(), {}, interrupt());
  if (wire::code_of(answer.status()) == wire::ErrorCode::kNotFound) return before.gone(false);
  if (!answer.ok()) return answer.status();
  if (answer->id == id) return (*arrays)->join(*answer, interrupt());
  const Departure other{answer->id, 1};
  (*arrays)->leave({&other, 1}, kNoInterrupts).IgnoreError();
  return another_array(before);
}

absl::StatusOr<HandleOwner::Opened> Connection::open_again(const OpenArray& before,
                                                           std::weak_ptr<ArrayHandle> handle) {
  const auto here = in_this_process();
  if (!here.ok()) return here.status();
  auto array = (*here)->join_again(before);
  if (!array.ok()) return array.status();
  (*here)->keep(std::move(handle));
  if ((*here)->closed_.load()) {  // close() came first in another thread, and may not have seen it
    (*array)->membership().drop_handle();
    return client_closed();
  }
  return Opened{(*here)->shared_from_this(), *std::move(array)};
}

absl::StatusOr<std::shared_ptr<ArrayHandle>> Connection::open_replica(OpenArray& home,
                                                                      const std::string& device,
                                                                      InterruptCheck interrupt) {
  auto arrays = use();
  if (!arrays.ok()) return arrays.status();
  const auto shared = arrays_->handle_of(home);
  if (shared == nullptr || !shared->membership().add_handle())
    return internal::Membership::handle_closed(home.name());
  auto home_handle = make_handle(shared);
  if (device == home.kind().device) return home_handle;
  if (device != "host") {  // before the daemon makes memory there
    const auto seen = (*arrays)->imports().importers().importer(device);
    if (!seen.ok()) return seen.status();
  }
  const auto answer = session().control().open_replica(home.facts().id, device, interrupt);
  if (!answer.ok()) return home.named(answer.status());
  auto handle = join(*answer, interrupt);
  if (handle.ok()) (*handle)->set_home(std::move(home_handle));
  return handle;
}

absl::StatusOr<std::shared_ptr<OpenArray>> Connection::join_replica(OpenArray& home,
                                                                    std::uint32_t number,
                                                                    InterruptCheck interrupt) {
  if (closed_.load()) return client_closed();
  const auto answer = session().control().open_replica(home.facts().id, number, interrupt);
  if (!answer.ok()) return home.named(answer.status());
  return arrays_->join_to_look(*answer, interrupt);
}

absl::StatusOr<std::shared_ptr<ArrayHandle>> Connection::join(const OpenAnswer& answer,
                                                              InterruptCheck interrupt) {
  auto array = arrays_->join(answer, interrupt);
  if (!array.ok()) return array.status();
  auto handle = make_handle(std::move(*array));
  if (!closed_.load()) return handle;
  // close() came first in another thread, and may not have seen it.
  if (auto status = close(*handle); !status.ok()) return status;
  return client_closed();
}

std::shared_ptr<ArrayHandle> Connection::find_open(const std::string& name) {
  if (closed_.load()) return nullptr;
  auto array = arrays_->find_open(name);
  if (array == nullptr) return nullptr;
  auto handle = make_handle(std::move(array));
  if (closed_.load()) handle->close(kNoInterrupts).IgnoreError();
  return handle;
}

std::shared_ptr<ArrayHandle> Connection::make_handle(std::shared_ptr<OpenArray> array) {
  auto handle = std::make_shared<ArrayHandle>(Opened{shared_from_this(), std::move(array)});
  keep(handle);
  return handle;
}

void Connection::keep(std::weak_ptr<ArrayHandle> handle) {
  const wire::MutexLock lock(mutex_);
  if (handles_.size() >= handles_to_prune_) {
    std::erase_if(handles_, [](const auto& known) { return known.expired(); });
    handles_to_prune_ = 2 * handles_.size() + 16;
  }
  handles_.push_back(std::move(handle));
}

absl::Status Connection::close(ArrayHandle& handle) {
  return handle.close([this] { return session().check_interrupt(interrupt_check_); });
}

absl::Status Connection::close() {
  if (closed_.exchange(true)) return absl::OkStatus();
  wait_news.tell();
  if (session().forked()) {
    const std::shared_ptr<Connection>* const next = successor_.load();
    return next == nullptr ? absl::OkStatus() : (*next)->close();
  }
  std::function<void()> check_interrupt;  // the user's, which ends without the lock
  std::vector<std::weak_ptr<ArrayHandle>> handles;
  {
    const wire::MutexLock lock(mutex_);
    check_interrupt.swap(check_interrupt_);
    handles.swap(handles_);
  }
  const auto interrupt = [this] { return session().check_interrupt(interrupt_check_); };
  std::vector<Departure> departures;
  absl::Status interrupted;
  for (const auto& known : handles) {
    if (const auto handle = known.lock()) interrupted.Update(handle->close(departures, interrupt));
  }
  interrupted.Update(arrays_->leave(departures, interrupt));
  if (session().remove_connection(true)) {
    interrupted.Update(arrays_->close(interrupt));
  } else if (session().kept()) {
    interrupted.Update(arrays_->drain(interrupt));  // no other call may come
  }
  session().remove_interrupt_check(interrupt_check_);
  return interrupted;
}

}  // namespace memlease::internal
