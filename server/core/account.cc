#include "server/core/account.h"

#include <algorithm>
#include <cassert>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr std::string_view kFewer = "Withdraw arrays or close clients";
constexpr std::string_view kFewerCalls = "Make fewer calls at once, by fewer connections";

// clang-format off
constexpr std::array<ResourceFacts, kResources> kFacts{{
    {&Usage::bytes, "bytes", "bytes", "bytes",
     "Withdraw arrays, see who holds withdrawn ones (memleasectl holders)"},
    {&Usage::arrays, "arrays", "arrays", "arrays", kFewer},
    {&Usage::sessions, "sessions", "sessions", "sessions", "Close clients"},
    {&Usage::descriptors, "descriptors", "descriptors", "descriptors", kFewer},
    {&Usage::page_bytes, "page_bytes", "page_bytes", "bytes of boards and rows", kFewer},
    {&Usage::file_numbers, "file_numbers", "file_numbers", "numbers of shared files",
     "End or connect again the processes that have been connected longest (memleasectl sessions)"},
    {&Usage::waiting_calls, "waiting_calls", "waiting_calls", "calls that wait for events",
     "End some of them: memleasectl events --follow"},
    {&Usage::requests, "requests", "requests", "requests under way", kFewerCalls},
    {&Usage::request_bytes, "request_bytes", "request_bytes", "bytes of requests under way",
     kFewerCalls},
    {&Usage::segment_bytes, "segment_bytes", "bytes", "bytes of segments, with the room in them",
     "Withdraw the arrays that have been left alone in large segments"},
    {&Usage::warm_bytes, "warm_bytes", "bytes", "bytes of warm segments", kFewer},
    {&Usage::connections, "connections", "sessions", "control connections", "Close clients"},
    {&Usage::open_arrays, "open_arrays", "open_arrays", "arrays that its processes have open",
     "Close arrays or clients"},
}};
// clang-format on

bool fits(std::uint64_t used, std::uint64_t amount, std::uint64_t limit) {
  const std::uint64_t most = limit == 0 ? kMostCharged : std::min(limit, kMostCharged);
  return amount == 0 || (used <= most && amount <= most - used);
}

}  // namespace

const ResourceFacts& facts_of(Resource what) { return kFacts[static_cast<std::size_t>(what)]; }

void AccountLimits::set(const Usage& limits) {
  for (std::size_t i = 0; i < kResources; ++i) {
    limits_[i].store(limits.*kFacts[i].amount, std::memory_order_relaxed);
  }
}

Usage AccountLimits::all() const {
  Usage limits;
  for (std::size_t i = 0; i < kResources; ++i) {
    limits.*kFacts[i].amount = of(static_cast<Resource>(i));
  }
  return limits;
}

Charge::~Charge() {
  if (account_ != nullptr) account_->give_back(what(), amount());
}

bool Charge::add(std::uint64_t amount) {
  assert(account_ != nullptr);
  if (!account_->take(what(), amount)) return false;
  what_and_amount_ += amount << kWhatBits;
  return true;
}

void Charge::add_anyway(std::uint64_t amount) {
  assert(account_ != nullptr);
  account_->take_anyway(what(), amount);
  what_and_amount_ += amount << kWhatBits;
}

void Charge::give_back(std::uint64_t amount) {
  assert(amount <= this->amount());
  account_->give_back(what(), amount);
  what_and_amount_ -= amount << kWhatBits;
}

Account::~Account() { assert(usage() == Usage{}); }

absl::StatusOr<Charge> Account::charge(Resource what, std::uint64_t amount) {
  if (!take(what, amount)) return refusal(what, used(what), amount);
  return Charge(*this, what, amount);
}

absl::Status Account::may_spend(Resource what, std::uint64_t amount) const {
  const std::uint64_t now = used(what);
  return fits(now, amount, limits_.of(what)) ? absl::OkStatus() : refusal(what, now, amount);
}

bool Account::may_spend_without(Resource what, std::uint64_t amount, std::uint64_t without) const {
  const std::uint64_t now = used(what);
  return fits(now - std::min(now, without), amount, limits_.of(what));
}

Usage Account::usage() const {
  Usage all;
  for (std::size_t i = 0; i < kResources; ++i) {
    all.*kFacts[i].amount = used(static_cast<Resource>(i));
  }
  return all;
}

std::uint64_t Account::heap_bytes() const {
  return (used(Resource::kArrays) * 2000) + (used(Resource::kOpenArrays) * 48) +
         (used(Resource::kFileNumbers) * 16);
}

std::uint64_t Account::heap_to_look_for() {
  constexpr std::uint64_t kStep = std::uint64_t{256} << 10;
  constexpr std::uint64_t kComesAndGoes = std::uint64_t{2} << 20;
  const std::uint64_t heap = heap_bytes();
  looked_for_bytes_ = std::max(kHeapOfAnybody, std::min(looked_for_bytes_, heap + kComesAndGoes));
  return heap <= looked_for_bytes_ ? 0 : heap + kStep - looked_for_bytes_;
}

bool Account::take(Resource what, std::uint64_t amount) {
  auto& total = used_[static_cast<std::size_t>(what)];
  std::uint64_t before = total.load(std::memory_order_relaxed);
  do {
    if (!fits(before, amount, limits_.of(what))) return false;
  } while (!total.compare_exchange_weak(before, before + amount, std::memory_order_relaxed));
  return true;
}

void Account::take_anyway(Resource what, std::uint64_t amount) {
  used_[static_cast<std::size_t>(what)].fetch_add(amount, std::memory_order_relaxed);
}

void Account::give_back(Resource what, std::uint64_t amount) {
  const std::uint64_t before =
      used_[static_cast<std::size_t>(what)].fetch_sub(amount, std::memory_order_relaxed);
  assert(before >= amount);
  static_cast<void>(before);
}

absl::Status Account::refusal(Resource what, std::uint64_t used, std::uint64_t amount) const {
  const ResourceFacts& facts = facts_of(what);
  const bool of_device = what == Resource::kBytes || what == Resource::kSegmentBytes;
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format("uid {} uses {} of its {} {}{}, {} more are not allowed", uid_, used,
                  limits_.of(what), facts.words,
                  of_device ? fmt::format(" on {}", limits_.device()) : "", amount),
      fmt::format("{}, or raise {}{}.", facts.advice, limits_.options(), facts.setting));
}

}  // namespace memlease::server
