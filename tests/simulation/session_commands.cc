// Processes that connect, are cut, say goodbye, run another program, exit, and are evicted; and
// control connections.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/simulation/command.h"
#include "tests/simulation/violation.h"
#include "wire/error.h"

namespace memlease::simulation {
namespace {

using wire::code_of;
using wire::ErrorCode;

constexpr std::size_t kMostProcesses = 6;
// The second one's group has the first one's arrays, too.
constexpr uid_t kUids[] = {1000, 1000, 1001, 1001, 1002, 0};

void connect(World& world, const Command& command) {
  if (world.processes.size() >= kMostProcesses) return;
  server::PeerIdentity peer;
  peer.uid = kUids[command.what % std::size(kUids)];
  peer.gid = peer.uid;
  peer.pid = command.how % 16 == 0 ? 0 : ++world.last_pid;
  if (peer.uid == 1001) peer.groups = {1000};
  server::PeerIdentity attested = peer;
  if (world.lie == Lie::kFalseGroup) attested.groups.push_back(1000);
  const auto opened = world.broker.open_session(attested);
  if (!opened.ok()) {
    ErrorCode reason = ErrorCode::kQuotaExceeded;
    if (!world.has_memory) reason = ErrorCode::kOutOfMemory;
    if (world.broker.draining()) reason = ErrorCode::kDaemonUnavailable;
    require(code_of(opened.status()) == reason,
            "a session is refused for a quota, for want of memory, or because the daemon ends");
    return;
  }
  require(wire::to_int(opened->session) > world.books.last_session, "a session's id is used once");
  world.books.last_session = wire::to_int(opened->session);
  ++world.books.sessions_opened;
  world.processes.push_back(
      std::make_unique<Process>(world.broker, world.memory, std::move(peer), opened->session));
}

void say_goodbye(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  process->connected = false;
  const bool exit_awaited = world.broker.hang_up(process->session, server::Farewell::kGoodbye);
  require(exit_awaited || !process->uses_something(),
          "who holds or writes something keeps it until it exits");
  if (!exit_awaited) world.forget(*process);
}

void cut(World& world, const Command& command) {
  if (Process* const process = world.connected(command.who)) world.cut(*process);
}

void exit(World& world, const Command& command) {
  if (Process* const process = world.living(command.who)) world.exit(*process);
}

// What it had mapped has gone before the daemon hears of it.
void run_another_program(World& world, const Command& command) {
  Process* const process = world.living(command.who);
  if (process == nullptr) return;
  world.cut(*process);
  process->arrays.clear();
  if (world.broker.program_replaced(process->session)) world.forget(*process);
}

void evict(World& world, const Command& command) {
  const Process* const caller = world.connected(command.how);
  Process* const target = world.living(command.who);
  if (target == nullptr) return;
  const bool by_root = command.what % 2 == 0 || caller == nullptr;
  const server::PeerIdentity viewer = by_root ? root() : caller->peer;
  const auto& memberships = world.session_of(*target).memberships;
  const bool owns_all = std::ranges::all_of(memberships, [&](const auto& one) {
    const server::Array* const array = world.array(one.first);
    return (array == nullptr ? one.second.row_class->domain : array->domain).uid == viewer.uid;
  });
  const bool may =
      viewer.uid == 0 || viewer.uid == target->peer.uid || (owns_all && !memberships.empty());
  const bool is_evicted = world.session_of(*target).evicted;
  const auto status = world.broker.evict(viewer, target->session);
  require(status.ok() == may, "a session is evicted by root, its own user, or the owner of all");
  if (!status.ok()) return;
  if (!is_evicted) ++world.books.sessions_evicted;
  world.cut(*target);
}

// A token that was guessed, or stolen by another user, is nobody's.
void authenticate(World& world, const Command& command) {
  Process* const process = world.living(command.who);
  if (process == nullptr) return;
  const std::uint32_t id = wire::to_int(process->session);
  server::SessionToken token = world.session_of(*process).token;
  const auto change = static_cast<std::uint8_t>(command.what % 3 == 0 ? 1 + command.how % 255 : 0);
  token[command.how % token.size()] ^= change;
  const uid_t uid = command.what % 3 == 1 ? process->peer.uid + 1 : process->peer.uid;
  std::vector<std::uint8_t> credential(sizeof(id) + token.size());
  std::memcpy(credential.data(), &id, sizeof(id));
  std::memcpy(credential.data() + sizeof(id), token.data(), token.size());
  const bool may = process->connected && change == 0 && uid == process->peer.uid;
  require(world.broker.authenticate(credential, uid).ok() == may,
          "a call is taken by the token of a connected session on a connection of its user");
}

void open_control_connection(World& world, const Command& command) {
  const uid_t uid = 1000 + command.what % 3;
  if (world.broker.connected(uid).ok()) ++world.books.connections[uid];
}

void close_control_connection(World& world, const Command& command) {
  const uid_t uid = 1000 + command.what % 3;
  std::size_t& connections = world.books.connections[uid];
  if (connections == 0) return;
  --connections;
  world.broker.disconnected(uid);
}

}  // namespace

std::span<const Kind> session_kinds() {
  static constexpr Kind kKinds[] = {
      {"connect", 24, connect},
      {"say goodbye", 3, say_goodbye},
      {"the connection is cut", 3, cut},
      {"exit", 8, exit},
      {"run another program", 2, run_another_program},
      {"evict", 2, evict},
      {"try a token", 2, authenticate},
      {"open a control connection", 3, open_control_connection},
      {"close a control connection", 2, close_control_connection},
  };
  return kKinds;
}

}  // namespace memlease::simulation
