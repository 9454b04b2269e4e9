#include "server/rpc/history_call.h"

#include <utility>

#include "server/rpc/report_convert.h"
#include "wire/grpc/convert.h"

namespace memlease::server {

HistoryCall::HistoryCall(const Source& source) : source_(source) {
  grpc::ServerCompletionQueue& queue = source.queue.get();
  context_.AsyncNotifyWhenDone(&ended_);
  source.service.RequestHistory(&context_, &request_, &responder_, &queue, &queue, &arrived_);
}

void HistoryCall::on_arrival(bool ok) {
  if (!ok) {  // the server ends; ended_ does not come
    delete this;
    return;
  }
  expect(source_);
  look();
}

void HistoryCall::look() {
  absl::Status status;
  bool waits = false;
  source_.host.with_broker([&](Broker& broker) {
    reply_.Clear();
    fill(broker.history(), request_.after(), source_.viewer, source_.unread.most_of_next(), reply_);
    const bool nothing =
        reply_.events_size() == 0 && reply_.dropped() == 0 && reply_.through() == reply_.newest();
    if (!request_.wait() || !nothing) return;
    if (cancelled_) {
      status = absl::CancelledError();
      return;
    }
    auto charge = broker.account(source_.caller).charge(Resource::kWaitingCalls, 1);
    if (!charge.ok()) {
      status = charge.status();
      return;
    }
    const auto id =
        source_.host.history_waits().add({source_.viewer, *std::move(charge), reply_.through(),
                                          [this](const absl::Status& ended) { wake(ended); }});
    status = id.status();
    waits = id.ok();
    if (waits) id_ = *id;
  });
  if (!waits) finish(status);
}

void HistoryCall::wake(const absl::Status& ended) {
  ended_wait_ = ended;
  alarm_.Set(&source_.queue.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &woken_);
}

void HistoryCall::on_wake() {
  if (ended_wait_.ok()) {
    look();
  } else {
    finish(ended_wait_);
  }
}

void HistoryCall::finish(const absl::Status& status) {
  if (status.ok()) {
    held_ = static_cast<std::size_t>(reply_.events_size());
    source_.unread.add(held_);
    responder_.Finish(reply_, grpc::Status::OK, &answered_);
  } else {
    responder_.FinishWithError(wire::to_grpc(status), &answered_);
  }
}

void HistoryCall::on_end() {
  if (context_.IsCancelled()) {
    HistoryWaits::Id id = 0;
    source_.host.with_broker([&](Broker& /*broker*/) {
      cancelled_ = true;
      id = id_;
    });
    source_.host.history_waits().end(id, absl::CancelledError());
  }
  drop_reference();
}

void HistoryCall::drop_reference() {
  if (--references_ == 0) delete this;
}

}  // namespace memlease::server
