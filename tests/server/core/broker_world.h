// A broker on fake memory, and what a test needs to play its clients: sessions, and their own rows
// mapped from the descriptors that the broker hands out, as a client would map them.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/array_collector.h"
#include "server/core/broker.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_memory.h"
#include "tests/support/let_go.h"
#include "wire/session_pages.h"

namespace memlease::testing {

inline server::PeerIdentity peer_of(uid_t uid, std::vector<gid_t> groups = {}) {
  return {static_cast<pid_t>(4000 + uid), uid, uid, std::move(groups), "client"};
}

inline wire::ArraySpec spec_of(std::string name, std::uint32_t mode = 0600,
                               std::uint32_t slots = 3) {
  wire::ArraySpec spec;
  spec.name = std::move(name);
  spec.shape = {4, 8};
  spec.mode = mode;
  spec.slots = slots;
  return spec;
}

inline std::vector<std::uint8_t> credential_of(const server::Session& session) {
  const std::uint32_t id = wire::to_int(session.id);
  std::vector<std::uint8_t> bytes(sizeof(id) + session.token.size());
  std::memcpy(bytes.data(), &id, sizeof(id));
  std::memcpy(bytes.data() + sizeof(id), session.token.data(), session.token.size());
  return bytes;
}

// No limits, and ends of sessions in slices of so many arrays.
inline server::Broker::Limits limits_of_slices(std::size_t arrays) {
  server::Broker::Limits limits;
  limits.arrays_per_slice = arrays;
  return limits;
}

class BrokerWorld {
 public:
  explicit BrokerWorld(const server::Broker::Limits& limits = {})
      : broker({memory, memory, clock, [this](auto bytes) { fill(bytes); },
                [this](uid_t, auto unused) { dispose(std::move(unused)); },
                [this] { return has_memory; }},
               limits) {}
  ~BrokerWorld() { unmap_pages(); }
  BrokerWorld(const BrokerWorld&) = delete;
  BrokerWorld& operator=(const BrokerWorld&) = delete;

  server::Session& connect(const server::PeerIdentity& peer) {
    const auto opened = broker.open_session(peer);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *broker.sessions().find(opened->session);
  }
  server::Session& connect(uid_t uid) { return connect(peer_of(uid)); }

  // As the daemon does it: memory is made between the calls of the broker.
  absl::StatusOr<server::Broker::Opened> try_create(server::Session& session,
                                                    const wire::ArraySpec& spec,
                                                    bool exist_ok = false,
                                                    const server::SharedAttributes& attributes = {},
                                                    std::optional<uid_t> owner = {}) {
    for (;;) {
      auto creation = broker.create(session, spec, exist_ok, attributes, owner);
      if (!creation.ok()) return creation.status();
      if (auto* opened = std::get_if<server::Broker::Opened>(&*creation)) return *opened;
      auto& growth = std::get<server::SegmentPool::Growth>(*creation);
      auto added = broker.add_memory(growth, server::SegmentPool::make(memory, growth));
      if (!added.ok()) return added;
    }
  }
  wire::ArrayId create(server::Session& session, const wire::ArraySpec& spec) {
    const auto opened = try_create(session, spec);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->array->id;
  }
  wire::ArrayId open(server::Session& session, const std::string& name) {
    const auto opened = broker.open(session, name);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->array->id;
  }
  // Asks for ownership and confirms the offer. The row is adopted only in that it stays zero.
  wire::WriterRow& become_writer(server::Session& session, wire::ArrayId id) {
    const auto answer = broker.acquire_writer(session, id);
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->state, server::WriterAnswer::State::kOffered);
    const auto confirmed = broker.confirm_writer(session, id, answer->offer);
    EXPECT_TRUE(confirmed.ok()) << confirmed;
    return writer_row(session, answer->row);
  }
  // What the session sleeps on while it waits behind others to write.
  std::uint32_t turn_count(wire::ArrayId id, const server::Session& session) {
    const auto count = broker.creations(std::to_string(wire::to_int(id)) + " " +
                                        std::to_string(wire::to_int(session.id)));
    EXPECT_TRUE(count.ok()) << count.status();
    return count.ok() ? count->count : 0;
  }
  wire::ReaderRow& subscribe(server::Session& session, wire::ArrayId id) {
    const auto subscribed = broker.subscribe(session, id);
    EXPECT_TRUE(subscribed.ok()) << subscribed.status();
    return reader_row(session, subscribed->row);
  }

  // The session's own row, writable as its process sees it.
  wire::WriterRow& writer_row(const server::Session& session, wire::RowRef at) {
    return *reinterpret_cast<wire::WriterRow*>(map(session, at));
  }
  wire::ReaderRow& reader_row(const server::Session& session, wire::RowRef at) {
    return *reinterpret_cast<wire::ReaderRow*>(map(session, at));
  }

  // Events as whoever may record them sees them.
  wire::EventWords* events(const server::Session& session, const server::EventSet& events) {
    return reinterpret_cast<wire::EventWords*>(map(session, server::row_ref(events.at())));
  }

  // Those that the viewer may read, as lists give them.
  std::vector<std::string> names(const server::PeerIdentity& viewer,
                                 bool with_replicas = false) const {
    std::vector<std::string> all;
    using Kinds = server::ArrayCollector::Kinds;
    server::ArrayCollector collector(viewer, with_replicas ? Kinds::kNamed : Kinds::kHomes);
    while (!collector.done()) {
      for (auto& found : collector.step(broker)) all.push_back(std::move(found.name));
    }
    return all;
  }

  // What has happened of one kind, oldest first.
  std::vector<server::HistoryEvent> happened(server::Happening what) const {
    std::vector<server::HistoryEvent> events;
    for (const auto* event : broker.history().after(0, server::History::kMostEvents).events) {
      if (event->what == what) events.push_back(*event);
    }
    return events;
  }

  // As processes do when they exit or say goodbye: nobody can write their pages any more.
  void unmap_pages() {
    for (const auto& [file, mapping] : mapped_) ::munmap(mapping.data, mapping.size_bytes);
    mapped_.clear();
  }

  FakeMemory memory;
  FakeClock clock;
  bool has_memory = true;  // for the core itself
  // What the broker disposes of goes at once, or is kept for the test to look at.
  bool keeps_garbage = false;
  std::vector<std::shared_ptr<server::Garbage>> garbage;
  // Tries what could not go at once.
  void try_garbage() { let_go(garbage); }
  server::Broker broker;

 private:
  struct Mapped {
    void* data;
    std::size_t size_bytes;
  };

  std::byte* map(const server::Session& session, wire::RowRef at) {
    auto found = mapped_.find(wire::to_int(at.file));
    if (found == mapped_.end()) {
      const auto grant = broker.fetch_file(session.id, at.file);
      EXPECT_TRUE(grant.ok()) << grant.status();
      EXPECT_TRUE(grant->writable);
      void* data = ::mmap(nullptr, grant->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          grant->fd.get(), 0);
      EXPECT_NE(data, MAP_FAILED);
      found = mapped_.emplace(wire::to_int(at.file), Mapped{data, grant->size_bytes}).first;
    }
    return static_cast<std::byte*>(found->second.data) + at.unit * wire::kRowUnitBytes;
  }
  void dispose(std::shared_ptr<server::Garbage> unused) {
    garbage.push_back(std::move(unused));
    if (!keeps_garbage) try_garbage();
  }
  void fill(std::span<std::uint8_t> bytes) {
    for (std::uint8_t& byte : bytes) byte = ++last_random_;
  }

  std::uint8_t last_random_ = 0;
  std::map<std::uint32_t, Mapped> mapped_;
};

}  // namespace memlease::testing
