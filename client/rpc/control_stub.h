// The daemon's Control service as plain calls. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/rpc/control_socket.h"
#include "client/session/control_port.h"
#include "client/session/file_source.h"

namespace memlease::v1 {
class OpenReply;
}  // namespace memlease::v1

namespace memlease::internal {

class ControlStub : public ControlPort {
 public:
  // `credential`: what goes with every call to speak for the session. `files`: its attach channel,
  // which outlives this, for arrays to be opened with their files; nullptr: by calls alone.
  ControlStub(std::unique_ptr<const ControlSocket> socket, std::string credential,
              FileSource* files = nullptr);
  ~ControlStub() override;

  absl::StatusOr<OpenAnswer> create(const wire::ArraySpec& spec, const wire::Attributes& attributes,
                                    bool exist_ok, OwnerUid owner,
                                    InterruptCheck interrupt) override;
  absl::StatusOr<OpenAnswer> open(const std::string& name, OwnerUid owner,
                                  InterruptCheck interrupt) override;
  absl::Status withdraw(const std::string& name, InterruptCheck interrupt) override;
  absl::StatusOr<std::vector<std::string>> list(const std::string& pattern,
                                                InterruptCheck interrupt) override;
  absl::StatusOr<NameLook> look_up(const std::string& name, bool to_wait,
                                   InterruptCheck interrupt) override;
  absl::StatusOr<OpenAnswer> open_replica(wire::ArrayId home, const std::string& device,
                                          InterruptCheck interrupt) override;
  absl::StatusOr<OpenAnswer> open_replica(wire::ArrayId home, std::uint32_t number,
                                          InterruptCheck interrupt) override;
  absl::Status write_elsewhere(wire::ArrayId replica, InterruptCheck interrupt) override;
  absl::StatusOr<Subscribed> subscribe(wire::ArrayId array, InterruptCheck interrupt) override;
  absl::StatusOr<WriterAnswer> acquire_writer(wire::ArrayId array,
                                              InterruptCheck interrupt) override;
  absl::Status confirm_writer(wire::ArrayId array, std::uint64_t offer,
                              InterruptCheck interrupt) override;
  absl::Status add_slot(wire::ArrayId array, std::uint32_t slots, std::chrono::milliseconds longest,
                        InterruptCheck interrupt) override;
  absl::Status cancel_writer(wire::ArrayId array) override;
  absl::Status leave(std::span<const Departure> departures, std::uint64_t answered_below,
                     InterruptCheck interrupt) override;
  absl::StatusOr<std::vector<Holder>> holders(wire::ArrayId array,
                                              InterruptCheck interrupt) override;
  absl::StatusOr<ImportedMemory> import_memory(wire::FileId file,
                                               InterruptCheck interrupt) override;
  absl::Status close_imports(const ClosedImports& closed) override;
  bool silent() const override { return silent_.load(); }
  bool session_ended() const override { return session_ended_.load(); }
  bool daemon_ends() const override { return daemon_ends_.load(); }
  std::uint64_t calls() const override { return calls_.load(); }

 private:
  template <typename Reply>
  struct Call;

  // What create() and open() return. An answer that came although the call has failed, with an
  // interrupt or at its deadline, is given back.
  absl::StatusOr<OpenAnswer> opened(const absl::Status& status, const v1::OpenReply& reply);

  // `prepare` is the stub's PrepareAsync... of the call.
  template <typename Prepare, typename Request, typename Reply>
  absl::Status call(Prepare prepare, const Request& request, Reply& reply, InterruptCheck interrupt,
                    std::chrono::milliseconds longest = kDeadline);

  // The same over the attach channel. None: it must be a call.
  template <typename Request>
  absl::StatusOr<std::optional<OpenAnswer>> open_with_files(wire::OpeningCall call,
                                                            const Request& request,
                                                            InterruptCheck interrupt);
  // What calls over the attach channel have opened that were given up; waits so long for an answer.
  void give_back_late_answers(std::chrono::milliseconds longest);
  // What a failed call is for the caller, as a session has met its daemon before.
  absl::Status failed(const absl::Status& status);

  static constexpr std::chrono::seconds kDeadline{30};

  const std::unique_ptr<const ControlSocket> socket_;
  const std::string credential_;
  FileSource* const files_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> silent_{false};
  std::atomic<bool> gave_up_{false};  // an open_with_files(), and its answer has not been seen
  std::atomic<bool> session_ended_{false};
  std::atomic<bool> daemon_ends_{false};
};

}  // namespace memlease::internal
