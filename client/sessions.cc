#include "client/sessions.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/socket/directory.h"

namespace memlease::internal {
namespace {

// Links and relative paths lead to one directory.
std::string key_of(const std::string& directory) {
  std::error_code failed;
  const auto path = std::filesystem::weakly_canonical(directory, failed);
  return failed ? directory : path.string();
}

}  // namespace

Sessions& Sessions::instance() {
  static Sessions* const the_sessions = [] {
    auto* sessions = new Sessions;
    hold_over_fork(sessions->mutex_, wire::HeldOverLocks(4));
    return sessions;
  }();
  return *the_sessions;
}

absl::StatusOr<std::shared_ptr<ArrayTable>> Sessions::get(const std::string& directory,
                                                          Attach attach, InterruptCheck interrupt) {
  const std::string key = key_of(directory);
  auto known = find_or_begin(key, interrupt);
  if (!known.ok() || *known != nullptr) return known;
  const absl::Cleanup done = [&] { end(key); };
  auto session = attach();
  if (session.ok()) publish(key, *session);
  return session;
}

std::vector<std::shared_ptr<ArrayTable>> Sessions::all() {
  std::vector<std::shared_ptr<ArrayTable>> sessions;
  const wire::MutexLock lock(mutex_);
  for (const auto& [directory, known] : sessions_) {
    auto session = known.lock();
    if (session != nullptr && !session->session().forked()) sessions.push_back(std::move(session));
  }
  return sessions;
}

void Sessions::keep(const std::shared_ptr<ArrayTable>& arrays) {
  const std::string key = key_of(arrays->session().directory());
  std::shared_ptr<ArrayTable> former;  // ends without the lock
  const wire::MutexLock lock(mutex_);
  if (sessions_[key].lock() != arrays) return;  // this daemon has gone, and another one come
  arrays->session().keep();
  former = std::exchange(kept_[key], arrays);
}

// The session as this process has it; nullptr: the caller, and nobody else, is to attach, and
// calls end() then.
absl::StatusOr<std::shared_ptr<ArrayTable>> Sessions::find_or_begin(const std::string& directory,
                                                                    InterruptCheck interrupt) {
  std::shared_ptr<ArrayTable> known;  // may be its last use, which ends without the lock
  wire::MutexLock lock(mutex_);
  while (others_attach_to(directory)) {
    const auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
    if (ended_.back().wait_until(mutex_, asks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto status = interrupt(); !status.ok()) return status;
    lock.lock();
  }
  known = sessions_[directory].lock();
  if (known != nullptr && known->session().look().ok() && !is_ending(directory) &&
      !known->session().daemon_ends() && known->session().add_connection()) {
    return known;
  }
  attaching_.emplace(directory, std::this_thread::get_id());
  return nullptr;
}

// Not where this thread itself attaches, and calls connect() from its interrupt check.
bool Sessions::others_attach_to(const std::string& directory) {
  const auto by = attaching().find(directory);
  return by != attaching_.end() && by->second != std::this_thread::get_id();
}

void Sessions::publish(const std::string& directory, const std::shared_ptr<ArrayTable>& session) {
  session->session().add_connection();
  std::vector<std::shared_ptr<ArrayTable>> former;  // which end without the lock
  const wire::MutexLock lock(mutex_);
  sessions_[directory] = session;
  // Of daemons that have gone: nothing there is kept any more, but descriptors.
  std::erase_if(kept_, [&](auto& kept) {
    if (kept.first != directory && kept.second->session().look().ok()) return false;
    former.push_back(std::move(kept.second));
    return true;
  });
}

void Sessions::end(const std::string& directory) {
  const wire::MutexLock lock(mutex_);
  attaching_.erase(directory);
  ended_.back().notify_all();
}

// After a fork it is empty: the threads that attach are the parent's, and so are those that wait,
// for which their condition variable waits for ever.
std::map<std::string, std::thread::id>& Sessions::attaching() {
  if (fork_generation_ != fork_generation()) {
    fork_generation_ = fork_generation();
    attaching_.clear();
    ended_.emplace_back();
  }
  return attaching_;
}

}  // namespace memlease::internal
