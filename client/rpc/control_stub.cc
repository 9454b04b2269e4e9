#include "client/rpc/control_stub.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/rpc/control_channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "memlease/v1/control.grpc.pb.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::internal {
namespace {

using Stub = v1::Control::Stub;

constexpr std::chrono::seconds kEndDeadline{2};  // of calls that nobody wants an answer of
// A fork waits for the calls in flight, so none of them waits long.
constexpr std::chrono::milliseconds kLongestWait{200};

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

template <typename Handles>
absl::StatusOr<std::vector<wire::DeviceHandle>> handles_from(const Handles& handles) {
  std::vector<wire::DeviceHandle> converted;
  for (const std::string& bytes : handles) {
    const auto handle = wire::handle_from_proto(bytes);
    if (!handle.ok()) return handle.status();
    converted.push_back(*handle);
  }
  return converted;
}

absl::StatusOr<OpenAnswer> opened_from(const v1::OpenReply& reply) {
  auto spec = wire::from_proto(reply.spec());
  if (!spec.ok()) return spec.status();
  OpenAnswer opened;
  opened.id = wire::ArrayId{reply.array_id()};
  opened.spec = std::move(*spec);
  opened.board_record = wire::from_proto(reply.board_record());
  for (const v1::FileRange& slot : reply.slots()) opened.slots.push_back(wire::from_proto(slot));
  opened.slot_bytes = reply.slot_bytes();
  opened.may_write = reply.may_write();
  opened.created = reply.created();
  auto events = handles_from(reply.write_events());
  if (!events.ok()) return events.status();
  opened.write_events = std::move(*events);
  opened.host_waits = std::chrono::milliseconds(reply.host_waits_ms());
  return opened;
}

}  // namespace

ControlStub::ControlStub(std::string directory, std::string credential)
    : directory_(std::move(directory)), credential_(std::move(credential)) {}

// Not by the stub's blocking call, which nothing ends before its deadline.
template <typename Prepare, typename Request, typename Reply>
absl::Status ControlStub::call(Prepare prepare, const Request& request, Reply& reply,
                               InterruptCheck interrupt, std::chrono::milliseconds longest) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  absl::Status interrupted;
  auto status = run_control_call(directory_, [&](const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::Control::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + longest);
    context.AddMetadata("memlease-token-bin", credential_);
    grpc::CompletionQueue queue;
    const auto reader = (stub.get()->*prepare)(&context, request, &queue);
    reader->StartCall();
    grpc::Status answer;
    reader->Finish(&reply, &answer, &answer);
    const auto answered = [&] {
      void* tag = nullptr;
      bool ok = false;
      const auto slice = std::chrono::system_clock::now() + kInterruptInterval;
      return queue.AsyncNext(&tag, &ok, slice) == grpc::CompletionQueue::GOT_EVENT;
    };
    absl::Cleanup cancel = [&] {  // also where the check ends this thread
      context.TryCancel();
      while (!answered()) continue;
    };
    while (!answered()) {
      interrupted = interrupt();
      if (!interrupted.ok()) return answer;
    }
    std::move(cancel).Cancel();
    return answer;
  });
  if (!interrupted.ok()) return interrupted;
  silent_.store(wire::code_of(status) == wire::ErrorCode::kTimeout);
  if (wire::code_of(status) != wire::ErrorCode::kDaemonUnavailable) return status;
  // The session has met its daemon before.
  return wire::make_error(wire::ErrorCode::kDaemonLost,
                          "the daemon has gone: " + wire::message_of(status),
                          "Views stay readable. Connect again; memleasectl health says whether the "
                          "daemon runs.");
}

absl::StatusOr<OpenAnswer> ControlStub::create(const wire::ArraySpec& spec, bool exist_ok,
                                               InterruptCheck interrupt) {
  v1::CreateRequest request;
  *request.mutable_spec() = wire::to_proto(spec);
  request.set_exist_ok(exist_ok);
  v1::OpenReply reply;
  if (auto status = call(&Stub::PrepareAsyncCreate, request, reply, interrupt); !status.ok())
    return status;
  return opened_from(reply);
}

absl::StatusOr<OpenAnswer> ControlStub::open(const std::string& name, InterruptCheck interrupt) {
  v1::OpenRequest request;
  request.set_name(name);
  v1::OpenReply reply;
  if (auto status = call(&Stub::PrepareAsyncOpen, request, reply, interrupt); !status.ok())
    return status;
  return opened_from(reply);
}

absl::StatusOr<Subscribed> ControlStub::subscribe(wire::ArrayId array, InterruptCheck interrupt) {
  v1::SubscribeReply reply;
  if (auto status = call(&Stub::PrepareAsyncSubscribe, array_request(array), reply, interrupt);
      !status.ok()) {
    return status;
  }
  auto events = handles_from(reply.read_events());
  if (!events.ok()) return events.status();
  return Subscribed{wire::from_proto(reply.row()), std::move(*events)};
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
  return answer;
}

absl::Status ControlStub::confirm_writer(wire::ArrayId array, std::uint64_t offer) {
  v1::ConfirmWriterRequest request;
  request.set_array_id(wire::to_int(array));
  request.set_offer(offer);
  v1::Empty reply;
  return call(&Stub::PrepareAsyncConfirmWriter, request, reply, kNoInterrupts);
}

absl::Status ControlStub::cancel_writer(wire::ArrayId array) {
  v1::Empty reply;
  return call(&Stub::PrepareAsyncCancelWriter, array_request(array), reply, kNoInterrupts);
}

absl::Status ControlStub::leave(wire::ArrayId array, std::uint32_t opens) {
  v1::LeaveRequest request;
  request.set_array_id(wire::to_int(array));
  request.set_opens(opens);
  v1::Empty reply;
  return call(&Stub::PrepareAsyncLeave, request, reply, kNoInterrupts, kEndDeadline);
}

absl::Status ControlStub::withdraw(const std::string& name, InterruptCheck interrupt) {
  v1::Empty reply;
  return call(&Stub::PrepareAsyncWithdraw, name_request(name), reply, interrupt);
}

absl::StatusOr<std::vector<std::string>> ControlStub::list(const std::string& pattern,
                                                           InterruptCheck interrupt) {
  v1::ListRequest request;
  request.set_pattern(pattern);
  v1::ListReply reply;
  if (auto status = call(&Stub::PrepareAsyncList, request, reply, interrupt); !status.ok())
    return status;
  return std::vector<std::string>(reply.names().begin(), reply.names().end());
}

absl::StatusOr<bool> ControlStub::wait_for(const std::string& name,
                                           std::chrono::milliseconds timeout,
                                           InterruptCheck interrupt) {
  v1::WaitForRequest request;
  request.set_name(name);
  request.set_timeout_ms(static_cast<std::uint32_t>(std::min(timeout, kLongestWait).count()));
  v1::WaitForReply reply;
  if (auto status = call(&Stub::PrepareAsyncWaitFor, request, reply, interrupt); !status.ok())
    return status;
  return reply.exists();
}

absl::StatusOr<std::vector<Holder>> ControlStub::holders(wire::ArrayId array) {
  v1::HoldersReply reply;
  if (auto status = call(&Stub::PrepareAsyncHolders, array_request(array), reply, kNoInterrupts);
      !status.ok())
    return status;
  std::vector<Holder> holders;
  for (const v1::Holder& holder : reply.holders()) {
    holders.push_back({holder.pid(),
                       holder.uid(),
                       holder.command(),
                       {holder.versions().begin(), holder.versions().end()},
                       holder.writing()});
  }
  return holders;
}

absl::StatusOr<ImportedMemory> ControlStub::import_memory(wire::FileId file) {
  v1::FileRequest request;
  request.set_file_id(wire::to_int(file));
  v1::ImportMemoryReply reply;
  if (auto status = call(&Stub::PrepareAsyncImportMemory, request, reply, kNoInterrupts);
      !status.ok())
    return status;
  const auto handle = wire::handle_from_proto(reply.handle());
  if (!handle.ok()) return handle.status();
  return ImportedMemory{*handle, reply.size_bytes()};
}

absl::StatusOr<std::vector<wire::DeviceHandle>> ControlStub::import_events(wire::RowRef row) {
  v1::EventsReply reply;
  if (auto status =
          call(&Stub::PrepareAsyncImportEvents, wire::to_proto(row), reply, kNoInterrupts);
      !status.ok()) {
    return status;
  }
  return handles_from(reply.handles());
}

absl::Status ControlStub::close_imports(const ClosedImports& closed) {
  v1::CloseImportsRequest request;
  for (const wire::FileId file : closed.memory) request.add_file_ids(wire::to_int(file));
  for (const wire::RowRef& row : closed.events) *request.add_rows() = wire::to_proto(row);
  v1::Empty reply;
  return call(&Stub::PrepareAsyncCloseImports, request, reply, kNoInterrupts, kEndDeadline);
}

}  // namespace memlease::internal
