// gRPC in a client process: it lives only while control calls run, and kLinger longer. Then the
// channels are closed and gRPC is shut down, so that a simulation in steady state has none of its
// threads, and fork(2) meets no gRPC: the fork handlers wait for the calls in flight and shut it
// down first. One per process. Thread-safe.
//
// gRPC cannot be forked while it runs (docs/decisions/0001-grpc-in-client-processes.md).
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/rpc/control_socket.h"
#include "client/session/interrupt.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace memlease::internal {

inline constexpr std::chrono::milliseconds kLinger{200};

// For user code in the middle of a call, such as a check for interrupts: it may wait for what a
// thread holds that forks, or fork itself. So a fork does not wait for it, and leaves gRPC as it
// is; the child has none then. kForkedClient if this is that child, where nothing of the call may
// be touched any more; else what `run` returns.
absl::Status run_user_code(absl::FunctionRef<absl::Status()> run);

// Runs one call on a channel to the daemon's control socket. The call must be short: a fork waits
// for it. Waits for `longest` at most, and asks `interrupt` meanwhile, where the daemon is busy
// with others who connect, or this process makes as many calls at once as it may: then it begins
// once one of these has ended. Errors: those of connect_socket() as BusyRetries passes them on,
// kTimeout where no call has ended, and what from_grpc() makes of the call's.
absl::Status run_control_call(
    const ControlSocket& socket, std::chrono::milliseconds longest, InterruptCheck interrupt,
    const std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&)>& call);

// No call will be made there any more: its channel ends. Calls in flight go on.
void forget_control_channel(const ControlSocket& socket);

}  // namespace memlease::internal
