#include "client/ctl/sampler.h"

#include <cassert>
#include <utility>

#include "wire/mutex.h"

namespace memlease::ctl {

struct Sampler::Answer {
  wire::Mutex mutex;
  std::optional<absl::StatusOr<Sample>> value ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<Sample> take_sample(internal::AdminStub& admin, std::uint64_t known_through) {
  auto arrays = admin.sample(known_through);
  if (!arrays.ok()) return arrays.status();
  auto sessions = admin.list_sessions();
  if (!sessions.ok()) return sessions.status();
  return Sample{*std::move(arrays), *std::move(sessions)};
}

Sampler::Sampler(internal::AdminStub& admin, Signals& signals)
    : admin_(admin), signals_(signals), answer_(std::make_unique<Answer>()) {}

Sampler::~Sampler() {
  if (!asking()) return;
  admin_.cancel();
  thread_.join();
}

void Sampler::ask(std::uint64_t known_through) {
  assert(!asking());
  thread_ = std::thread([this, known_through] {
    auto sample = take_sample(admin_, known_through);
    {
      const wire::MutexLock lock(answer_->mutex);
      answer_->value = std::move(sample);
    }
    signals_.wake();
  });
}

std::optional<absl::StatusOr<Sample>> Sampler::take() {
  std::optional<absl::StatusOr<Sample>> taken;
  {
    const wire::MutexLock lock(answer_->mutex);
    taken.swap(answer_->value);
  }
  if (taken) thread_.join();  // it has nothing left to do but to wake us
  return taken;
}

}  // namespace memlease::ctl
