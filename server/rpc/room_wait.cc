#include "server/rpc/room_wait.h"

#include <utility>

#include "wire/error.h"

namespace memlease::server {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{10};
// What an attempt has let go of in vain is awaited, too.
constexpr int kMostWaits = 6;

bool is_quotas(const absl::Status& refused) {
  return wire::code_of(refused) == wire::ErrorCode::kQuotaExceeded;
}

bool is_for_want_of_room(const absl::Status& refused) {
  return is_quotas(refused) || wire::code_of(refused) == wire::ErrorCode::kOutOfMemory;
}

// Where a quota refuses, others' memory does not help.
bool is_being_given_back(const Broker& broker, const absl::Status& refused, uid_t payer) {
  const FileTable& files = broker.files();
  return (is_quotas(refused) ? files.going_of(payer) : files.going()) != 0;
}

}  // namespace

RoomWait::RoomWait(ServiceHost& host, uid_t caller)
    : host_(host), caller_(caller), until_(steady_clock::now() + kLongest) {}

bool RoomWait::is_worthwhile(const ServiceHost& host, const Broker& broker,
                             const absl::Status& refused, uid_t payer) {
  return is_for_want_of_room(refused) &&
         (host.may_be_relieved() || broker.sessions_are_ending() ||
          broker.files().keeps_some_of(payer) || is_being_given_back(broker, refused, payer));
}

bool RoomWait::begin(Broker& broker, const absl::Status& refused, uid_t payer) {
  if (!choose(broker, refused, payer)) return false;
  waiting_ = broker.account(caller_).empty_charge(Resource::kWaitingCalls);
  waiting_.add_anyway(1);
  return true;
}

// His own at first, which may be all that it takes. What is kept is looked at once.
bool RoomWait::choose(Broker& broker, const absl::Status& refused, uid_t payer) {
  if (!is_for_want_of_room(refused)) return false;
  if (broker.sessions_are_ending() && broker.work_off_ends()) return true;
  if (waits_ == kMostWaits || steady_clock::now() >= until_) return false;
  if (!is_quotas(refused) && host_.may_be_relieved()) {
    next_ = What::kRelief;
    return true;
  }
  if (!is_being_given_back(broker, refused, payer) &&
      (waits_ != 0 || !broker.files().keeps_some_of(payer))) {
    return false;
  }
  next_ = is_quotas(refused) || waits_ == 0 ? What::kHisOwn : What::kAll;
  payer_ = payer;
  return true;
}

void RoomWait::wait() {
  const Charge waiting = std::move(waiting_);
  const What what = std::exchange(next_, What::kNothing);
  if (what == What::kNothing) return;
  if (what == What::kRelief) {
    host_.await_relief(until_);
  } else {
    host_.await_given_back(what == What::kHisOwn ? std::optional(payer_) : std::nullopt, until_);
  }
  ++waits_;
}

}  // namespace memlease::server
