#include "tests/integration/memory_operations.h"

#include <sys/mman.h>

#include <array>
#include <utility>

#include "client/session/interrupt.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/raw_control.h"
#include "wire/error.h"

namespace memlease::testing {

using internal::kNoInterrupts;

// ---- A session.

absl::StatusOr<std::unique_ptr<BareSession>> BareSession::attach(const std::string& directory) {
  auto attached = internal::AttachClient::connect(directory);
  if (!attached.ok()) return attached.status();
  std::unique_ptr<BareSession> session(new BareSession(*std::move(attached)));
  auto socket = internal::ControlSocket::find(directory);
  if (!socket.ok()) return socket.status();
  session->control_ = std::make_unique<internal::ControlStub>(*std::move(socket),
                                                              credential_of(*session->attached_));
  return session;
}

BareSession::~BareSession() {
  for (const Page& page : held_) {
    page.row->holds()[page.slot].store(0);
    ::munmap(page.data, page.bytes);
  }
  attached_->goodbye();
}

absl::StatusOr<OpenAnswer> BareSession::create(const wire::ArraySpec& spec,
                                               const wire::Attributes& attributes, bool exist_ok,
                                               internal::OwnerUid owner) {
  return control_->create(spec, attributes, exist_ok, owner, kNoInterrupts);
}

absl::StatusOr<OpenAnswer> BareSession::open(const std::string& name, internal::OwnerUid owner) {
  return control_->open(name, owner, kNoInterrupts);
}

absl::Status BareSession::become_writer(wire::ArrayId array) {
  const auto answer = control_->acquire_writer(array, kNoInterrupts);
  if (!answer.ok()) return answer.status();
  if (answer->state != internal::WriterAnswer::State::kOffered) return absl::OkStatus();
  return control_->confirm_writer(array, answer->offer, kNoInterrupts);
}

absl::Status BareSession::hold(wire::RowRef row, std::uint32_t slots, std::uint32_t slot) {
  const auto page = attached_->fetch({row.file});
  if (!page.ok()) return page.status();
  const std::size_t bytes = page->size_bytes;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd.get(), 0);
  if (data == MAP_FAILED) std::abort();
  auto* const reader = reinterpret_cast<wire::ReaderRow*>(static_cast<std::byte*>(data) +
                                                          row.unit * wire::kRowUnitBytes);
  EXPECT_LT(slot, slots);
  reader->holds()[slot].store(1);
  held_.push_back({data, bytes, reader, slot});
  return absl::OkStatus();
}

absl::Status BareSession::leave(wire::ArrayId array) {
  const std::array all{internal::Departure{array, 1, 0}};
  return control_->leave(all, 0, kNoInterrupts);
}

absl::Status BareSession::fetch(const OpenAnswer& opened) {
  const internal::WantedFile files[] = {{opened.board_record.file}, {opened.slots.front().file}};
  return attached_->fetch_all(files, kNoInterrupts).status();
}

// ---- The scene.

wire::ArraySpec spec_of_memory(const std::string& name, std::uint32_t slots) {
  wire::ArraySpec spec;
  spec.name = name;
  spec.shape = {16};
  spec.slots = slots;
  return spec;
}

wire::Attributes some_attributes() {
  return {{"unit", std::string("m/s")},
          {"dims", std::vector<std::string>{"x", "y"}},
          {"step", std::int64_t{7}}};
}

Scene::~Scene() {
  peer.reset();
  third.reset();
  second_.reset();
  first_.reset();
  internal::AdminStub& admin = daemon.admin();
  if (const auto left = admin.list_arrays(""); left.ok()) {
    for (const auto& array : left->arrays()) {
      if (!array.withdrawn()) admin.withdraw(array.spec().name()).IgnoreError();
    }
  }
}

BareSession& Scene::connected(std::unique_ptr<BareSession>& session) const {
  if (session == nullptr) {
    auto attached = BareSession::attach(daemon.directory());
    if (!attached.ok()) std::abort();
    session = *std::move(attached);
  }
  return *session;
}

void Scene::connect() {
  for (BareSession* session : {&first(), &second()}) {
    EXPECT_TRUE(session->calls().look_up("none", false, kNoInterrupts).ok());
  }
}

wire::ArrayId Scene::create(const std::string& name, std::uint32_t slots) {
  return create(spec_of_memory(name, slots));
}

wire::ArrayId Scene::create(const wire::ArraySpec& spec, const wire::Attributes& attributes) {
  auto made = first().create(spec, attributes);
  EXPECT_TRUE(made.ok()) << made.status();
  opened.push_back(*std::move(made));
  return opened.back().id;
}

void Scene::create_many(int count) {
  for (int i = 0; i < count; ++i) create(fmt::format("many/{}", i));
}

wire::ArrayId Scene::open(const std::string& name) {
  auto found = second().open(name);
  EXPECT_TRUE(found.ok()) << found.status();
  opened.push_back(*std::move(found));
  return opened.back().id;
}

// ---- Operations.

Operations operations_of(const std::string& group) {
  if (group == "connect") return connections();
  if (group == "create") return creations();
  if (group == "open") return openings();
  if (group == "arrays") return calls_about_arrays();
  if (group == "names") return calls_about_names();
  if (group == "errors") return calls_in_vain();
  if (group == "ctl") return calls_of_ctl();
  return ends_of_sessions();
}

Operations connections() {
  Operations all;
  for (const int others : {0, 1, 2}) {
    for (const int arrays : {0, 3}) {
      const auto prepare = [=](Scene& scene) {
        if (others > 0) scene.create_many(arrays);
        if (others > 1) scene.second().calls().look_up("none", false, kNoInterrupts).IgnoreError();
      };
      const std::string beside = fmt::format(" beside {} sessions, {} arrays", others, arrays);
      all.push_back({"attach" + beside, prepare, [](Scene& scene) {
                       auto attached = BareSession::attach(scene.daemon.directory());
                       if (attached.ok()) scene.third = *std::move(attached);
                       return attached.status();
                     }});
      all.push_back({"attach and call" + beside, prepare, [](Scene& scene) {
                       auto attached = BareSession::attach(scene.daemon.directory());
                       if (!attached.ok()) return attached.status();
                       scene.third = *std::move(attached);
                       return scene.third->calls().look_up("none", false, kNoInterrupts).status();
                     }});
      all.push_back({"attach and leave" + beside, prepare, [](Scene& scene) {
                       return BareSession::attach(scene.daemon.directory()).status();
                     }});
    }
  }
  return all;
}

namespace {

absl::Status create_in(Scene& scene, const wire::ArraySpec& spec,
                       const wire::Attributes& attributes = {}, bool exist_ok = false) {
  auto made = scene.first().create(spec, attributes, exist_ok);
  if (made.ok()) scene.opened.push_back(*made);
  return made.status();
}

}  // namespace

Operations creations() {
  Operations all;
  for (const bool persistent : {false, true}) {
    for (const std::uint32_t mode : {0600U, 0644U, 0666U}) {
      for (const std::uint32_t slots : {1U, 3U, 8U}) {
        for (const bool attributes : {false, true}) {
          wire::ArraySpec spec = spec_of_memory("a", slots);
          spec.mode = mode;
          if (persistent) spec.lifetime = wire::Lifetime::kPersistent;
          all.push_back({fmt::format("create {}, mode {:o}, {} slots{}",
                                     persistent ? "persistent" : "session", mode, slots,
                                     attributes ? ", attributes" : ""),
                         connects, [=](Scene& scene) {
                           return create_in(scene, spec,
                                            attributes ? some_attributes() : wire::Attributes());
                         }});
        }
      }
    }
  }
  const auto add = [&](const std::string& name, const std::function<void(Scene&)>& prepare,
                       const std::function<void(wire::ArraySpec&)>& change, bool exist_ok = false) {
    wire::ArraySpec spec = spec_of_memory("a");
    change(spec);
    all.push_back(
        {name, prepare, [=](Scene& scene) { return create_in(scene, spec, {}, exist_ok); }});
  };
  const auto as_it_is = [](wire::ArraySpec&) {};
  add("create as the first call", [](Scene& scene) { scene.first(); }, as_it_is);
  add("create exclusive", connects,
      [](wire::ArraySpec& s) { s.writer = wire::Writer::kExclusive; });
  add("create that grows", connects, [](wire::ArraySpec& s) { s.max_slots = 6; });
  add("create without elements", connects, [](wire::ArraySpec& s) { s.shape = {0}; });
  add("create of one element", connects, [](wire::ArraySpec& s) { s.shape = {}; });
  add("create 4 MiB", connects, [](wire::ArraySpec& s) { s.shape = {1 << 20}; });
  add("create of seven axes", connects,
      [](wire::ArraySpec& s) { s.shape = {2, 1, 2, 1, 2, 1, 2}; });
  add("create with a long name", connects, [](wire::ArraySpec& s) {
    s.name = "a_name_that_is_long/and_has_a_folder/and_another/to_be_longer_still";
  });
  add("create beside many", [](Scene& scene) { scene.create_many(20); }, as_it_is);
  add("create in a segment that is there", [](Scene& scene) { scene.create("b"); }, as_it_is);
  add("create an equal one", [](Scene& scene) { scene.create("a"); }, as_it_is, true);
  add(
      "create another's equal one",
      [](Scene& scene) {
        EXPECT_TRUE(scene.second().create(spec_of_memory("a")).ok());
        scene.connect();
      },
      as_it_is, true);
  return all;
}

Operations openings() {
  Operations all;
  const auto open_in = [](const std::string& name) {
    return [name](Scene& scene) {
      auto found = scene.second().open(name);
      if (found.ok()) scene.opened.push_back(*found);
      return found.status();
    };
  };
  for (const std::uint32_t slots : {1U, 2U, 3U, 8U}) {
    for (const bool attributes : {false, true}) {
      for (const bool first_call : {false, true}) {
        all.push_back({fmt::format("open {} slots{}{}", slots, attributes ? ", attributes" : "",
                                   first_call ? ", as the first call" : ""),
                       [=](Scene& scene) {
                         scene.create(spec_of_memory("a", slots),
                                      attributes ? some_attributes() : wire::Attributes());
                         if (!first_call) scene.connect();
                         scene.second();
                       },
                       open_in("a")});
      }
    }
  }
  for (const int arrays : {2, 6, 20}) {
    all.push_back({fmt::format("open the last one of {}", arrays),
                   [=](Scene& scene) {
                     scene.create_many(arrays);
                     for (int i = 0; i + 1 < arrays; ++i) scene.open(fmt::format("many/{}", i));
                   },
                   open_in(fmt::format("many/{}", arrays - 1))});
  }
  for (const std::uint32_t mode : {0600U, 0644U, 0666U}) {
    for (const bool again : {false, true}) {
      all.push_back({fmt::format("open{}, mode {:o}", again ? " again" : "", mode),
                     [=](Scene& scene) {
                       wire::ArraySpec spec = spec_of_memory("a");
                       spec.mode = mode;
                       scene.create(spec);
                       scene.connect();
                       if (again) scene.open("a");
                     },
                     open_in("a")});
    }
    all.push_back({fmt::format("fetch files, mode {:o}", mode),
                   [=](Scene& scene) {
                     wire::ArraySpec spec = spec_of_memory("a");
                     spec.mode = mode;
                     scene.create(spec);
                     scene.open("a");
                   },
                   [](Scene& scene) { return scene.second().fetch(scene.opened.back()); }});
  }
  return all;
}

}  // namespace memlease::testing
