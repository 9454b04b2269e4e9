#include "server/disposer.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <thread>

#include "server/system.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr steady_clock::duration kFirstPause = milliseconds(10);
constexpr steady_clock::duration kLastPause = milliseconds(1000);
constexpr int kPausePerWork = 50;  // times as long as it took
// Without anything to do: then the thread ends.
constexpr steady_clock::duration kQuiet = milliseconds(1000);
// A third of a millisecond, where nobody makes it long.
constexpr std::size_t kTriesPerRound = 64;

template <typename Queue, typename Heap>
void take(Queue& queue, Heap& heap) {
  const std::size_t most = heap.size() + kTriesPerRound;
  for (; heap.size() < most && !queue.empty(); queue.pop_front()) {
    heap.push_back(std::move(queue.front()));
  }
}

}  // namespace

void Disposer::dispose(uid_t uid, std::shared_ptr<Garbage> garbage) {
  const wire::MutexLock lock(mutex_);
  const auto [at, is_new] = payers_.try_emplace(uid);
  Payer& payer = at->second;
  if (is_new) payer.number = ++last_number_;
  payer.fresh.push_back(std::move(garbage));
  ++payer.given;
  payer.news.notify_all();
  begin_threads();
}

void Disposer::begin_threads() {
  for (auto& [uid, payer] : payers_) {
    if (payer.has_thread) continue;
    try {
      std::thread([this, uid = uid] { run(uid); }).detach();
      payer.has_thread = true;
    } catch (const std::exception&) {  // there is none, or no memory for one
      return;
    }
  }
}

void Disposer::end() {
  const wire::MutexLock lock(mutex_);
  is_ending_ = true;
  begin_threads();
  for (auto& [uid, payer] : payers_) payer.news.notify_all();
  const auto has_thread = [](const auto& of_uid) { return of_uid.second.has_thread; };
  while (std::ranges::any_of(payers_, has_thread)) done_.wait(mutex_);
}

void Disposer::refuse_waits() {
  const wire::MutexLock lock(mutex_);
  refuses_waits_ = true;
  done_.notify_all();
}

void Disposer::await(std::optional<uid_t> whose, TimePoint until) {
  const wire::MutexLock lock(mutex_);
  begin_threads();
  std::map<uid_t, Goal> goals;
  for (auto& [uid, payer] : payers_) {
    if ((whose && uid != *whose && uid != kNobodysUid) || !payer.has_thread) continue;
    payer.is_asked = !payer.kept.empty();
    payer.news.notify_all();
    goals[uid] = {payer.number, payer.given, payer.looks + (payer.is_asked ? 1 : 0)};
  }
  const auto is_reached = [&](const auto& goal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = payers_.find(goal.first);
    if (found == payers_.end() || found->second.number != goal.second.number) return true;
    return found->second.tried >= goal.second.tried && found->second.looks >= goal.second.looks;
  };
  while (!refuses_waits_ && !std::ranges::all_of(goals, is_reached)) {
    if (done_.wait_until(mutex_, until) == std::cv_status::timeout) return;
  }
}

void Disposer::run(uid_t uid) {
  wire::MutexLock lock(mutex_);
  Payer& payer = payers_.at(uid);
  for (bool is_quiet = false; !is_quiet;) {
    while (has_work(payer)) round(payer);
    const auto until = steady_clock::now() + kQuiet;
    is_quiet = is_ending_ || payer.news.wait_until(mutex_, until) == std::cv_status::timeout;
  }
  lock.unlock();
  give_back_heap();
  lock.lock();
  while (has_work(payer)) round(payer);
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

void Disposer::round(Payer& payer) {
  Heap fresh;
  take(payer.fresh, fresh);
  const std::size_t tried = fresh.size();
  Heap again;
  const auto begin = steady_clock::now();
  const bool looks = !payer.kept.empty() && (payer.is_asked || begin >= payer.next_look);
  if (looks) {
    payer.is_asked = false;
    take(payer.kept, again);
  }
  const std::size_t looked = again.size();
  mutex_.unlock();
  fresh = try_to_go(std::move(fresh));
  const auto before_looks = steady_clock::now();
  again = try_to_go(std::move(again));
  const auto now = steady_clock::now();
  mutex_.lock();
  if (payer.kept.empty() && again.empty()) {
    payer.pause = {};
    payer.next_look = now + kFirstPause;
  }
  if (looks) {
    const bool some_went = again.size() != looked;
    payer.pause = some_went ? kFirstPause : std::clamp(2 * payer.pause, kFirstPause, kLastPause);
    const auto rest = std::min(kPausePerWork * (now - before_looks), kLastPause);
    payer.next_look = now + std::max(payer.pause, rest);
    ++payer.looks;
  }
  std::ranges::move(again, std::back_inserter(payer.kept));
  std::ranges::move(fresh, std::back_inserter(payer.kept));
  payer.tried += tried;
  done_.notify_all();
}

Disposer::Heap Disposer::try_to_go(Heap heap) const {
  if (heap.empty()) return heap;
  std::vector<bool> has_gone;
  for (const auto& garbage : heap) has_gone.push_back(garbage->go());
  in_core_([&] {
    for (std::size_t i = 0; i < heap.size(); ++i) heap[i]->settle(has_gone[i]);
  });
  Heap stayed;
  for (std::size_t i = 0; i < heap.size(); ++i) {
    if (!has_gone[i]) stayed.push_back(std::move(heap[i]));
  }
  return stayed;
}

}  // namespace memlease::server
