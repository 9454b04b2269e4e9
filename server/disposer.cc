#include "server/disposer.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLastPause{1000};
constexpr int kPausePerWork = 50;           // times as long as it took
constexpr std::size_t kLooksPerRound = 64;  // at what could not go before

}  // namespace

void Disposer::end() {
  const wire::MutexLock lock(mutex_);
  is_ending_ = true;
  for (auto& [uid, payer] : payers_) payer.news.notify_all();
  const auto has_thread = [](const auto& of_uid) { return of_uid.second.has_thread; };
  while (std::ranges::any_of(payers_, has_thread)) done_.wait(mutex_);
}

void Disposer::dispose(uid_t uid, std::shared_ptr<Garbage> garbage) {
  wire::MutexLock lock(mutex_);
  Payer& payer = payers_[uid];
  payer.fresh.push_back(std::move(garbage));
  payer.news.notify_all();
  if (!has_thread(uid, payer)) round(payer, lock);
}

bool Disposer::has_thread(uid_t uid, Payer& payer) {
  if (payer.has_thread) return true;
  try {
    std::thread([this, uid] { run(uid); }).detach();
    payer.has_thread = true;
  } catch (const std::exception&) {  // there is none, or no memory for one
  }
  return payer.has_thread;
}

void Disposer::run(uid_t uid) {
  wire::MutexLock lock(mutex_);
  Payer& payer = payers_.at(uid);
  while (has_work(payer)) round(payer, lock);
  payers_.erase(uid);
  done_.notify_all();
}

bool Disposer::has_work(Payer& payer) {
  for (;;) {
    if (!payer.fresh.empty()) return true;
    if (payer.kept.empty() || is_ending_) return false;
    if (payer.is_asked || steady_clock::now() >= payer.next_look) return true;
    payer.news.wait_until(mutex_, payer.next_look);
  }
}

void Disposer::round(Payer& payer, wire::MutexLock& lock) {
  ++payer.rounds_begun;
  Heap heap = std::exchange(payer.fresh, {});
  const auto before = steady_clock::now();
  if (std::exchange(payer.is_asked, false) || before >= payer.next_look) {
    const std::size_t most = heap.size() + kLooksPerRound;
    for (; heap.size() < most && !payer.kept.empty(); payer.kept.pop_front()) {
      heap.push_back(std::move(payer.kept.front()));
    }
  }
  lock.unlock();
  std::vector<bool> has_gone;
  for (const auto& garbage : heap) has_gone.push_back(garbage->go());
  in_core_([&] {
    for (std::size_t i = 0; i < heap.size(); ++i) heap[i]->settle(has_gone[i]);
  });
  Heap stayed;
  for (std::size_t i = 0; i < heap.size(); ++i) {
    if (!has_gone[i]) stayed.push_back(std::move(heap[i]));
  }
  const bool some_went = stayed.size() != heap.size();
  heap.clear();
  const auto now = steady_clock::now();
  const auto took = std::chrono::duration_cast<milliseconds>(now - before);
  lock.lock();
  std::ranges::move(stayed, std::back_inserter(payer.kept));
  payer.pause = some_went ? kFirstPause : std::clamp(2 * payer.pause, kFirstPause, kLastPause);
  payer.next_look = now + std::max(payer.pause, std::min(kPausePerWork * took, kLastPause));
  payer.rounds_done = payer.rounds_begun;
  done_.notify_all();
}

bool Disposer::await(std::optional<uid_t> whose, TimePoint until) {
  const wire::MutexLock lock(mutex_);
  std::map<uid_t, std::uint64_t> rounds;  // that are to be over
  for (auto& [uid, payer] : payers_) {
    if (whose && uid != *whose && uid != kNobodysUid) continue;
    payer.is_asked = true;
    payer.news.notify_all();
    if (has_thread(uid, payer)) rounds[uid] = payer.rounds_begun + 1;
  }
  const auto is_over = [&](const auto& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = payers_.find(round.first);
    return found == payers_.end() || found->second.rounds_done >= round.second;
  };
  while (!std::ranges::all_of(rounds, is_over)) {
    if (done_.wait_until(mutex_, until) == std::cv_status::timeout) return false;
  }
  return true;
}

}  // namespace memlease::server
