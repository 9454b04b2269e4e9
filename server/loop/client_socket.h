// The daemon's end of a client's connection, which is closed with its owner. The client is not
// trusted, and descriptors that he sends could stop whoever receives or closes them
// (server/loop/close_aside.h): they are never received. From Linux 6.16 on the kernel lets nobody
// send them (see Acceptor).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "wire/unique_fd.h"

namespace memlease::server {

// Belongs to one thread.
class ClientSocket {
 public:
  ClientSocket() = default;
  // A connected, non-blocking one. None: none.
  explicit ClientSocket(wire::UniqueFd socket);
  ClientSocket(ClientSocket&&) noexcept = default;
  ClientSocket& operator=(ClientSocket&& other) noexcept;
  // Hangs up: nothing more can be sent, and the client reads what he was sent, whatever he has sent
  // but for descriptors.
  ~ClientSocket();

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  // Gives it to who trusts the client.
  wire::UniqueFd release() { return std::move(socket_); }

  // As recv() without flags, of a stream without SO_PASSCRED, but perhaps less than is there;
  // EBADMSG if a descriptor is the next that comes, which stays; ETIME once it was
  // given up, also as one message took too long.
  ssize_t receive(std::span<char> buffer);
  // Nothing more is received, and what is there is closed with it, elsewhere. The client may lose
  // what he was sent last.
  void give_up() { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }
  // It is given up once a message takes the kernel more of a processor than that.
  void allow_for_a_message(std::chrono::nanoseconds time) { too_long_ = time; }
  // For who receives by wire::receive_frame(): what that took.
  void took(std::chrono::nanoseconds time) { is_given_up_ = is_given_up_ || time > too_long_; }

  static constexpr std::chrono::milliseconds kTooLong{100};

 private:
  class Pipe;

  ssize_t look_and_take(std::span<char> buffer);
  ssize_t take(std::span<char> bytes);
  void hang_up();
  bool take_out_rest();

  wire::UniqueFd socket_;
  std::shared_ptr<const Pipe> pipe_;
  std::chrono::nanoseconds too_long_ = kTooLong;
  bool is_given_up_ = false;
};

}  // namespace memlease::server
