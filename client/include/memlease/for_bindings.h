// What bindings to other languages need beyond the public API: they have views whose fate a lease
// does not know. Standard library only, C++17.
#pragma once

#include <memlease/array.h>
#include <memlease/follower.h>
#include <memlease/lease.h>
#include <memlease/region.h>
#include <memlease/stop.h>
#include <memlease/version.h>
#include <memlease/wait.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace memlease::internal {

struct MEMLEASE_API ForBindings {
  // As lease.publish(stream), whatever pins live. `late_writes`: something that the caller cannot
  // take write access from could write into the version later.
  static std::uint64_t publish(WriteLease& lease, Stream stream, bool late_writes);
  // A follower's next_or_end(), within another timeout, or until the stop.
  static std::optional<ReadLease> next_within(Follower& follower, std::chrono::nanoseconds timeout,
                                              const Stop& stop);
  // publish() is to refuse where something lives that could write (ConnectOptions::strict).
  static bool is_strict(const WriteLease& lease) noexcept;
  // Nobody has asked for its bytes.
  static bool is_empty(const WriteLease& lease) noexcept;

  // Its bytes are unspecified: of an array of the host, nobody has asked for them yet, and they are
  // not the current version's.
  static bool is_unspecified(const WriteLease& lease) noexcept;
  // As update(), for whoever is going to read its bytes or to write some of them: copies the
  // current version's there, or zeros if there is none, if they are unspecified.
  // Throws InvalidArgument where the newest version may be elsewhere: on a replica, or beside
  // written ones.
  static void begin_with_current(WriteLease& lease);

  // As those of the array, and within the same wait the daemon is asked, before the write begins,
  // for what pin() of a host array's lease would ask it for, so that this calls nobody. Throw what
  // pin() does, too.
  static WriteLease write(const Array& array, const WriteOptions& options);
  static WriteLease update(const Array& array, const WriteOptions& options);
  static std::optional<WriteLease> try_write(const Array& array, const WriteOptions& options);

  // Parts of calls, where these need nobody: true if it is known what Array::try_read would return
  // at once, which is in `lease` then, nothing for nothing. Of a host array. Never waits or throws.
  static bool try_read_at_once(const Array& array, const ReadOptions& options,
                               std::optional<ReadLease>& lease);
  // Array::version(), or nothing where the daemon may have to be asked.
  static std::optional<std::uint64_t> version_at_once(const Array& array);

  // This process has a row to read the array by, so that a read asks the daemon for the rows of
  // writers that are new to it alone; or it is closed.
  static bool is_subscribed(const Array& array) noexcept;
  // Asks for one, once, within the timeout. Throws Timeout; what else there is a read says, too.
  static void subscribe(const Array& array, const Timeout& timeout);
  // For wait(): a version above the one that is current when it begins.
  static memlease::Awaited newer_than_current(const Array& array);

  // Its end would lose what somebody has written: it goes on, and its bytes have been asked for.
  static bool would_lose(const WriteLease& lease) noexcept;

  // Is the user to be told that views keep slots which a writer waits for? True once an array and
  // process. For after a write() of this process, and for before the end of a lease with views.
  static bool should_warn_of_views(const Array& array);
  static bool should_warn_of_views(const ReadLease& lease);

  // Where a region's elements are. Throws InvalidArgument: it does not fit the array.
  static ElementLayout layout_of(const Array& array, const Region& region);
  // Is it a lease of the array that the handle is open to?
  static bool is_of(const ReadLease& lease, const Array& array) noexcept;
  // Of how many slots has this process a lease or view?
  static std::uint32_t held_slots(const Array& array);
  // What outlives its lease gives its slot up and sees a copy from now on, at the same address; but
  // on a device, and views of write leases of arrays of at most 4096 bytes. Throws OutOfMemory.
  static void release_views(const Array& array);

  // explain_faults() where nothing handles such a fault yet.
  static void explain_faults_unless_handled();
  // Where the line of explain_faults() goes from now on, at first standard error. Returns where it
  // went before.
  static int explain_faults_to(int descriptor) noexcept;

  // For who exits by itself, but not by exit(), which has this done: tells the daemons so, that
  // they do not take this process for one that was killed.
  static void tell_of_exit();
};

}  // namespace memlease::internal
