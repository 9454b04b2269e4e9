#include "server/channel/refusal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "server/loop/client_socket.h"
#include "wire/attach_frame.h"
#include "wire/frame_socket.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

bool is_attach_channel(int listener) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

// False: nobody can be accepted here.
bool refuse_next(int listener, std::span<const std::byte> last_word) {
  const ClientSocket connection(
      wire::UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  if (!connection) return errno == EINTR || errno == EAGAIN || errno == ECONNABORTED;
  if (is_attach_channel(listener)) wire::send_frame(connection.get(), last_word);
  return true;
}

}  // namespace

void refuse_who_waits(std::span<const int> listeners, const absl::Status& reason,
                      std::chrono::milliseconds time, int stop) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::byte> last_word = wire::encode_frame({0, wire::to_error_frame(reason)});
  std::vector<pollfd> watched;
  for (const int listener : listeners) {
    ::fcntl(listener, F_SETFL, O_RDWR | O_NONBLOCK);  // who has come may have gone
    watched.push_back({listener, POLLIN, 0});
  }
  if (::poll(watched.data(), watched.size(), 0) <= 0) return;
  watched.push_back({stop, POLLIN, 0});
  const auto end = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return;
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    if (watched.back().revents != 0) return;
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      if (watched[i].revents != 0 && !refuse_next(listeners[i], last_word)) return;
    }
  }
}

}  // namespace memlease::server
