// A TCP connection whose last closer waits, for an hour: SO_LINGER, and bytes that nobody takes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <span>

#include "gtest/gtest.h"
#include "wire/frame_socket.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

class LingeringSocket {
 public:
  LingeringSocket() {
    const wire::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const named = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), named, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), named, &size), 0);
    socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), named, size), 0);
    peer.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(peer);
    const linger hour{1, 3600};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
    const std::array<char, 65536> bytes{};
    for (;;) {
      const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      sent_bytes += static_cast<std::size_t>(count);
    }
  }

  // Sends itself along with the message, and closes what is here: its last one is on its way.
  void send_along(int by, std::span<const std::byte> message) {
    const int fd = socket.get();
    EXPECT_EQ(wire::send_frame(by, message, std::span(&fd, 1)), 0);
    socket.reset();
  }

  // Until `socket` is closed, wherever it has gone, which ends the waiting there. How many.
  std::size_t take_bytes() const {
    std::array<char, 65536> bytes;
    std::size_t taken = 0;
    for (;;) {
      const ssize_t count = ::recv(peer.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return taken;
      taken += static_cast<std::size_t>(count);
    }
  }

  wire::UniqueFd socket;
  wire::UniqueFd peer;
  std::size_t sent_bytes = 0;
};

}  // namespace memlease::testing
