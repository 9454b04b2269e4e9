// What may be written and when: published bytes by nobody, where pages can be protected.
#include <memlease/memlease.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/forked.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"
#include "tests/support/words.h"

namespace {
std::atomic<int> mprotect_calls{0};
std::atomic<bool> refuse_mprotect{false};
}  // namespace

// In front of the C library's, which counts and which may have no room for one more range.
extern "C" int mprotect(void* address, std::size_t size_bytes, int protection) noexcept {
  ++mprotect_calls;
  if (refuse_mprotect) {
    errno = ENOMEM;
    return -1;
  }
  return static_cast<int>(syscall(SYS_mprotect, address, size_bytes, protection));
}

namespace memlease::testing {
namespace {

// Asks the kernel, whose answer is no signal. Writes the byte that is there.
bool is_writable(const void* address) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const bool given = ::write(ends[1], address, 1) == 1;
  const ssize_t taken = ::read(ends[0], const_cast<void*>(address), 1);
  EXPECT_TRUE(given);
  EXPECT_TRUE(taken == 1 || errno == EFAULT);
  ::close(ends[0]);
  ::close(ends[1]);
  return taken == 1;
}

class LateWrites : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPages = 1024;  // words, in two pages

  Client connect(bool strict = false) const {
    ConnectOptions options = options_for(daemon_);
    options.strict = strict;
    return Client::connect(options);
  }
  static std::uint64_t* fill(const WriteLease& lease) {
    auto* const data = static_cast<std::uint64_t*>(lease.data());
    data[0] = lease.version();
    return data;
  }
  static std::uint64_t first_word(const Array& array) {
    const ReadLease lease = array.read();
    return *static_cast<const std::uint64_t*>(lease.data());
  }
  static void publish(const Array& array) {
    WriteLease lease = array.write();
    fill(lease);
    lease.publish();
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
};

TEST_F(LateWrites, PinsDoNotStopAPublicationAndCannotWrite) {
  const Client client = connect();
  const Array array = client.create(words("a", kPages));
  WriteLease lease = array.write();
  const std::uint64_t* const data = fill(lease);
  const std::uint32_t slot = lease.slot();
  Pin pin = lease.pin();
  EXPECT_TRUE(is_writable(data));
  EXPECT_EQ(lease.publish(), 1U);
  EXPECT_FALSE(is_writable(data));
  EXPECT_FALSE(is_writable(data + kPages - 1));
  EXPECT_EQ(*data, 1U);
  EXPECT_EQ(first_word(array), 1U);
  EXPECT_EQ(client.protected_slots(), 1U);
  EXPECT_EQ(client.refused_protections(), 0U);
  for (int i = 0; i < 6; ++i) {
    WriteLease next = array.write();
    EXPECT_NE(next.slot(), slot);
    EXPECT_TRUE(is_writable(fill(next)));
    next.publish();
  }
  EXPECT_EQ(*data, 1U) << "the pin keeps its version";
  pin.reset();
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 6; ++i) {
    WriteLease next = array.write();
    slots.insert(next.slot());
    EXPECT_TRUE(is_writable(fill(next))) << "also the slot that was protected";
    next.publish();
    EXPECT_EQ(first_word(array), array.version());
  }
  EXPECT_EQ(slots.count(slot), 1U);
}

TEST_F(LateWrites, WithoutPinsNothingIsProtected) {
  const Client client = connect();
  const Array array = client.create(words("a", kPages));
  publish(array);
  const int before = mprotect_calls;
  for (int i = 0; i < 100; ++i) {
    WriteLease lease = array.write();
    fill(lease);
    lease.pin().reset();
    lease.publish();
  }
  EXPECT_EQ(mprotect_calls, before);
  EXPECT_EQ(client.protected_slots(), 0U);
}

TEST_F(LateWrites, WhoReadsCannotWriteAlsoIfHeWritesTheArray) {
  const Client client = connect();
  for (const std::int64_t count : {std::int64_t{4}, kPages}) {
    const Array array = client.create(words("a" + std::to_string(count), count));
    publish(array);
    ReadLease lease = array.read();
    EXPECT_FALSE(is_writable(lease.data()));
    const Pin pin = lease.pin();
    lease.release();
    publish(array);
    EXPECT_FALSE(is_writable(pin.get()));
  }
}

TEST_F(LateWrites, ArraysThatShareAPageAreLeftAlone) {
  const Client client = connect();
  const Array small = client.create(words("a", 8));
  const Array neighbour = client.create(words("b", 8));
  WriteLease lease = small.write();
  fill(lease);
  const Pin pin = lease.pin();
  lease.publish();
  for (int i = 0; i < 6; ++i) publish(neighbour);
  EXPECT_EQ(client.protected_slots(), 0U);
  EXPECT_EQ(first_word(small), 1U);
}

TEST_F(LateWrites, MemoryOfAnArrayThatHasGoneIsWritableAgain) {
  const Client client = connect();
  for (int i = 0; i < 3; ++i) {
    const Array array = client.create(words("a", kPages));
    std::vector<Pin> pins;
    for (int version = 0; version < 2; ++version) {
      WriteLease lease = array.write();
      EXPECT_TRUE(is_writable(fill(lease))) << i;
      pins.push_back(lease.pin());
      lease.publish();
    }
    publish(array);
    array.withdraw();
  }
  EXPECT_EQ(client.protected_slots(), 6U);
}

TEST_F(LateWrites, WhereTheKernelHasNoRoomAPublicationGoesOn) {
  const Client client = connect();
  const Array array = client.create(words("a", kPages));
  WriteLease lease = array.write();
  const std::uint64_t* const data = fill(lease);
  const Pin pin = lease.pin();
  refuse_mprotect = true;
  lease.publish();
  refuse_mprotect = false;
  EXPECT_EQ(array.version(), 1U);
  EXPECT_TRUE(is_writable(data));
  EXPECT_EQ(client.protected_slots(), 0U);
  EXPECT_EQ(client.refused_protections(), 1U);
}

TEST_F(LateWrites, ProtectedSlotsLeaveTheProcessHalfOfItsMappings) {
  constexpr std::uint32_t kSlots = 64;
  std::uint64_t mappings = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
  const std::uint64_t most = std::min<std::uint64_t>(mappings / 4, 16'384);
  const Client client = connect();
  std::vector<Array> arrays;
  std::vector<Pin> pins;
  while (pins.size() < most + 10) {
    CreateOptions options = words("many/" + std::to_string(arrays.size()), kPages);
    options.slots = options.max_slots = kSlots;
    arrays.push_back(client.create(options));
    for (std::uint32_t version = 1; version < kSlots && pins.size() < most + 10; ++version) {
      WriteLease lease = arrays.back().write();
      pins.push_back(lease.pin());
      lease.publish();
    }
  }
  EXPECT_EQ(client.protected_slots(), most);
  EXPECT_EQ(client.refused_protections(), 10U);
  pins.clear();
  WriteLease lease = arrays.front().write();
  const std::uint64_t* const data = fill(lease);
  const Pin pin = lease.pin();
  lease.publish();
  EXPECT_FALSE(is_writable(data));
}

// In a process of its own, whose end gives the slot back.
TEST_F(LateWrites, ASlotThatCannotBeMadeWritableIsNotUsedAgain) {
  const std::string done = in_forked_child([&] {
    const Client client = connect();
    const Array array = client.create(words("a", kPages));
    WriteLease lease = array.write();
    fill(lease);
    const std::uint32_t slot = lease.slot();
    Pin pin = lease.pin();
    lease.publish();
    refuse_mprotect = true;
    pin.reset();
    refuse_mprotect = false;
    for (int i = 0; i < 6; ++i) {
      WriteLease next = array.write();
      if (next.slot() == slot) return "used again";
      if (!is_writable(fill(next))) return "not writable";
      next.publish();
    }
    return "done";
  });
  EXPECT_EQ(done, "done");
}

// An array that has more slots than it was made with.
TEST_F(LateWrites, PinsOfAddedSlotsCannotWriteEither) {
  const Client client = connect();
  const Array array = client.create(words("a", kPages));
  std::vector<Pin> pins;
  std::vector<const std::uint64_t*> addresses;
  for (int i = 0; i < 8; ++i) {
    WriteLease lease = array.write();
    addresses.push_back(fill(lease));
    EXPECT_TRUE(is_writable(addresses.back()));
    pins.push_back(lease.pin());
    lease.publish();
  }
  for (const std::uint64_t* address : addresses) EXPECT_FALSE(is_writable(address));
  EXPECT_EQ(client.protected_slots(), 8U);
  pins.clear();
  for (int i = 0; i < 16; ++i) publish(array);
  EXPECT_EQ(first_word(array), array.version());
}

TEST_F(LateWrites, StrictConnectionsRefuse) {
  const Client client = connect(true);
  const Array array = client.create(words("a", kPages));
  WriteLease lease = array.write();
  const std::uint64_t* const data = fill(lease);
  Pin pin = lease.pin();
  try {
    lease.publish();
    ADD_FAILURE() << "a pin lives";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Busy);
  }
  EXPECT_TRUE(is_writable(data)) << "the lease goes on";
  pin.reset();
  EXPECT_EQ(lease.publish(), 1U);
}

TEST_F(LateWrites, LeasesThatNobodyUsedAreCounted) {
  const Client client = connect();
  const Array array = client.create(words("a", kPages));
  array.write().publish();
  array.write().drop();
  EXPECT_EQ(client.empty_writes(), 2U);
  publish(array);
  array.update().publish();
  WriteLease moved = array.write();
  fill(moved);
  WriteLease lease = std::move(moved);
  lease.drop();
  EXPECT_EQ(client.empty_writes(), 2U);
}

}  // namespace
}  // namespace memlease::testing
