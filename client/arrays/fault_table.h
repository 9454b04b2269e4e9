// The arrays that this process has open, as a signal handler finds them: by an address of their
// bytes. Thread-safe and lock-free, and of a fixed size: arrays beyond it are not found. For the
// life of the process.
#pragma once

#include <cstdint>

namespace memlease::internal {

class FaultTable {
 public:
  struct Place {
    const char* array = nullptr;  // its name; none: nobody knows the address
    std::uint32_t slot = 0;
    std::uint64_t version = 0;  // that stands in the slot; 0 if that cannot be found out
    bool for_writing = false;   // by the mapping for writing
    bool forked = false;        // the mapping is the parent process's
  };
  // Implemented by OpenArray, in tests by FakeArray; called by find(): async-signal-safe.
  class Array {
   public:
    virtual ~Array() = default;
    // False if the address is not one of the array's bytes.
    virtual bool find_place(const void* address, Place& place) const = 0;

   private:
    friend class FaultTable;
    std::uint32_t entry_ = kNone;
  };

  // Takes the time of a look at the whole table at most, and none where there is no room.
  static void add(Array& array);
  // Nobody has a lease or view of it any more, and so no address is of it; only a handler that has
  // begun to look for one may still look here. A repeat does nothing.
  static void remove(Array& array);
  // Async-signal-safe.
  static Place find(const void* address);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
};

}  // namespace memlease::internal
