#include "bench/channel.h"

#include <immintrin.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "proto/wire/futex.h"

namespace memlease::bench {
namespace {

void require(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::_Exit(1);
}

class SpinChannel : public Channel {
 public:
  void send() override { page_.ping.store(ticks()); }
  std::uint64_t receive() override {
    std::uint64_t stamp;
    while ((stamp = page_.ping.load()) == seen_) _mm_pause();
    seen_ = stamp;
    return stamp;
  }

 private:
  SharedPage& page_ = new_shared_page(1);
  std::uint64_t seen_ = 0;
};

class FutexChannel : public Channel {
 public:
  void send() override {
    page_.ping.store(ticks());
    page_.futex_ping.fetch_add(1);
    wire::futex_wake_all(page_.futex_ping);
  }
  std::uint64_t receive() override {
    while (page_.futex_ping.load() == seen_) {
      const wire::FutexWait wait{&page_.futex_ping, seen_};
      wire::futex_wait({&wait, 1}, std::chrono::seconds(1));
    }
    ++seen_;
    return page_.ping.load();
  }

 private:
  SharedPage& page_ = new_shared_page(1);
  std::uint32_t seen_ = 0;
};

class EventfdChannel : public Channel {
 public:
  EventfdChannel() { require(fd_ >= 0, "eventfd"); }
  ~EventfdChannel() override { close(fd_); }
  void send() override {
    page_.ping.store(ticks());
    require(eventfd_write(fd_, 1) == 0, "eventfd_write");
  }
  std::uint64_t receive() override {
    eventfd_t count;
    require(eventfd_read(fd_, &count) == 0, "eventfd_read");
    return page_.ping.load();
  }

 private:
  SharedPage& page_ = new_shared_page(1);
  const int fd_ = eventfd(0, EFD_CLOEXEC);
};

class SocketChannel : public Channel {
 public:
  SocketChannel() {
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0, "socketpair");
  }
  ~SocketChannel() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  void send() override {
    const std::uint64_t stamp = ticks();
    require(::send(ends_[0], &stamp, sizeof stamp, 0) == sizeof stamp, "send");
  }
  std::uint64_t receive() override {
    std::uint64_t stamp;
    require(recv(ends_[1], &stamp, sizeof stamp, 0) == sizeof stamp, "recv");
    return stamp;
  }

 private:
  int ends_[2];
};

class ArrayChannel : public Channel {
 public:
  explicit ArrayChannel(std::string name) : name_(std::move(name)) {}
  void begin(const Options& options, bool sends) override {
    client_ = connect(options);
    array_ = sends ? client_->create(bytes_array(name_, 4096)) : client_->wait_for(name_);
  }
  void send() override {
    WriteLease lease = array_->write();
    *static_cast<std::uint64_t*>(lease.data()) = ticks();
    lease.publish();
  }
  std::uint64_t receive() override {
    ReadOptions newer;
    newer.newer_than = last_;
    const ReadLease lease = array_->read(newer);
    last_ = lease.version();
    return *static_cast<const std::uint64_t*>(lease.data());
  }

 private:
  const std::string name_;
  std::optional<Client> client_;
  std::optional<Array> array_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<Channel> spin_channel() { return std::make_unique<SpinChannel>(); }
std::unique_ptr<Channel> futex_channel() { return std::make_unique<FutexChannel>(); }
std::unique_ptr<Channel> eventfd_channel() { return std::make_unique<EventfdChannel>(); }
std::unique_ptr<Channel> socket_channel() { return std::make_unique<SocketChannel>(); }
std::unique_ptr<Channel> array_channel(const std::string& name) {
  return std::make_unique<ArrayChannel>(name);
}

}  // namespace memlease::bench
