// Memory that the daemon owns and other processes open. Handed out by DeviceBackend and PageSource.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "wire/ids.h"
#include "wire/shared_fd.h"

namespace memlease::server {

enum class Elsewhere : std::uint8_t {
  kNoWriter,  // readers, perhaps
  kWriter,    // somebody who can write it
  kUnknown,   // nobody can tell
};

// One allocation from the operating system or a driver: the unit of sharing between processes.
// Destroying it gives the memory back as soon as no client maps it any more; that may take long,
// and is done on any thread, without the daemon's lock (Garbage), like elsewhere() and revoke()
// before it. All else is called under it.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::uint64_t size_bytes() const = 0;
  // A descriptor of an open file that all share who have it; one that is not writable cannot be
  // made so by another uid. The first writable one takes another of the daemon's descriptors.
  // kUnsupported for memory that has a handle instead. Who has it lets it go soon: to close the
  // last one may take as long as somebody likes who has a lock of the file.
  virtual absl::StatusOr<wire::SharedFd> export_fd(bool writable) = 0;
  // Somebody has still to let one go. On any thread, like elsewhere().
  virtual bool is_lent() const { return false; }
  // nullptr: it has descriptors. Who has the handle can read and write all of it, for ever.
  virtual const wire::DeviceHandle* handle() const { return nullptr; }
  // Where the daemon sees it; nullptr for segments, whose bytes are none of its business.
  virtual std::byte* data() = 0;
  // Calls it while the daemon can write what it otherwise only reads.
  virtual void change(absl::FunctionRef<void()> change) { change(); }
  // Who has it open beside the daemon, or mapped, where the daemon exports it no more. May wait for
  // whoever reads the list of all locks, where the kernel has no better way.
  virtual Elsewhere elsewhere();
  // Nobody may use it any more: takes its pages from whoever has kept a descriptor or a mapping,
  // who finds zeros there, in pages of his own. Only where nobody can write it, since who writes a
  // file can make that wait for as long as he likes. False: not now.
  virtual bool revoke() { return true; }
};

// What elsewhere() tells, by a descriptor that only reads.
Elsewhere elsewhere_by_lease(int reader);

// For a SharedMemory that is mapped for reading: lets `change` write it.
void change_read_only(std::byte* data, std::uint64_t size_bytes, absl::FunctionRef<void()> change);

// What revoke() promises, for a memfd by a writable descriptor.
bool take_pages(int fd, std::uint64_t size_bytes);

}  // namespace memlease::server
