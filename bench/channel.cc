#include "bench/channel.h"

#include <immintrin.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bench/payload.h"
#include "bench/timing.h"
#include "wire/futex.h"
#include "wire/unique_fd.h"

namespace memlease::bench {
namespace {

// The payload of a message: each word is the stamp.
void check(std::span<const std::uint64_t> payload, std::uint64_t stamp) {
  if (sum(payload) == stamp * payload.size()) return;
  std::fputs("bench: a message came with another message's bytes\n", stderr);
  std::exit(1);
}

class SpinChannel : public Channel {
 public:
  explicit SpinChannel(Load load) : load_(load) {}
  void send() override {
    const std::uint64_t stamp = ticks();
    if (load_ == Load::kPage) fill(page_.payload, stamp);
    page_.ping.store(stamp);
  }
  std::uint64_t receive() override {
    std::uint64_t stamp;
    while ((stamp = page_.ping.load()) == seen_) _mm_pause();
    if (load_ == Load::kPage) check(page_.payload, stamp);
    seen_ = stamp;
    return stamp;
  }

 private:
  const Load load_;
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
  explicit EventfdChannel(int readers) {
    for (int i = 0; i < readers; ++i) {
      fds_.emplace_back(eventfd(0, EFD_CLOEXEC));
      require(fds_.back().get() >= 0, "eventfd");
    }
  }
  void begin(const Options&, int end) override { end_ = end; }
  void send() override {
    page_.ping.store(ticks());
    for (const wire::UniqueFd& fd : fds_) {
      require(eventfd_write(fd.get(), 1) == 0, "eventfd_write");
    }
  }
  std::uint64_t receive() override {
    eventfd_t count;
    require(eventfd_read(fds_[static_cast<std::size_t>(end_)].get(), &count) == 0, "eventfd_read");
    return page_.ping.load();
  }

 private:
  SharedPage& page_ = new_shared_page(1);
  std::vector<wire::UniqueFd> fds_;
  int end_ = kSender;
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
  ArrayChannel(std::string name, Load load) : name_(std::move(name)), load_(load) {}
  void begin(const Options& options, int end) override {
    client_ = connect(options);
    array_ = end == kSender ? client_->create(bytes_array(name_, sizeof SharedPage::payload))
                            : client_->wait_for(name_);
  }
  void send() override {
    WriteLease lease = array_->write();
    const std::uint64_t stamp = ticks();
    fill({static_cast<std::uint64_t*>(lease.data()), words()}, stamp);
    lease.publish();
  }
  std::uint64_t receive() override {
    ReadOptions newer;
    newer.newer_than = last_;
    const ReadLease lease = array_->read(newer);
    last_ = lease.version();
    const auto* data = static_cast<const std::uint64_t*>(lease.data());
    const std::uint64_t stamp = *data;
    if (load_ == Load::kPage) check({data, words()}, stamp);
    return stamp;
  }

 private:
  std::size_t words() const { return load_ == Load::kPage ? SharedPage::kWords : 1; }

  const std::string name_;
  const Load load_;
  std::optional<Client> client_;
  std::optional<Array> array_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<Channel> spin_channel(Load load) { return std::make_unique<SpinChannel>(load); }
std::unique_ptr<Channel> futex_channel() { return std::make_unique<FutexChannel>(); }
std::unique_ptr<Channel> eventfd_channel(int readers) {
  return std::make_unique<EventfdChannel>(readers);
}
std::unique_ptr<Channel> socket_channel() { return std::make_unique<SocketChannel>(); }
std::unique_ptr<Channel> array_channel(const std::string& name, Load load) {
  return std::make_unique<ArrayChannel>(name, load);
}

}  // namespace memlease::bench
