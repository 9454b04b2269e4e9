// The client's half of the attach channel: the connection that makes this process a session of the
// daemon, and over which its shared files come.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/channel/attach_handshake.h"
#include "client/channel/attach_socket.h"
#include "client/channel/end_watch.h"
#include "client/session/exit_note.h"
#include "client/session/file_source.h"
#include "client/session/interrupt.h"
#include "wire/attach_frame.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

// How long to wait for an answer of the daemon.
inline constexpr std::chrono::seconds kAnswerTimeout{10};

// Thread-safe.
class AttachClient : public FileSource {
 public:
  // To the daemon at <directory>/attach.sock; waits at most `longest` for its answers. One that is
  // busy with others who connect is asked again meanwhile. Errors: those of connect_socket() but
  // Busy; DaemonUnavailable if the daemon is going away; Closed if it cannot start; Denied,
  // QuotaExceeded and VersionSkew as the daemon says; Timeout if it does not answer, or stays busy;
  // what `interrupt` says; Internal if what listens there is not memleased.
  static absl::StatusOr<std::unique_ptr<AttachClient>> connect(
      const std::string& directory, InterruptCheck interrupt = kNoInterrupts,
      std::chrono::nanoseconds longest = kAnswerTimeout);
  // goodbye(), unless in a forked child.
  ~AttachClient() override;

  wire::SessionId session_id() const { return welcome_.session; }
  // Goes with every RPC. Keep it out of logs.
  const wire::Token& token() const { return welcome_.token; }
  const wire::Incarnation& incarnation() const { return welcome_.incarnation; }
  std::uint32_t daemon_pid() const { return welcome_.daemon_pid; }
  const std::string& daemon_version() const { return welcome_.daemon_version; }

  // FileSource. After a failure of the connection itself the connection is over: DaemonLost, or
  // what the daemon said last; then DaemonLost for ever. Closed after goodbye(). An answer may take
  // 10 s. One that nobody waits for any more is thrown away by the next fetch or alive(); until
  // then this process is one of the few of its user that the daemon lets leave an answer unread.
  absl::StatusOr<std::vector<SharedFile>> fetch_all(std::span<const WantedFile> files,
                                                    InterruptCheck interrupt) override;
  absl::StatusOr<OpenedArray> open_array(wire::OpeningCall call, const std::string& request,
                                         InterruptCheck interrupt) override;
  LateAnswers take_late_answers(std::chrono::milliseconds longest) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool alive() override;
  bool watch_end() override { return end_watch_.watch(); }
  bool closed_by_program() override { return socket_->closed_by_program(); }
  void goodbye() override;

 private:
  static absl::StatusOr<std::unique_ptr<AttachClient>> try_to_connect(const std::string& directory,
                                                                      Deadline end,
                                                                      InterruptCheck interrupt);
  enum class State { kConnected, kLost, kSaidGoodbye };

  AttachClient(std::unique_ptr<AttachSocket> socket, std::string path, wire::WelcomeFrame welcome);
  // One request and its answer, which is none of ERROR.
  absl::StatusOr<Reply> request(const wire::Payload& asked, InterruptCheck interrupt);
  // Sets fetching_ for this thread once no other fetches; or why it cannot.
  absl::Status begin_fetch(InterruptCheck interrupt) ABSL_LOCKS_EXCLUDED(mutex_);
  void end_fetch() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Reply> ask(const wire::Payload& asked, InterruptCheck interrupt);
  absl::Status answered_otherwise(const wire::Payload& asked, const wire::Frame& answer);
  void keep_late(wire::Frame frame);
  // The answer to the last request, whoever has sent it.
  absl::StatusOr<Reply> await_answer(InterruptCheck interrupt);
  // It does not matter whether it arrives. False: this process has the socket no more.
  bool say(const wire::Payload& last_word);
  absl::Status lost(std::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void drop() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  const wire::WelcomeFrame welcome_;
  // Open until destruction, so that alive() needs no lock.
  const std::unique_ptr<AttachSocket> socket_;
  EndWatch end_watch_{socket_->get()};
  const ExitNote exit_note_{[this] { say(wire::ExitFrame{}); }};

  wire::Mutex mutex_;
  wire::CondVar idle_;  // fetching_ is false again
  State state_ ABSL_GUARDED_BY(mutex_) = State::kConnected;
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;    // a thread fetches...
  std::thread::id fetcher_ ABSL_GUARDED_BY(mutex_);  // ...this one

  // Of the thread that fetches; while none does, of one that has the mutex.
  std::uint32_t last_request_id_ = 0;
  bool unanswered_ = false;  // the last request...
  Deadline answer_due_;      // ...whose answer is waited for until then
  std::vector<std::string> late_answers_;
};

}  // namespace memlease::internal
