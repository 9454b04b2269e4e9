// What /proc tells of the processes that connect: what they run, for people and for ProgramWatch.
// Nothing of those that have no number here, and nothing where /proc is of another PID namespace.
#pragma once

#include <optional>
#include <string>

#include "server/channel/command_lines.h"
#include "server/channel/program_watch.h"
#include "server/core/session_host.h"

namespace memlease::server {

// Belongs to the loop's thread.
class ProcView {
 public:
  explicit ProcView(ProgramWatch::Look look_at_program);

  // By its command line; for this the loop waits a moment (see CommandLines).
  std::string command_of(const PeerIdentity& peer);
  // By its name alone, without a wait.
  std::string name_of(const PeerIdentity& peer) const;
  // Does not look where it could see nothing: that takes long where a process has many threads.
  std::optional<ProgramMark> program_of(const PeerIdentity& peer) const;

 private:
  const bool shows_peers_;
  const bool sees_all_programs_;
  const ProgramWatch::Look look_at_program_;
  CommandLines commands_;
};

}  // namespace memlease::server
