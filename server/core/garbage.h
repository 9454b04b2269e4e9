// What the core has let go of, until it has been given back. That takes long, and closing what is
// on a device may wait for it, so it is done where nobody waits for the core.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <utility>

namespace memlease::server {

class Garbage {
 public:
  Garbage() = default;
  virtual ~Garbage() = default;
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;

  // Gives it back. On any thread, without the core's lock, by one caller at a time; may block.
  // False: not possible yet, to be tried again.
  virtual bool go() = 0;
  // What go() has said. Under the core's lock.
  virtual void settle(bool /*has_gone*/) {}
};

// Takes it, to call go() and settle(). `payer`: on whose account it was.
using Disposal = std::function<void(uid_t payer, std::shared_ptr<Garbage>)>;

// What is in no books, and destroyed by go().
class UnusedMemory final : public Garbage {
 public:
  explicit UnusedMemory(std::shared_ptr<const void> memory) : memory_(std::move(memory)) {}
  bool go() override {
    memory_.reset();
    return true;
  }

 private:
  std::shared_ptr<const void> memory_;
};

}  // namespace memlease::server
