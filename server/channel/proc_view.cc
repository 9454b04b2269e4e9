#include "server/channel/proc_view.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "server/channel/peer_identity.h"

namespace memlease::server {
namespace {

constexpr const char* kOutOfSight = "in another PID namespace";

bool may_look_into_others() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  return syscall(SYS_capget, &header, sets.data()) == 0 &&
         (sets[0].effective & (1U << CAP_SYS_PTRACE)) != 0;
}

}  // namespace

ProcView::ProcView(ProgramWatch::Look look_at_program)
    : shows_peers_(proc_shows_peers()),
      sees_all_programs_(may_look_into_others()),
      programs_(std::move(look_at_program)) {}

std::string ProcView::command_of(const PeerIdentity& peer) {
  if (!peer.has_pid()) return kOutOfSight;
  return shows_peers_ ? commands_.of(peer.pid) : "";
}

std::string ProcView::name_of(const PeerIdentity& peer) {
  if (!peer.has_pid()) return kOutOfSight;
  return shows_peers_ ? commands_.name_of(peer.pid) : "";
}

std::optional<ProgramMark> ProcView::program_of(const PeerIdentity& peer) {
  if (!shows_peers_ || !peer.has_pid()) return std::nullopt;
  if (!sees_all_programs_ && peer.uid != geteuid()) return std::nullopt;
  return program_of(peer.pid);
}

std::optional<ProgramMark> ProcView::program_of(pid_t pid) {
  return programs_.at(pid).value_or(std::nullopt);
}

}  // namespace memlease::server
