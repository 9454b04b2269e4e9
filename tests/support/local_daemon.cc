#include "tests/support/local_daemon.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "client/api/connect_session.h"
#include "gtest/gtest.h"
#include "server/core/array_collector.h"
#include "server/core/name_pattern.h"
#include "tests/support/let_go.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

LocalDaemon* the_daemon = nullptr;  // set while there is no other thread

server::PeerIdentity this_process() { return {::getpid(), ::getuid(), ::getgid(), {}, "test"}; }

internal::OpenAnswer answer_of(const server::Broker::Opened& opened) {
  const server::Array& array = *opened.array;
  internal::OpenAnswer answer;
  answer.id = array.id;
  answer.spec = array.spec();
  if (!array.rare().home) answer.attributes = array.rare().attributes;
  answer.board_record = array.board_at;
  answer.slots.assign(array.slots.begin(), array.slots.begin() + array.kind->slots);
  answer.slot_bytes = array.slot_bytes;
  answer.may_write = opened.may_write;
  answer.created = opened.created;
  answer.home = array.rare().home;
  answer.replica_number = array.rare().replica_number;
  answer.owner_uid = array.domain.uid;
  answer.owner_gid = array.domain.gid;
  if (!array.rare().write_events.empty()) answer.events = array.rare().write_events.at();
  return answer;
}

}  // namespace

// One session's calls.
class LocalControl : public internal::ControlPort {
 public:
  LocalControl(LocalDaemon& daemon, wire::SessionId session) : daemon_(daemon), session_(session) {}

  absl::StatusOr<internal::OpenAnswer> create(const wire::ArraySpec& spec,
                                              const wire::Attributes& attributes, bool exist_ok,
                                              internal::OwnerUid owner,
                                              internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::OpenAnswer>>(
        "create",
        [&](server::Broker& /*broker*/,
            server::Session& session) -> absl::StatusOr<internal::OpenAnswer> {
          const auto opened = daemon_.create(session, spec, attributes, exist_ok, owner);
          if (!opened.ok()) return opened.status();
          return answer_of(*opened);
        });
  }
  absl::StatusOr<internal::OpenAnswer> open(const std::string& name, internal::OwnerUid owner,
                                            internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::OpenAnswer>>(
        "open",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::OpenAnswer> {
          const auto opened = broker.open(session, name, owner);
          if (!opened.ok()) return opened.status();
          return answer_of(*opened);
        });
  }
  absl::StatusOr<internal::OpenAnswer> open_replica(wire::ArrayId home, const std::string& device,
                                                    internal::InterruptCheck) override {
    return call<absl::StatusOr<internal::OpenAnswer>>(
        "open_replica",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::OpenAnswer> {
          const auto opened =
              daemon_.make([&] { return broker.open_replica(session, home, device); });
          if (!opened.ok()) return opened.status();
          return answer_of(*opened);
        });
  }
  absl::StatusOr<internal::OpenAnswer> open_replica(wire::ArrayId home, std::uint32_t number,
                                                    internal::InterruptCheck) override {
    return call<absl::StatusOr<internal::OpenAnswer>>(
        "open_replica",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::OpenAnswer> {
          const auto opened = broker.open_replica(session, home, number);
          if (!opened.ok()) return opened.status();
          return answer_of(*opened);
        });
  }
  absl::Status write_elsewhere(wire::ArrayId replica, internal::InterruptCheck) override {
    return call<absl::Status>("write_elsewhere",
                              [&](server::Broker& broker, server::Session& session) {
                                return broker.write_elsewhere(session, replica);
                              });
  }
  absl::StatusOr<internal::Subscribed> subscribe(wire::ArrayId array,
                                                 internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::Subscribed>>(
        "subscribe",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::Subscribed> {
          const auto subscribed = broker.subscribe(session, array);
          if (!subscribed.ok()) return subscribed.status();
          return internal::Subscribed{subscribed->row};
        });
  }
  absl::StatusOr<internal::WriterAnswer> acquire_writer(
      wire::ArrayId array, internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::WriterAnswer>>(
        "acquire_writer",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::WriterAnswer> {
          using To = internal::WriterAnswer::State;
          using From = server::WriterAnswer::State;
          const auto answer = broker.acquire_writer(session, array);
          if (!answer.ok()) return answer.status();
          const To state = answer->state == From::kGranted   ? To::kGranted
                           : answer->state == From::kOffered ? To::kOffered
                                                             : To::kBusy;
          return internal::WriterAnswer{state,         answer->row,
                                        answer->from,  answer->offer,
                                        answer->ahead, {answer->turn.at, answer->turn.count}};
        });
  }
  absl::Status confirm_writer(wire::ArrayId array, std::uint64_t offer,
                              internal::InterruptCheck /*interrupt*/) override {
    return call<absl::Status>("confirm_writer",
                              [&](server::Broker& broker, server::Session& session) {
                                return broker.confirm_writer(session, array, offer);
                              });
  }
  absl::Status cancel_writer(wire::ArrayId array) override {
    return call<absl::Status>("cancel_writer",
                              [&](server::Broker& broker, server::Session& session) {
                                return broker.cancel_writer(session, array);
                              });
  }
  // Memory for it is not made here.
  absl::Status add_slot(wire::ArrayId array, std::uint32_t slots,
                        std::chrono::milliseconds /*longest*/,
                        internal::InterruptCheck /*interrupt*/) override {
    return call<absl::Status>("add_slot", [&](server::Broker& broker, server::Session& session) {
      auto missing = broker.add_slot(session, array, slots);
      if (missing.ok() && *missing) {
        broker.add_memory(**missing, wire::make_error(wire::ErrorCode::kOutOfMemory, "no memory"))
            .IgnoreError();
        return wire::make_error(wire::ErrorCode::kOutOfMemory, "no memory");
      }
      return missing.status();
    });
  }
  absl::Status leave(std::span<const internal::Departure> departures, std::uint64_t answered_below,
                     internal::InterruptCheck /*interrupt*/) override {
    return call<absl::Status>("leave", [&](server::Broker& broker, server::Session& session) {
      session.done_departures.note_answered(answered_below);
      absl::Status first;
      for (const auto& [array, opens, number] : departures)
        first.Update(broker.leave_once(session, array, opens, number));
      return first;
    });
  }
  absl::Status withdraw(const std::string& name, internal::InterruptCheck /*interrupt*/) override {
    return call<absl::Status>("withdraw", [&](server::Broker& broker, server::Session& session) {
      return broker.withdraw(session.peer, name);
    });
  }
  absl::StatusOr<std::vector<std::string>> list(const std::string& pattern,
                                                internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<std::vector<std::string>>>(
        "list",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<std::vector<std::string>> {
          const auto wanted = server::NamePattern::parse(pattern);
          if (!wanted.ok()) return wanted.status();
          std::vector<std::string> names;
          server::ArrayCollector collector(session.peer);
          while (!collector.done()) {
            for (auto& found : collector.step(broker)) {
              if (wanted->matches(found.name)) names.push_back(std::move(found.name));
            }
          }
          return names;
        });
  }
  absl::StatusOr<internal::NameLook> look_up(const std::string& name, bool to_wait,
                                             internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::NameLook>>(
        "look_up",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::NameLook> {
          internal::NameLook look;
          look.exists = broker.exists(session.peer, name);
          if (look.exists || !to_wait) return look;
          const auto creations = broker.creations(name);
          if (!creations.ok()) return creations.status();
          look.creations = {creations->at, creations->count};
          return look;
        });
  }
  bool silent() const override { return false; }
  bool session_ended() const override { return false; }
  bool daemon_ends() const override { return false; }
  absl::StatusOr<std::vector<internal::Holder>> holders(
      wire::ArrayId /*array*/, internal::InterruptCheck /*interrupt*/) override {
    return std::vector<internal::Holder>{};
  }
  absl::StatusOr<internal::ImportedMemory> import_memory(
      wire::FileId file, internal::InterruptCheck /*interrupt*/) override {
    return call<absl::StatusOr<internal::ImportedMemory>>(
        "import_memory",
        [&](server::Broker& broker,
            server::Session& session) -> absl::StatusOr<internal::ImportedMemory> {
          const auto memory = broker.imports().open_memory(session, file);
          if (!memory.ok()) return memory.status();
          return internal::ImportedMemory{memory->handle, memory->size_bytes};
        });
  }
  absl::Status close_imports(const internal::ClosedImports& closed) override {
    return call<absl::Status>("close_imports",
                              [&](server::Broker& broker, server::Session& session) {
                                for (const auto file : closed.memory)
                                  broker.imports().close_memory(session, file);
                                return absl::OkStatus();
                              });
  }
  std::uint64_t calls() const override { return 0; }

 private:
  template <typename Answer, typename Fn>
  Answer call(const std::string& name, Fn fn) {
    daemon_.gates.pass("call " + name);
    const std::lock_guard lock(daemon_.mutex_);
    server::Session* const session = daemon_.broker_.sessions().find(session_);
    if (session == nullptr) return wire::make_error(wire::ErrorCode::kDenied, "it has ended");
    return fn(daemon_.broker_, *session);
  }

  LocalDaemon& daemon_;
  const wire::SessionId session_;
};

class LocalDaemon::Files : public internal::FileSource {
 public:
  // Called by session(), under the daemon's mutex.
  Files(LocalDaemon& daemon, wire::SessionId session) : daemon_(daemon), session_(session) {
    ++daemon_.files_;
  }
  ~Files() override {
    const std::lock_guard lock(daemon_.mutex_);
    leave();
    if (exit_awaited_) daemon_.broker_.exited(session_);
    --daemon_.files_;
    daemon_.files_changed_.notify_all();  // under the lock: the daemon may end after it
  }
  absl::StatusOr<std::vector<internal::SharedFile>> fetch_all(
      std::span<const internal::WantedFile> files,
      internal::InterruptCheck /*interrupt*/) override {
    daemon_.gates.pass("fetch");
    std::vector<internal::SharedFile> answers(files.size());
    const std::lock_guard lock(daemon_.mutex_);
    for (std::size_t i = 0; i < files.size(); ++i) {
      auto grant = daemon_.broker_.fetch_file(session_, files[i].file,
                                              files[i].access == internal::Access::kWrite);
      if (!grant.ok() && i == 0) return grant.status();
      if (!grant.ok()) continue;
      answers[i] = {wire::UniqueFd(::fcntl(grant->fd.get(), F_DUPFD_CLOEXEC, 0)), grant->kind,
                    grant->size_bytes, grant->writable};
    }
    return answers;
  }
  // By the call.
  absl::StatusOr<OpenedArray> open_array(wire::OpeningCall /*call*/, const std::string& /*request*/,
                                         internal::InterruptCheck /*interrupt*/) override {
    return OpenedArray{};
  }
  LateAnswers take_late_answers(std::chrono::milliseconds /*longest*/) override { return {}; }
  bool alive() override { return true; }
  bool watch_end() override { return false; }
  bool closed_by_program() override { return false; }
  void goodbye() override {
    const std::lock_guard lock(daemon_.mutex_);
    leave();
  }

 private:
  void leave() {
    if (std::exchange(said_goodbye_, true)) return;
    exit_awaited_ = daemon_.broker_.hang_up(session_, server::Farewell::kGoodbye);
  }

  LocalDaemon& daemon_;
  const wire::SessionId session_;
  bool said_goodbye_ = false;
  bool exit_awaited_ = false;
};

LocalDaemon::LocalDaemon()
    : importer("GPU-1", gates),
      broker_({memory_, memory_, clock_,
               [](auto bytes) { std::fill(bytes.begin(), bytes.end(), 1); }, let_go_once},
              {}) {
  assert(the_daemon == nullptr);
  the_daemon = this;
  broker_.add_device(gpu_, {});
  elsewhere_ = broker_.open_session(this_process())->session;
}

LocalDaemon::~LocalDaemon() {
  gates.open_all();
  // A thread of the library's may hold the last of a session and be about to end it.
  std::unique_lock lock(mutex_);
  files_changed_.wait_for(lock, std::chrono::seconds(20), [this] { return files_ == 0; });
  the_daemon = nullptr;
  EXPECT_EQ(broker_.sessions().size(), 1U) << "a session has not ended";
  broker_.hang_up(elsewhere_, server::Farewell::kNone);
  broker_.exited(elsewhere_);
  EXPECT_EQ(gpu_.segments, 0);
  EXPECT_EQ(importer.open_memory_count(), 0);
  EXPECT_EQ(importer.registered_count(), 0U);
}

LocalDaemon& LocalDaemon::instance() { return *the_daemon; }

std::shared_ptr<internal::ArrayTable> LocalDaemon::session() {
  std::shared_ptr<internal::ArrayTable> known;
  const std::lock_guard lock(mutex_);
  known = session_.lock();
  if (known != nullptr && known->session().add_connection()) return known;
  const wire::SessionId id = broker_.open_session(this_process())->session;
  auto made = std::make_shared<internal::ArrayTable>(
      std::make_unique<internal::Session>("local", id, std::make_unique<Files>(*this, id),
                                          std::make_unique<LocalControl>(*this, id)),
      importer);
  made->session().add_connection();
  session_ = made;
  return made;
}

void LocalDaemon::with_broker(const std::function<void(server::Broker&)>& fn) {
  const std::lock_guard lock(mutex_);
  fn(broker_);
}

absl::StatusOr<server::Broker::Opened> LocalDaemon::create(server::Session& session,
                                                           const wire::ArraySpec& spec,
                                                           const wire::Attributes& attributes,
                                                           bool exist_ok,
                                                           std::optional<uid_t> owner) {
  const auto shared = std::make_shared<const wire::Attributes>(attributes);
  return make([&] { return broker_.create(session, spec, exist_ok, shared, owner); });
}

absl::StatusOr<server::Broker::Opened> LocalDaemon::make(
    absl::FunctionRef<absl::StatusOr<server::Broker::Creation>()> create) {
  for (;;) {
    auto creation = create();
    if (!creation.ok()) return creation.status();
    if (auto* opened = std::get_if<server::Broker::Opened>(&*creation)) return *opened;
    auto& growth = std::get<server::SegmentPool::Growth>(*creation);
    server::DeviceBackend& device = growth.device == gpu_.device()
                                        ? static_cast<server::DeviceBackend&>(gpu_)
                                        : static_cast<server::DeviceBackend&>(memory_);
    if (auto status = broker_.add_memory(growth, server::SegmentPool::make(device, growth));
        !status.ok()) {
      return status;
    }
  }
}

void LocalDaemon::create_elsewhere(const std::string& name, const std::string& device,
                                   std::int64_t elements) {
  wire::ArraySpec spec;
  spec.name = name;
  spec.dtype = {wire::DTypeCode::kUInt, 64, 1};
  spec.shape = {elements};
  spec.device = device;
  const std::lock_guard lock(mutex_);
  const auto created = create(*broker_.sessions().find(elsewhere_), spec, {}, false, {});
  EXPECT_TRUE(created.ok()) << created.status();
}

std::size_t LocalDaemon::imported_memory() {
  std::size_t count = 0;
  with_broker([&](server::Broker& broker) {
    for (const server::Session* session : broker.sessions().all()) {
      count += session->imported_memory.size();
    }
  });
  return count;
}

int LocalDaemon::gpu_segments() {
  const std::lock_guard lock(mutex_);
  return gpu_.segments;
}

}  // namespace memlease::testing

absl::StatusOr<std::shared_ptr<memlease::internal::ArrayTable>> memlease::internal::connect_session(
    const ConnectOptions& /*options*/) {
  return testing::LocalDaemon::instance().session();
}

bool memlease::internal::any_lease() { return false; }

// The process is many clients' here, and its sessions end as their tests do.
void memlease::internal::keep_session(const std::shared_ptr<ArrayTable>& /*arrays*/) {}

memlease::internal::ImporterSource& memlease::internal::process_importers() {
  return testing::LocalDaemon::instance().importer;
}
