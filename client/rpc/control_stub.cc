#include "client/rpc/control_stub.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/rpc/control_channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/async_unary_call.h"
#include "memlease/v1/control.grpc.pb.h"
#include "wire/attach_frame.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"
#include "wire/signals_blocked.h"

namespace memlease::internal {
namespace {

using Stub = v1::Control::Stub;

// Longer than calls take.
constexpr std::chrono::milliseconds kFirstAsked{500};
// What an interrupted call waits for an answer that may be on its way.
constexpr std::chrono::milliseconds kLastLook{20};
constexpr std::chrono::seconds kEndDeadline{1};  // of calls that nobody wants an answer of

v1::ArrayRequest array_request(wire::ArrayId array) {
  v1::ArrayRequest request;
  request.set_array_id(wire::to_int(array));
  return request;
}

v1::NameRequest name_request(const std::string& name) {
  v1::NameRequest request;
  request.set_name(name);
  return request;
}

grpc::Status timed_out(std::chrono::milliseconds longest) {
  return {grpc::StatusCode::DEADLINE_EXCEEDED,
          "no answer within " + std::to_string(longest.count()) + " ms"};
}

absl::StatusOr<OpenAnswer> opened_from(const v1::OpenReply& reply) {
  auto spec = wire::from_proto(reply.spec());
  if (!spec.ok()) return spec.status();
  auto attributes = wire::shared_from_proto(reply.attributes());
  if (!attributes.ok()) return attributes.status();
  OpenAnswer opened;
  opened.id = wire::ArrayId{reply.array_id()};
  opened.spec = std::move(*spec);
  opened.attributes = *std::move(attributes);
  opened.board_record = wire::from_proto(reply.board_record());
  for (const v1::FileRange& slot : reply.slots()) opened.slots.push_back(wire::from_proto(slot));
  opened.slot_bytes = reply.slot_bytes();
  opened.may_write = reply.may_write();
  opened.created = reply.created();
  if (reply.home_id() != 0) opened.home = wire::ArrayId{reply.home_id()};
  opened.replica_number = reply.replica_number();
  opened.owner_uid = reply.owner_uid();
  opened.owner_gid = reply.owner_gid();
  opened.events = wire::from_proto(reply.events());
  opened.host_wait_limit = std::chrono::milliseconds(reply.host_waits_ms());
  if (!reply.has_subscribed()) return opened;
  opened.subscribed = Subscribed{wire::from_proto(reply.subscribed().row())};
  opened.writer = wire::from_proto(reply.writer());
  return opened;
}

}  // namespace

ControlStub::ControlStub(std::unique_ptr<const ControlSocket> socket, std::string credential,
                         FileSource* files)
    : socket_(std::move(socket)), credential_(std::move(credential)), files_(files) {}

ControlStub::~ControlStub() { forget_control_channel(*socket_); }

// What gRPC needs of a call until it has ended.
template <typename Reply>
struct ControlStub::Call {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  grpc::Status answer;
  // True once it has ended. Signals wait until then, as gRPC waits from the beginning after each:
  // with a timer of the user's, for ever.
  bool wait(std::chrono::milliseconds longest) {
    const wire::SignalsBlocked later;
    void* tag = nullptr;
    bool ok = false;
    const auto end = std::chrono::system_clock::now() + longest;
    return queue.AsyncNext(&tag, &ok, end) == grpc::CompletionQueue::GOT_EVENT;
  }
};

// Not by the stub's blocking call, which nothing ends before its deadline, nor by a deadline of
// gRPC's: that one passes while this process is stopped, and the answer may be there when it goes
// on. The check is not asked before a call takes longer than calls do: it may be the user's code.
template <typename Prepare, typename Request, typename Reply>
absl::Status ControlStub::call(Prepare prepare, const Request& request, Reply& reply,
                               InterruptCheck interrupt, std::chrono::milliseconds longest) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  const auto begin = std::chrono::steady_clock::now();
  absl::Status interrupted;
  const auto check = [&] { return interrupted = interrupt(); };
  bool begun = false;
  const auto run = [&](const std::shared_ptr<grpc::Channel>& channel) {
    begun = true;
    const auto stub = v1::Control::NewStub(channel);
    auto call = std::make_unique<Call<Reply>>();
    call->context.AddMetadata("memlease-token-bin", credential_);
    call->reader = (stub.get()->*prepare)(&call->context, request, &call->queue);
    call->reader->StartCall();
    call->reader->Finish(&reply, &call->answer, nullptr);
    absl::Cleanup cancel = [&] {  // also where the check ends this thread
      call->context.TryCancel();
      while (!call->wait(kInterruptInterval)) continue;
    };
    using std::chrono::milliseconds;
    auto waited =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    for (;;) {
      const auto slice = std::clamp(longest - waited, milliseconds{0}, kInterruptInterval);
      if (call->wait(slice)) break;
      waited += slice;
      if (waited >= longest) return timed_out(longest);
      if (waited < kFirstAsked) continue;
      interrupted = run_user_code(interrupt);
      if (wire::code_of(interrupted) == wire::ErrorCode::kForkedClient) {
        std::move(cancel).Cancel();
        call.release();  // the parent's; gRPC does not run here
        return grpc::Status();
      }
      if (interrupted.ok()) continue;
      if (call->wait(kLastLook)) std::move(cancel).Cancel();
      return grpc::Status();
    }
    std::move(cancel).Cancel();
    if (call->answer.error_code() == grpc::StatusCode::UNAUTHENTICATED) session_ended_.store(true);
    // Not by this side: the daemon ends.
    if (call->answer.error_code() == grpc::StatusCode::CANCELLED) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, call->answer.error_message());
    }
    return call->answer;
  };
  auto status = run_control_call(*socket_, longest, check, run);
  if (!interrupted.ok()) {
    if (begun) silent_.store(true);  // it was asked when the answer was late
    return interrupted;
  }
  if (session_ended_.load()) {
    return wire::make_error(wire::ErrorCode::kDaemonLost,
                            "the daemon has ended this session, or another daemon serves its "
                            "directory now",
                            "Views stay readable. Connect again.");
  }
  const bool timeout = wire::code_of(status) == wire::ErrorCode::kTimeout;
  if (begun && (!timeout || longest >= kEndDeadline)) silent_.store(timeout);
  if (status.ok()) give_back_late_answers(kFirstAsked);  // the daemon answers
  return failed(status);
}

absl::Status ControlStub::failed(const absl::Status& status) {
  if (wire::code_of(status) != wire::ErrorCode::kDaemonUnavailable) return status;
  daemon_ends_.store(true);
  return wire::make_error(wire::ErrorCode::kDaemonLost, wire::message_of(status),
                          "Views stay readable. Connect again; memleasectl health says whether the "
                          "daemon runs, and the daemon's log whether it refused a connection.");
}

absl::StatusOr<OpenAnswer> ControlStub::opened(const absl::Status& status,
                                               const v1::OpenReply& reply) {
  if (status.ok()) return opened_from(reply);
  if (reply.array_id() != 0 && wire::code_of(status) != wire::ErrorCode::kForkedClient) {
    const Departure unheard{wire::ArrayId{reply.array_id()}, 1};
    leave({&unheard, 1}, 0, kNoInterrupts).IgnoreError();
  }
  return status;
}

template <typename Request>
absl::StatusOr<std::optional<OpenAnswer>> ControlStub::open_with_files(wire::OpeningCall call,
                                                                       const Request& request,
                                                                       InterruptCheck interrupt) {
  const bool creates = call == wire::OpeningCall::kCreate;
  const std::size_t most_bytes = creates ? wire::kMaxCreateBytes : wire::kMaxCallBytes;
  if (files_ == nullptr || request.ByteSizeLong() > most_bytes) return std::nullopt;
  calls_.fetch_add(1, std::memory_order_relaxed);
  absl::Cleanup unheard = [this] { gave_up_.store(true); };  // the check ends this thread
  auto opened = files_->open_array(call, request.SerializeAsString(), interrupt);
  std::move(unheard).Cancel();
  const wire::ErrorCode code = wire::code_of(opened.status());
  // A check for interrupts, which a fetch of this thread asks, opens arrays by calls.
  if (code == wire::ErrorCode::kBusy) return std::nullopt;
  const bool gave_up = code == wire::ErrorCode::kTimeout || code == wire::ErrorCode::kInterrupted;
  silent_.store(gave_up);
  if (gave_up) gave_up_.store(true);
  give_back_late_answers(kLastLook);
  if (!opened.ok()) return failed(opened.status());
  if (opened->answer.empty()) return std::nullopt;
  v1::OpenReply reply;
  if (!reply.ParseFromString(opened->answer)) return wire::defect("OPENED has no answer of a call");
  auto answer = opened_from(reply);
  if (!answer.ok()) return answer.status();
  answer->files = std::make_shared<FilesById>(std::move(opened->files));
  return answer;
}

absl::StatusOr<OpenAnswer> ControlStub::create(const wire::ArraySpec& spec,
                                               const wire::Attributes& attributes, bool exist_ok,
                                               OwnerUid owner, InterruptCheck interrupt) {
  v1::CreateRequest request;
  *request.mutable_spec() = wire::to_proto(spec);
  request.set_exist_ok(exist_ok);
  *request.mutable_attributes() = wire::to_proto(attributes);
  if (owner) request.set_owner_uid(*owner);
  auto answer = open_with_files(wire::OpeningCall::kCreate, request, interrupt);
  if (!answer.ok()) return answer.status();
  if (*answer) return **std::move(answer);
  v1::OpenReply reply;
  return opened(call(&Stub::PrepareAsyncCreate, request, reply, interrupt), reply);
}

absl::StatusOr<OpenAnswer> ControlStub::open(const std::string& name, OwnerUid owner,
                                             InterruptCheck interrupt) {
  v1::OpenRequest request;
  request.set_name(name);
  if (owner) request.set_owner_uid(*owner);
  request.set_subscribe(true);
  auto answer = open_with_files(wire::OpeningCall::kOpen, request, interrupt);
  if (!answer.ok()) return answer.status();
  if (*answer) return **std::move(answer);
  v1::OpenReply reply;
  return opened(call(&Stub::PrepareAsyncOpen, request, reply, interrupt), reply);
}

void ControlStub::give_back_late_answers(std::chrono::milliseconds longest) {
  if (!gave_up_.exchange(false)) return;
  const auto taken = files_->take_late_answers(longest);
  if (taken.more_to_come) gave_up_.store(true);  // the next call looks again
  for (const std::string& late : taken.answers) {
    v1::OpenReply reply;
    if (!reply.ParseFromString(late) || reply.array_id() == 0) continue;
    const Departure unheard{wire::ArrayId{reply.array_id()}, 1};
    leave({&unheard, 1}, 0, kNoInterrupts).IgnoreError();
  }
}

absl::StatusOr<OpenAnswer> ControlStub::open_replica(wire::ArrayId home, const std::string& device,
                                                     InterruptCheck interrupt) {
  v1::ReplicaRequest request;
  request.set_array_id(wire::to_int(home));
  request.set_device(device);
  v1::OpenReply reply;
  return opened(call(&Stub::PrepareAsyncOpenReplica, request, reply, interrupt), reply);
}

absl::StatusOr<OpenAnswer> ControlStub::open_replica(wire::ArrayId home, std::uint32_t number,
                                                     InterruptCheck interrupt) {
  v1::ReplicaRequest request;
  request.set_array_id(wire::to_int(home));
  request.set_number(number);
  v1::OpenReply reply;
  return opened(call(&Stub::PrepareAsyncOpenReplica, request, reply, interrupt), reply);
}

absl::Status ControlStub::write_elsewhere(wire::ArrayId replica, InterruptCheck interrupt) {
  v1::Empty reply;
  return call(&Stub::PrepareAsyncWriteElsewhere, array_request(replica), reply, interrupt);
}

absl::StatusOr<Subscribed> ControlStub::subscribe(wire::ArrayId array, InterruptCheck interrupt) {
  v1::SubscribeReply reply;
  if (auto status = call(&Stub::PrepareAsyncSubscribe, array_request(array), reply, interrupt);
      !status.ok()) {
    return status;
  }
  return Subscribed{wire::from_proto(reply.row())};
}

absl::StatusOr<WriterAnswer> ControlStub::acquire_writer(wire::ArrayId array,
                                                         InterruptCheck interrupt) {
  v1::AcquireWriterReply reply;
  if (auto status = call(&Stub::PrepareAsyncAcquireWriter, array_request(array), reply, interrupt);
      !status.ok()) {
    return status;
  }
  WriterAnswer answer;
  if (reply.state() == v1::AcquireWriterReply::GRANTED)
    answer.state = WriterAnswer::State::kGranted;
  if (reply.state() == v1::AcquireWriterReply::OFFERED)
    answer.state = WriterAnswer::State::kOffered;
  answer.row = wire::from_proto(reply.row());
  answer.from = wire::from_proto(reply.from());
  answer.offer = reply.offer();
  answer.ahead = reply.ahead();
  answer.turn = {wire::from_proto(reply.turn_at()), reply.turn()};
  return answer;
}

absl::Status ControlStub::confirm_writer(wire::ArrayId array, std::uint64_t offer,
                                         InterruptCheck interrupt) {
  v1::ConfirmWriterRequest request;
  request.set_array_id(wire::to_int(array));
  request.set_offer(offer);
  v1::Empty reply;
  return call(&Stub::PrepareAsyncConfirmWriter, request, reply, interrupt);
}

absl::Status ControlStub::add_slot(wire::ArrayId array, std::uint32_t slots,
                                   std::chrono::milliseconds longest, InterruptCheck interrupt) {
  v1::AddSlotRequest request;
  request.set_array_id(wire::to_int(array));
  request.set_slots(slots);
  v1::Empty reply;
  return call(&Stub::PrepareAsyncAddSlot, request, reply, interrupt, longest);
}

absl::Status ControlStub::cancel_writer(wire::ArrayId array) {
  v1::Empty reply;
  return call(&Stub::PrepareAsyncCancelWriter, array_request(array), reply, kNoInterrupts,
              kEndDeadline);
}

absl::Status ControlStub::leave(std::span<const Departure> departures, std::uint64_t answered_below,
                                InterruptCheck interrupt) {
  v1::LeaveRequest request;
  request.set_answered_below(answered_below);
  for (const Departure& departure : departures) {
    v1::Departure& one = *request.add_departures();
    one.set_array_id(wire::to_int(departure.array));
    one.set_opens(departure.opens);
    one.set_number(departure.number);
  }
  v1::Empty reply;
  return call(&Stub::PrepareAsyncLeave, request, reply, interrupt, kEndDeadline);
}

absl::Status ControlStub::withdraw(const std::string& name, InterruptCheck interrupt) {
  v1::Empty reply;
  return call(&Stub::PrepareAsyncWithdraw, name_request(name), reply, interrupt);
}

absl::StatusOr<std::vector<std::string>> ControlStub::list(const std::string& pattern,
                                                           InterruptCheck interrupt) {
  v1::ListRequest request;
  request.set_pattern(pattern);
  std::vector<std::string> names;
  do {
    v1::ListReply reply;
    if (auto status = call(&Stub::PrepareAsyncList, request, reply, interrupt); !status.ok())
      return status;
    auto& page = *reply.mutable_names();
    names.insert(names.end(), std::move_iterator(page.begin()), std::move_iterator(page.end()));
    request.set_from(reply.next());
  } while (!request.from().empty());
  return names;
}

absl::StatusOr<NameLook> ControlStub::look_up(const std::string& name, bool to_wait,
                                              InterruptCheck interrupt) {
  v1::LookUpRequest request;
  request.set_name(name);
  request.set_to_wait(to_wait);
  v1::LookUpReply reply;
  if (auto status = call(&Stub::PrepareAsyncLookUp, request, reply, interrupt); !status.ok())
    return status;
  return NameLook{reply.exists(), {wire::from_proto(reply.count_at()), reply.count()}};
}

absl::StatusOr<std::vector<Holder>> ControlStub::holders(wire::ArrayId array,
                                                         InterruptCheck interrupt) {
  v1::HoldersReply reply;
  if (auto status =
          call(&Stub::PrepareAsyncHolders, array_request(array), reply, interrupt, kEndDeadline);
      !status.ok())
    return status;
  std::vector<Holder> holders;
  for (const v1::Holder& holder : reply.holders()) {
    holders.push_back({holder.session_id(),
                       holder.pid(),
                       holder.uid(),
                       holder.command(),
                       {holder.versions().begin(), holder.versions().end()},
                       holder.writing()});
  }
  return holders;
}

absl::StatusOr<ImportedMemory> ControlStub::import_memory(wire::FileId file,
                                                          InterruptCheck interrupt) {
  v1::FileRequest request;
  request.set_file_id(wire::to_int(file));
  v1::ImportMemoryReply reply;
  if (auto status = call(&Stub::PrepareAsyncImportMemory, request, reply, interrupt); !status.ok())
    return status;
  const auto handle = wire::handle_from_proto(reply.handle());
  if (!handle.ok()) return handle.status();
  return ImportedMemory{*handle, reply.size_bytes()};
}

absl::Status ControlStub::close_imports(const ClosedImports& closed) {
  v1::CloseImportsRequest request;
  for (const wire::FileId file : closed.memory) request.add_file_ids(wire::to_int(file));
  v1::Empty reply;
  return call(&Stub::PrepareAsyncCloseImports, request, reply, kNoInterrupts, kEndDeadline);
}

}  // namespace memlease::internal
