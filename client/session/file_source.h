// Port: where a client's shared files come from. Implemented by AttachClient
// (client/channel/attach_client.h), in tests by FakeFiles (tests/support/fake_files.h); called by
// MappingCache, Session and ControlStub. Thread-safe. fetch_all(), fetch() and
// open_array() ask the daemon and wait for it, so no lock is held over them; the others do not
// wait. In a forked child the connection is the parent's: fetches fail with kForkedClient, alive()
// is false, goodbye() does nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/session/interrupt.h"
#include "wire/ids.h"
#include "wire/unique_fd.h"

namespace memlease::internal {

// What a segment is had for. Who reads cannot write, though he may write the array.
enum class Access : bool { kRead, kWrite };

// With other kinds than segments the access says nothing.
struct WantedFile {
  wire::FileId file{0};
  Access access = Access::kRead;
};

struct SharedFile {
  wire::UniqueFd fd;
  wire::FileKind kind = wire::FileKind::kSegment;
  std::uint64_t size_bytes = 0;
  bool writable = false;
};

using FilesById = std::vector<std::pair<wire::FileId, SharedFile>>;

class FileSource {
 public:
  virtual ~FileSource() = default;
  // Asks the daemon for 1 to wire::kMaxFetchedFiles files by one request: for the first, and for
  // others that come along where they can be had. As many answers as `files`; the first one has a
  // descriptor, and so have the others that have come. One request is under way at a time: other
  // threads wait for theirs. Errors, for the first: kDaemonLost, kClosed after goodbye(), what the
  // daemon says (kNotFound, also for a file that this process may not read); kTimeout if it does
  // not answer, kOutOfMemory if this process has no descriptor free, or what `interrupt` says, and
  // all of these may be asked again later; kBusy where the interrupt check of a fetch itself needs
  // a file.
  virtual absl::StatusOr<std::vector<SharedFile>> fetch_all(std::span<const WantedFile> files,
                                                            InterruptCheck interrupt) = 0;
  struct OpenedArray {
    std::string answer;  // of the call, serialized; empty: it must be made as a call
    FilesById files;
  };
  // Makes a call whose answer comes with files: of those that it takes to read the array, with the
  // ones of which the daemon has not told this process before. `request`: serialized, of
  // wire::kMaxCallBytes at most. Errors as of fetch_all(), and the call's.
  virtual absl::StatusOr<OpenedArray> open_array(wire::OpeningCall call, const std::string& request,
                                                 InterruptCheck interrupt) = 0;
  // Answers of open_array() that came when nobody waited for them any more, for the caller to give
  // back what they have opened; waits for so long for one that is still to come.
  struct LateAnswers {
    std::vector<std::string> answers;
    bool more_to_come = false;
  };
  virtual LateAnswers take_late_answers(std::chrono::milliseconds longest) = 0;
  // Of one file.
  absl::StatusOr<SharedFile> fetch(const WantedFile& file,
                                   InterruptCheck interrupt = kNoInterrupts) {
    auto fetched = fetch_all({&file, 1}, interrupt);
    if (!fetched.ok()) return fetched.status();
    return std::move(fetched->front());
  }
  // False once the daemon has gone. One poll(2), no message, no wait.
  virtual bool alive() = 0;
  // For some seconds from now on the waits of this process are told (client/session/wait_news.h)
  // once it is not alive. False if they have to look themselves.
  virtual bool watch_end() = 0;
  // Once it is not alive: because this program has closed the connection's descriptor.
  virtual bool closed_by_program() = 0;
  // Ends the session politely: nothing of it is used any more. Waits for no answer. A repeat does
  // nothing.
  virtual void goodbye() = 0;
};

}  // namespace memlease::internal
