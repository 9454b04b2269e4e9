// Ends gRPC's timer thread, which wakes up once a second for as long as gRPC lives, in order to
// sort timers of which an idle daemon has none (grpc/grpc#19947).
//
// The daemon does without gRPC's timers altogether. On a server they would end calls at their
// clients' deadlines, ask silent peers for a sign of life, and bound how long a connection has to
// finish at the end. Here no handler waits (history_waits.h has deadlines of its own), a peer on a
// UNIX socket cannot vanish without a hang-up, and who shuts a server down says for how long
// (UidServer::shutdown), which gRPC waits for without a timer.
#pragma once

namespace memlease::server {

// After grpc_init(), once in the process. Nothing happens with a gRPC that has no such function.
void end_timer_thread();

}  // namespace memlease::server
