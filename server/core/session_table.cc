#include "server/core/session_table.h"

#include <cstring>
#include <utility>

#include "wire/error.h"

namespace memlease::server {

Session& SessionTable::add(std::unique_ptr<Session> session) {
  Session& reference = *session;
  sessions_.emplace(reference.id, std::move(session));
  return reference;
}

Session* SessionTable::find(wire::SessionId id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

void SessionTable::erase(wire::SessionId id) { sessions_.erase(id); }

std::vector<Session*> SessionTable::all() const {
  std::vector<Session*> found;
  found.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) found.push_back(session.get());
  return found;
}

absl::StatusOr<Session*> SessionTable::authenticate(std::span<const std::uint8_t> credential,
                                                    uid_t uid) const {
  const auto denied = [] {
    return wire::make_error(wire::ErrorCode::kDenied, "the call carries no token of a live session",
                            "Connect again: the session has ended, or belongs to somebody else.");
  };
  std::uint32_t id = 0;
  SessionToken token{};
  if (credential.size() != sizeof(id) + token.size()) return denied();
  std::memcpy(&id, credential.data(), sizeof(id));
  std::memcpy(token.data(), credential.data() + sizeof(id), token.size());
  Session* session = find(wire::SessionId{id});
  if (session == nullptr) return denied();
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i) {
    difference |= static_cast<unsigned>(token[i] ^ session->token[i]);
  }
  if (difference != 0 || !session->connected || session->peer.uid != uid) return denied();
  return session;
}

}  // namespace memlease::server
