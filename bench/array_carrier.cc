#include <memlease/memlease.h>

#include <optional>

#include "bench/carrier.h"
#include "bench/payload.h"
#include "bench/timing.h"

namespace memlease::bench {
namespace {

class ArrayCarrier : public Carrier {
 public:
  ArrayCarrier(std::string name, std::size_t words) : name_(std::move(name)), words_(words) {}

  void begin_sending(const Options& options) override {
    client_ = connect(options);
    CreateOptions what = bytes_array(name_, static_cast<std::int64_t>(words_ * 8));
    what.slots = 2;
    array_ = client_->create(what);
  }
  void begin_receiving(const Options& options) override {
    client_ = connect(options);
    array_ = client_->wait_for(name_);
  }
  Words prepare() override {
    lease_ = array_->write();
    return {static_cast<std::uint64_t*>(lease_->data()), words_};
  }
  void send() override { lease_->publish(); }
  Received receive(Use use) override {
    ReadOptions newer;
    newer.newer_than = last_;
    const ReadLease lease = array_->read(newer);
    last_ = lease.version();
    const auto* data = static_cast<const std::uint64_t*>(lease.data());
    Received received{};
    received.value = *data;
    received.got_ticks = ticks();
    if (use == Use::kSum) received.value = sum({data, words_});
    received.ended_ticks = ticks();
    return received;
  }

 private:
  const std::string name_;
  const std::size_t words_;
  std::optional<Client> client_;
  std::optional<Array> array_;
  std::optional<WriteLease> lease_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<Carrier> array_carrier(const std::string& name, std::size_t words) {
  return std::make_unique<ArrayCarrier>(name, words);
}

}  // namespace memlease::bench
