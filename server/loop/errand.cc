#include "server/loop/errand.h"

#include <system_error>

namespace memlease::server {

Errand::~Errand() {
  if (thread_.joinable()) thread_.join();
}

void Errand::begin() {
  if (under_way_) {
    again_ = true;
    return;
  }
  under_way_ = true;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    work();
  }
}

void Errand::work() {
  loop_.post([this, then = work_()] { end(then); });
}

void Errand::end(const EventLoop::Task& then) {
  if (thread_.joinable()) thread_.join();
  under_way_ = false;
  then();
  if (std::exchange(again_, false)) begin();
}

}  // namespace memlease::server
