// Samples of the daemon's arrays and sessions for `top`, asked for on a thread of their own, so
// that a daemon that is slow to answer, or never does, keeps nobody from leaving. Belongs to one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "client/admin/admin_stub.h"
#include "client/ctl/signals.h"
#include "memlease/v1/admin.pb.h"

namespace memlease::ctl {

struct Sample {
  v1::SampleReply arrays;
  v1::ListSessionsReply sessions;
};

// Asks, and waits for the answer. known_through: as AdminStub::sample() wants it.
absl::StatusOr<Sample> take_sample(internal::AdminStub& admin, std::uint64_t known_through);

class Sampler {
 public:
  // Both outlive this. `signals`: whose wait() returns when an answer has come.
  Sampler(internal::AdminStub& admin, Signals& signals);
  // Does not wait for an answer: it ends the admin's calls, for good.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Begins a call; one at a time, whose answer is to be taken first.
  void ask(std::uint64_t known_through);
  bool asking() const { return thread_.joinable(); }
  // The answer, if there is one by now. Does not wait.
  std::optional<absl::StatusOr<Sample>> take();

 private:
  struct Answer;

  internal::AdminStub& admin_;
  Signals& signals_;
  const std::unique_ptr<Answer> answer_;
  std::thread thread_;
};

}  // namespace memlease::ctl
