#include "server/channel/proc_view.h"

#include <utility>

#include "server/channel/peer_identity.h"

namespace memlease::server {
namespace {

constexpr const char* kOutOfSight = "in another PID namespace";

}  // namespace

ProcView::ProcView(ProgramWatch::Look look_at_program)
    : shows_peers_(proc_shows_peers()), look_at_program_(std::move(look_at_program)) {}

std::string ProcView::command_of(const PeerIdentity& peer) {
  if (!peer.has_pid()) return kOutOfSight;
  return shows_peers_ ? commands_.of(peer.pid) : "";
}

std::string ProcView::name_of(const PeerIdentity& peer) const {
  if (!peer.has_pid()) return kOutOfSight;
  return shows_peers_ ? CommandLines::name_of(peer.pid) : "";
}

std::optional<ProgramMark> ProcView::program_of(const PeerIdentity& peer) const {
  return shows_peers_ && peer.has_pid() ? look_at_program_(peer.pid) : std::nullopt;
}

}  // namespace memlease::server
