#include "server/core/history.h"

#include <algorithm>
#include <utility>

namespace memlease::server {

std::string_view name_of(Happening what) {
  switch (what) {
    case Happening::kCreated:
      return "created";
    case Happening::kWithdrawn:
      return "withdrawn";
    case Happening::kDied:
      return "died";
    case Happening::kReclaimed:
      return "reclaimed";
    case Happening::kEvicted:
      return "evicted";
    case Happening::kGrown:
      return "grown";
    case Happening::kShrunk:
      return "shrunk";
    case Happening::kDegraded:
      return "degraded";
    case Happening::kRecovered:
      break;
  }
  return "recovered";
}

bool may_see(const PeerIdentity& viewer, const HistoryEvent& event) {
  if (event.mechanism) return true;
  if (event.domain) return may_read(viewer, *event.domain);
  return viewer.uid == 0 || viewer.uid == event.uid;
}

void History::add(HistoryEvent event) {
  if (count_ == most_events_) {
    const auto most = std::max_element(
        by_uid_.begin(), by_uid_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    most->second.pop_front();
    if (most->second.empty()) by_uid_.erase(most);
    --count_;
  }
  event.number = ++newest_;
  if (event.unix_ms == 0) event.unix_ms = clock_.unix_ms();
  Events& events = by_uid_[event.uid];
  events.push_back(std::move(event));
  ++count_;
}

History::Events::const_iterator History::first_after(const Events& events, std::uint64_t number) {
  return std::partition_point(events.begin(), events.end(), [number](const HistoryEvent& event) {
    return event.number <= number;
  });
}

History::Page History::after(std::uint64_t number, std::size_t at_most) const {
  Page page;
  page.through = std::max(number, newest_);
  for (const auto& [uid, events] : by_uid_) {
    auto it = first_after(events, number);
    for (std::size_t taken = 0; it != events.end() && taken < at_most; ++it, ++taken) {
      page.events.push_back(&*it);
    }
  }
  std::ranges::sort(page.events, {}, &HistoryEvent::number);
  if (page.events.size() >= at_most && !page.events.empty()) {
    page.events.resize(at_most);
    page.through = page.events.back()->number;
  }
  page.dropped = page.through - number - page.events.size();
  return page;
}

}  // namespace memlease::server
