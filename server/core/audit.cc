#include "server/core/audit.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "server/core/page_allocator.h"
#include "wire/session_pages.h"

namespace memlease::server {

// The one who may look into what the others keep for themselves.
class Auditor {
 public:
  Auditor(const Broker& broker, Audit& audit) : broker_(broker), audit_(audit) {}

  void run() {
    add_segments();
    add_pages();
    add_arrays();
    add_sessions();
    add_leaving();
    add_connections();
    check_places();
    check_files();
    check_accounts();
  }

 private:
  // What a file is for, and who pays for it.
  struct Home {
    wire::FileKind kind = wire::FileKind::kSegment;
    AccessDomain domain;
    wire::SessionId owner{0};
    const Device* device = nullptr;  // of a segment
    uid_t payer = 0;
    const Arena* arena = nullptr;
    std::uint64_t used_bytes = 0;  // with its header
  };
  struct Place {
    wire::FileId file{0};
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void add_home(wire::FileId file, const Home& home) {
    audit_.require(homes_.emplace(file, home).second, "file {} is kept twice", wire::to_int(file));
  }
  void add_place(wire::FileRange at, std::uint64_t bytes, const Home& where) {
    ++audit_.places;
    places_.push_back({at.file, at.offset, at.offset + bytes});
    const auto found = homes_.find(at.file);
    if (found == homes_.end()) {
      audit_.require(false, "what is at {} of file {} is in no file that there is", at.offset,
                     wire::to_int(at.file));
      return;
    }
    Home& home = found->second;
    home.used_bytes += bytes;
    audit_.require(home.kind == where.kind && home.domain == where.domain &&
                       home.owner == where.owner && home.device == where.device,
                   "what is at {} of file {} is in a file for something else", at.offset,
                   wire::to_int(at.file));
    audit_.require(at.offset + bytes <= home.arena->size_bytes(),
                   "what is at {} of file {} reaches beyond its end", at.offset,
                   wire::to_int(at.file));
  }

  void count(const Charge& charge) {
    if (charge.account_ != nullptr) sums_[{charge.account_, charge.what()}] += charge.amount();
  }
  static bool is(const Charge& charge, const Quota& quota, uid_t uid, Resource what,
                 std::uint64_t amount) {
    if (amount == 0) return charge.amount() == 0;
    return charge.account_ == quota.find(uid) && charge.what() == what && charge.amount() == amount;
  }

  void add_segments();
  void add_growing(const Device& device, std::uint64_t& taken);
  void add_pages();
  void add_pages(const PageAllocator& pages);
  void add_arrays();
  void check_charges(const Array& array, const Device& device);
  void add_sessions();
  void add_rows(const Session& session);
  void add_leaving();
  void add_connections();
  void check_places();
  void check_files();
  void check_file(wire::FileId id, const FileTable::Living& living);
  void check_pins();
  void check_accounts();
  void check_accounts(const Quota& quota, const std::string& where);

  const Broker& broker_;
  Audit& audit_;
  absl::flat_hash_map<wire::FileId, Home> homes_;
  std::vector<Place> places_;
  absl::flat_hash_map<std::pair<const Account*, Resource>, std::uint64_t> sums_;
};

// ---- What there is, and what each is charged.

void Auditor::add_segments() {
  std::size_t growing = 0;
  for (const auto& [name, device] : broker_.devices().all()) {
    const SegmentPool& pool = device.segments;
    std::uint64_t taken = 0;
    std::uint64_t warm = 0;
    for (const auto& [domain, segments] : pool.classes_) {
      for (const SegmentPool::Segment& segment : segments) {
        const std::uint64_t bytes = segment.arena.size_bytes();
        add_home(segment.file,
                 {wire::FileKind::kSegment, domain, {}, &device, domain.uid, &segment.arena, 0});
        count(segment.bytes);
        count(segment.warm);
        const bool is_warm = segment.arena.empty();
        audit_.require(
            is(segment.bytes, device.quota, domain.uid, Resource::kSegmentBytes, bytes) &&
                is(segment.warm, device.quota, domain.uid, Resource::kWarmBytes,
                   is_warm ? bytes : 0),
            "the segment in file {} is not charged its {} bytes", wire::to_int(segment.file),
            bytes);
        taken += bytes;
        warm += is_warm ? bytes : 0;
      }
    }
    growing += pool.growing_.size();
    add_growing(device, taken);
    audit_.require(pool.memory_bytes_ == taken, "{} bytes of {} are in the books, and {} are taken",
                   pool.memory_bytes_, name, taken);
    audit_.require(pool.warm_bytes_ == warm, "{} bytes of {} are said to be warm, and {} are",
                   pool.warm_bytes_, name, warm);
  }
  audit_.require(broker_.store_.growing_.size() == growing,
                 "{} calls wait for memory, and {} memories are being made",
                 broker_.store_.growing_.size(), growing);
}

// What calls have been charged whose memory is being made.
void Auditor::add_growing(const Device& device, std::uint64_t& taken) {
  for (const auto& [number, reservation] : device.segments.growing_) {
    count(reservation.descriptor);
    count(reservation.bytes);
    taken += reservation.bytes.amount();
    const auto call = broker_.store_.growing_.find({device.backend().device(), number});
    if (call == broker_.store_.growing_.end()) {
      audit_.require(false, "nobody waits for memory {} of {}", number, device.backend().device());
      continue;
    }
    for (const Charge& charge : call->second) count(charge);
  }
}

void Auditor::add_pages(const PageAllocator& pages) {
  for (const PageAllocator::Page& page : pages.pages_) {
    const PageAllocator::Kind& kind = pages.kind_;
    add_home(page.file, {kind.kind, kind.domain, kind.owner, nullptr, kind.payer, &page.arena,
                         kind.header_bytes});
  }
}

void Auditor::add_pages() {
  for (const auto& [domain, pages] : broker_.store_.domains_) {
    add_pages(pages->boards);
    add_pages(pages->takeovers);
    add_pages(pages->events);
  }
  for (const Session* session : broker_.sessions().all()) {
    for (const auto& [domain, pages] : session->pages) add_pages(*pages);
  }
}

void Auditor::add_arrays() {
  std::uint64_t added = 0;
  absl::flat_hash_map<AccessDomain, std::uint64_t> arrays_of;
  for (const Array* array : broker_.catalog().all()) {
    const auto found = broker_.devices().all().find(array->kind->device);
    if (found == broker_.devices().all().end()) {
      audit_.require(false, "'{}' is on a device that is not there", array->name);
      continue;
    }
    const Device& device = found->second;
    Home home{wire::FileKind::kSegment, array->domain, {}, &device, 0, nullptr, 0};
    for (const wire::FileRange& slot : array->slots) {
      add_place(slot, device.segments.place_bytes(array->slot_bytes), home);
    }
    home.device = nullptr;
    home.kind = wire::FileKind::kBoard;
    const std::uint64_t record = wire::board_record_units(array->layout()) * wire::kBoardUnitBytes;
    add_place(array->board_at, record, home);
    for (const wire::FileRange& chunk : array->rare().chunks) {
      add_place(chunk, sizeof(wire::SubscriberChunk), home);
    }
    home.kind = wire::FileKind::kSessionPage;
    const std::uint32_t most = array->layout().most;
    if (array->own_takeover) {
      add_place(*array->own_takeover, wire::writer_row_units(most) * wire::kRowUnitBytes, home);
    }
    ++arrays_of[array->domain];
    home.kind = wire::FileKind::kEvents;
    if (!array->rare().write_events.empty()) {
      add_place(array->rare().write_events.at(), wire::event_units(most) * wire::kRowUnitBytes,
                home);
    }
    added += array->rare().added.size();
    check_charges(*array, device);
  }
  for (const auto& [domain, pages] : broker_.store_.domains_) {
    audit_.require(pages->arrays == arrays_of[domain], "a domain has {} arrays, and counts {}",
                   arrays_of[domain], pages->arrays);
    if (pages->arrays == 0) continue;
    const std::uint64_t bytes = wire::writer_row_units(wire::kMaxSlots) * wire::kRowUnitBytes;
    add_place(pages->unwritten, bytes,
              {wire::FileKind::kSessionPage, domain, {}, nullptr, 0, nullptr, 0});
  }
  audit_.require(broker_.added_slots() == added, "{} slots are said to be added, and {} are",
                 broker_.added_slots(), added);
}

void Auditor::check_charges(const Array& array, const Device& device) {
  const uid_t uid = array.domain.uid;
  const std::uint64_t place = device.segments.place_bytes(array.slot_bytes);
  // A replica's attributes are its home's.
  const std::uint64_t attributes = array.rare().home ? 0 : array.rare().attribute_bytes;
  const Charges& charges = array.charges;
  for (const Charge& charge : charges) count(charge);
  bool right = charges.size() == (attributes == 0 ? 2U : 3U) &&
               is(charges.front(), broker_.quota(), uid, Resource::kArrays, 1) &&
               is(charges.back(), device.quota, uid, Resource::kBytes, place * array.kind->slots);
  if (right && attributes != 0) {
    right = is(charges[1], broker_.host().quota, uid, Resource::kBytes, attributes);
  }
  for (const Array::Added& slot : array.rare().added) {
    count(slot.bytes_charge);
    right = right && is(slot.bytes_charge, device.quota, uid, Resource::kBytes, place);
  }
  audit_.require(right, "'{}' is not charged what it costs uid {}", array.name, uid);
}

void Auditor::add_sessions() {
  for (const Session* session : broker_.sessions().all()) {
    count(session->session_charge);
    count(session->descriptors_charge);
    // What it has to do still is no use of the daemon.
    const std::uint64_t sessions = session->ending ? 0 : 1;
    const std::uint64_t descriptors = session->descriptors_charge.amount();
    const uid_t uid = session->peer.uid;
    const bool right =
        (descriptors == 0) == session->ending &&
        is(session->session_charge, broker_.quota(), uid, Resource::kSessions, sessions) &&
        is(session->descriptors_charge, broker_.quota(), uid, Resource::kDescriptors, descriptors);
    audit_.require(right, "session {} is not charged what it costs uid {}",
                   wire::to_int(session->id), uid);
    add_rows(*session);
  }
}

void Auditor::add_rows(const Session& session) {
  const auto add = [&](wire::FileRange at, const RowClass& of, RowKind kind) {
    const bool has_events = session.read_events.contains(wire::pack_subscriber(row_ref(at)));
    const std::uint32_t units = kind == RowKind::kWriter ? wire::writer_row_units(of.slots)
                                : has_events ? wire::reader_row_units_with_events(of.slots)
                                             : wire::reader_row_units(of.slots);
    add_place(at, units * wire::kRowUnitBytes,
              {wire::FileKind::kSessionPage, of.domain, session.id, nullptr, 0, nullptr, 0});
  };
  for (const auto& [id, membership] : session.memberships) {
    count(membership.charge);
    audit_.require(
        is(membership.charge, broker_.quota(), session.peer.uid, Resource::kOpenArrays, 1),
        "session {} is not charged that it has array {} open", wire::to_int(session.id),
        wire::to_int(id));
    const bool has_row = membership.reader_row || membership.writer_row;
    if (!audit_.require(!has_row || (membership.row_class != nullptr &&
                                     session.free_rows.contains(*membership.row_class)),
                        "nobody knows how large session {}'s rows of array {} are",
                        wire::to_int(session.id), wire::to_int(id))) {
      continue;
    }
    if (membership.reader_row) add(*membership.reader_row, *membership.row_class, RowKind::kReader);
    if (membership.writer_row) add(*membership.writer_row, *membership.row_class, RowKind::kWriter);
  }
  for (const auto& [row_class, free] : session.free_rows) {
    for (const wire::FileRange& at : free.readers) add(at, row_class, RowKind::kReader);
    for (const wire::FileRange& at : free.writers) add(at, row_class, RowKind::kWriter);
  }
}

void Auditor::add_leaving() {
  std::size_t going = 0;
  std::map<const FileTable::Going*, std::uint64_t> segment_bytes;
  for (const auto& [key, leaving] : broker_.files_.leaving_) {
    going += leaving->is_kept_ ? 0 : 1;
    count(leaving->file_->descriptor);
    count(leaving->file_->writer);
    count(leaving->file_->pages);
    count(leaving->bytes_);
    segment_bytes[leaving->going_] += leaving->segment_bytes();
  }
  audit_.require(going == broker_.files_.going(), "{} files are on their way, and {} are counted",
                 going, broker_.files_.going());
  for (const auto& [name, device] : broker_.devices().all()) {
    const std::uint64_t kept_bytes = device.segments.kept_bytes();
    audit_.require(segment_bytes[&device.segments.going_] == kept_bytes,
                   "{} bytes of segments that have gone are in the books of {}, and {} are kept",
                   kept_bytes, name, segment_bytes[&device.segments.going_]);
  }
}

void Auditor::add_connections() {
  for (const auto& [uid, user] : broker_.connections_.users_) {
    for (const Charge& charge : user.connections) count(charge);
    for (const Charge& charge : user.descriptors) count(charge);
    const std::size_t connections = user.connections.size();
    const std::size_t sessions = broker_.quota().used_by(uid).sessions;
    const std::size_t beyond = connections - std::min(connections, sessions);
    audit_.require(user.descriptors.size() <= beyond,
                   "uid {} is charged the descriptors of {} connections, and has {} beyond its "
                   "sessions",
                   uid, user.descriptors.size(), beyond);
  }
}

// ---- What they come to.

void Auditor::check_places() {
  std::ranges::sort(places_, {}, [](const Place& p) { return std::tuple(p.file, p.begin); });
  for (std::size_t i = 1; i < places_.size(); ++i) {
    const Place& before = places_[i - 1];
    const Place& place = places_[i];
    audit_.require(before.file != place.file || before.end <= place.begin,
                   "what is at {} and at {} of file {} overlaps", before.begin, place.begin,
                   wire::to_int(place.file));
  }
  for (const auto& [file, home] : homes_) {
    const Arena& arena = *home.arena;
    std::uint64_t gaps = 0;
    for (const auto& [offset, size] : arena.gaps_) gaps += size;
    const Session* const session = broker_.sessions().find(home.owner);
    // Of a session that ends rows go with the file.
    const bool ends = session != nullptr && session->ending;
    audit_.require(
        arena.used_bytes() == home.used_bytes || (ends && arena.used_bytes() > home.used_bytes),
        "{} bytes of file {} are said to be used, and {} are", arena.used_bytes(),
        wire::to_int(file), home.used_bytes);
    audit_.require(gaps + arena.used_bytes() == arena.size_bytes() &&
                       arena.gaps_.size() == arena.gaps_by_size_.size(),
                   "what is free of file {} is not what is not used", wire::to_int(file));
  }
}

void Auditor::check_files() {
  std::size_t living = 0;
  for (const auto& [id, entry] : broker_.files_.entries_) {
    if (entry.file == nullptr) continue;
    ++living;
    check_file(id, *entry.file);
  }
  audit_.files = living;
  const std::size_t known = homes_.size() + (broker_.name_board_.file_ ? 1 : 0);
  audit_.require(living == known, "there are {} files, and {} are for something", living, known);
  check_pins();
}

void Auditor::check_file(wire::FileId id, const FileTable::Living& living) {
  count(living.descriptor);
  count(living.writer);
  count(living.pages);
  if (id == broker_.name_board_.file_) return;  // the daemon's own
  const auto found = homes_.find(id);
  if (found == homes_.end()) {
    audit_.require(false, "file {} is for nothing", wire::to_int(id));
    return;
  }
  const Home& home = found->second;
  const FileTable::File& file = living.file;
  audit_.require(file.kind == home.kind && file.domain == home.domain && file.owner == home.owner &&
                     file.memory != nullptr &&
                     file.memory->size_bytes() >= home.arena->size_bytes(),
                 "file {} is not what it is used for", wire::to_int(id));
  const bool takes_descriptor =
      home.device == nullptr || home.device->backend().takes_descriptors();
  const std::uint64_t page_bytes = home.device == nullptr ? home.arena->size_bytes() : 0;
  audit_.require(
      is(living.descriptor, broker_.quota(), home.payer, Resource::kDescriptors,
         takes_descriptor ? FileTable::kDescriptorsOfFile : 0) &&
          is(living.pages, broker_.quota(), home.payer, Resource::kPageBytes, page_bytes),
      "file {} is not charged what it costs uid {}", wire::to_int(id), home.payer);
}

void Auditor::check_pins() {
  absl::flat_hash_map<wire::FileId, std::uint32_t> pins;
  for (const auto& [session, known] : broker_.files_.pinned_) {
    count(known.charge);
    for (const wire::FileId id : known.numbers) ++pins[id];
    const Session* const of = broker_.sessions().find(session);
    audit_.require(of != nullptr && is(known.charge, broker_.quota(), of->peer.uid,
                                       Resource::kFileNumbers, known.numbers.size()),
                   "session {} is not charged the {} numbers of files that it knows",
                   wire::to_int(session), known.numbers.size());
  }
  for (const auto& [id, entry] : broker_.files_.entries_) {
    const auto found = pins.find(id);
    const std::uint32_t expected = found == pins.end() ? 0 : found->second;
    audit_.require(entry.pins == expected && (entry.file != nullptr || expected != 0),
                   "the number of file {} is said to be known to {} sessions, and {} know it",
                   wire::to_int(id), entry.pins, expected);
    pins.erase(id);
  }
  audit_.require(pins.empty(), "sessions know {} numbers that are not taken", pins.size());
}

void Auditor::check_accounts() {
  check_accounts(broker_.quota(), "");
  for (const auto& [name, device] : broker_.devices().all()) {
    check_accounts(device.quota, fmt::format(" on {}", name));
  }
}

void Auditor::check_accounts(const Quota& quota, const std::string& where) {
  for (const auto& [uid, account] : quota.accounts()) {
    ++audit_.accounts;
    for (std::size_t i = 0; i < kResources; ++i) {
      const auto what = static_cast<Resource>(i);
      // Of calls that go on without the core.
      if (what == Resource::kWaitingCalls || what == Resource::kRequests ||
          what == Resource::kRequestBytes) {
        continue;
      }
      const auto found = sums_.find({&account, what});
      const std::uint64_t sum = found == sums_.end() ? 0 : found->second;
      audit_.require(account.used(what) == sum,
                     "uid {} is charged {} {}{}, and what it has costs {}", uid, account.used(what),
                     facts_of(what).words, where, sum);
    }
  }
}

void audit_charges(const Broker& broker, Audit& audit) { Auditor(broker, audit).run(); }

Audit audit(const Broker& broker) {
  Audit audit;
  audit_arrays(broker, audit);
  audit_charges(broker, audit);
  return audit;
}

}  // namespace memlease::server
