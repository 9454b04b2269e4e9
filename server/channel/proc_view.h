// What /proc tells of the processes that connect: what they run, for people and for ProgramWatch.
// Nothing of those that have no number here, and nothing where /proc is of another PID namespace.
#pragma once

#include <optional>
#include <string>

#include "server/channel/brief_look.h"
#include "server/channel/command_lines.h"
#include "server/channel/program_watch.h"
#include "server/core/session_host.h"

namespace memlease::server {

// Belongs to the loop's thread.
class ProcView {
 public:
  explicit ProcView(ProgramWatch::Look look_at_program);

  // By its command line. For this, as for all that follows, the loop waits a moment (BriefLook).
  std::string command_of(const PeerIdentity& peer);
  // By its name alone.
  std::string name_of(const PeerIdentity& peer);
  // Does not look where it could see nothing: that takes long where a process has many threads.
  std::optional<ProgramMark> program_of(const PeerIdentity& peer);
  // The same, of a peer of which it has been told once.
  std::optional<ProgramMark> program_of(pid_t pid);

 private:
  const bool shows_peers_;
  const bool sees_all_programs_;
  CommandLines commands_;
  BriefLook<std::optional<ProgramMark>> programs_;
};

}  // namespace memlease::server
