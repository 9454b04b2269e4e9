// All shared files of the daemon by id, with who may have them. Not thread-safe.
//
// Ids are numbers of 28 bits, so a daemon that lives long uses them again: in turn, the oldest
// first. A number is taken while its file is there, and after that for as long as a session lives
// that was ever told of it in an answer or was given the file (pin). So a process never has two
// files by one number: what it has mapped, opened or looked up by a number is that number's file
// until its session ends.
//
// A process may also have read a number in a word of a board and not have fetched it yet. Before a
// file goes, what names it goes from the boards: the end of a session stores the takeover row in
// each writer word that named a row of the session, and 0 in its subscriber entries; a record whose
// takeover row row or chunks go has no array_id any more. So who fetches such a number late may be
// given another file, and finds the word changed, as it must look at the word again after it has
// read the row.
//
// A number that rests so costs a few dozen bytes, for as long as a process that knew it goes on. So
// each number that a session knows is charged to its user, also while the file is there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "server/core/access.h"
#include "server/core/garbage.h"
#include "server/core/quota.h"
#include "server/core/session_host.h"
#include "server/core/shared_memory.h"
#include "wire/ids.h"
#include "wire/memory_ceiling.h"

namespace memlease::server {

class FileTable {
 public:
  struct File {
    // Shared with the sessions that import it by its handle: they may have it open when it goes.
    std::shared_ptr<SharedMemory> memory;
    wire::FileKind kind = wire::FileKind::kSegment;
    AccessDomain domain;
    wire::SessionId owner{0};  // of a session page: the only one who may write it
  };

  // A pool's segments that nobody may use any more, until they have been given back.
  struct Going {
    std::uint64_t bytes = 0;                  // on their way
    std::map<uid_t, std::uint64_t> bytes_of;  // likewise, by who pays
    std::uint64_t kept_bytes = 0;             // somebody can still write them
  };

  // Files are charged to `quota`, which outlives this: a descriptor, if they have one, and the
  // bytes of those that are no segments. Numbers go from 1 to `numbers`.
  FileTable(Quota& quota, Disposal dispose, std::uint32_t numbers = wire::kMaxFileId)
      : quota_(quota), dispose_(std::move(dispose)), numbers_(numbers) {}

  // `payer`: whose charge it is; none: it is the daemon's own. kQuotaExceeded, and kOutOfMemory if
  // all numbers are taken: then the memory is disposed of.
  absl::StatusOr<wire::FileId> add(File&& file, std::optional<uid_t> payer);
  // The same in two steps, where the memory has yet to be made; without a charge if it will have no
  // descriptor.
  absl::StatusOr<Charge> charge(uid_t payer) {
    return quota_.charge(payer, Resource::kDescriptors, kDescriptorsOfFile);
  }
  // Its own, and what holds its pages where they are; one more for who writes it.
  static constexpr std::uint64_t kDescriptorsOfFile = 2;
  // Of what is kept free, for so many bytes of the payer's: who has little with them, and with the
  // host's segments, may have some of it.
  wire::ReserveKept reserve_kept(uid_t payer, std::uint64_t more_bytes) {
    const std::uint64_t segments =
        of_host_ == nullptr ? 0 : of_host_->account(payer).used(Resource::kSegmentBytes);
    return quota_.account(payer).has_little(segments + more_bytes)
               ? wire::ReserveKept::kThreeEighths
               : wire::ReserveKept::kAll;
  }
  // The book that has these; it outlives this.
  void count_segments(Quota& of_host) { of_host_ = &of_host; }
  absl::StatusOr<wire::FileId> add_charged(File&& file, uid_t payer, Charge descriptor,
                                           Charge pages = {});
  // Nobody may use it any more: it is disposed of, revoked, with the exceptions that follow. What
  // somebody can still write stays for as long as he can. Until it has gone it stays charged.
  void remove(wire::FileId id) { remove(id, {}, nullptr); }
  // The same of a segment, whose bytes are in the pool's books meanwhile; these are there until
  // leave_to_clients().
  void remove(wire::FileId id, Charge bytes, Going& going) { remove(id, std::move(bytes), &going); }
  // How many are on their way: whoever finds no room may find it when they have gone, or are known
  // to be kept.
  std::size_t going() const { return going_; }
  std::size_t going_of(uid_t uid) const;
  // Whether some of this uid's are kept: by now they may be so no longer.
  bool keeps_some_of(uid_t uid) const;
  // What is on a device may read it for as long as it likes.
  void never_revoke(wire::FileId id) { entries_.at(id).file->may_be_revoked = false; }
  // The daemon ends: who has a file open goes on with it, also where remove() comes from now on.
  void leave_to_clients();
  // The session, a process of this uid, knows the number, until session_ended(). Nothing if there
  // is no such file. It is charged whatever the limit: whoever begins something asks may_pin()
  // first.
  void pin(wire::FileId id, wire::SessionId session, uid_t uid);
  // kQuotaExceeded: the uid's sessions know as many numbers as they may. The second one is OK for a
  // number that the session knows already.
  absl::Status may_pin(uid_t uid) const {
    return quota_.account(uid).may_spend(Resource::kFileNumbers, 1);
  }
  absl::Status may_pin(wire::FileId id, wire::SessionId session, uid_t uid) const;
  // It has been told of the number, or given the file.
  bool knows(wire::SessionId session, wire::FileId id) const;
  // Its process has exited, or has said that it uses nothing any more.
  void session_ended(wire::SessionId session);
  // Memory that a session has closed.
  void dispose(uid_t uid, std::shared_ptr<const void> unused);
  // nullptr if there is no such file.
  const File* find(wire::FileId id) const;
  // Where the daemon sees the range; the file must exist and be a page file.
  std::byte* data(wire::FileRange at) const;

  // Lets `change` write what is there, which the daemon otherwise only reads.
  void change(wire::FileRange at, absl::FunctionRef<void(std::byte*)> change) const;

  // With write access arrays' events are writable, and a segment if it is wanted so: who keeps one
  // that he does not write can have its pages taken (remove). A session page is for its owner
  // alone, a board never. A file that the peer may not read is as unknown as one that does
  // not exist. Pins it; kQuotaExceeded where may_pin() says so and the session does not know it
  // yet, and where whoever pays for the file has no descriptor for those who will write it.
  absl::StatusOr<FileGrant> grant(wire::FileId id, const PeerIdentity& peer,
                                  wire::SessionId session, bool writable);
  // The file, for whoever may have it. kNotFound.
  absl::StatusOr<const File*> readable(wire::FileId id, const PeerIdentity& peer) const;

 private:
  friend class Auditor;  // server/core/audit.h
  struct Living {
    File file;
    uid_t payer;
    Charge descriptor;
    Charge pages;
    bool may_be_revoked = true;
    bool has_writer = false;
    Charge writer = {};  // of the descriptor that this takes
  };
  class Leaving;
  // A number that is taken. Small: millions may rest.
  struct Entry {
    std::unique_ptr<Living> file;  // null: it has gone
    std::uint32_t pins = 0;        // sessions that know the number
  };
  struct Known {
    absl::flat_hash_set<wire::FileId> numbers;
    Charge charge;
  };

  absl::Status make_writer(Living& living);
  void remove(wire::FileId id, Charge bytes, Going* going);

  Quota& quota_;
  Quota* of_host_ = nullptr;
  const Disposal dispose_;
  const std::uint32_t numbers_;
  std::uint32_t last_id_ = 0;
  bool leaves_to_clients_ = false;
  absl::flat_hash_map<wire::FileId, Entry> entries_;
  absl::flat_hash_map<const Leaving*, std::shared_ptr<Leaving>> leaving_;
  std::size_t going_ = 0;
  std::map<uid_t, std::size_t> going_of_;  // by who pays
  std::map<uid_t, std::size_t> kept_of_;
  absl::flat_hash_map<wire::SessionId, Known> pinned_;
};

// A file that nobody may use any more. go() alone touches its memory, and nothing else: what
// remains is under the core's lock, settle() for as long as the table is there.
class FileTable::Leaving final : public Garbage {
 public:
  Leaving(FileTable& table, std::unique_ptr<Living> file, Charge bytes, Going* going);
  bool go() override;
  void settle(bool has_gone) override;

 private:
  friend class FileTable;
  friend class Auditor;
  std::uint64_t segment_bytes() const { return going_ == nullptr ? 0 : size_bytes_; }
  void note_way(bool begins);
  void note_kept(bool begins);
  void drop_charges();

  FileTable& table_;
  const uid_t payer_;
  const std::uint64_t size_bytes_;
  const std::unique_ptr<Living> file_;
  Charge bytes_;
  Going* const going_;
  bool is_kept_ = false;
};

}  // namespace memlease::server
