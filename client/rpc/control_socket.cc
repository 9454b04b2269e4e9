#include "client/rpc/control_socket.h"

#include <atomic>
#include <utility>

#include "wire/place.h"

namespace memlease::internal {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

ControlSocket::ControlSocket() : number_(last_number.fetch_add(1) + 1) {}

absl::StatusOr<std::unique_ptr<const ControlSocket>> ControlSocket::find(
    const std::string& directory) {
  std::unique_ptr<ControlSocket> made(new ControlSocket);
  const NoFork whole;  // from the descriptor's birth until the observer knows it
  auto file = find_socket(directory, wire::kControlSocket);
  if (!file.ok()) return file.status();
  made->file_ = *std::move(file);
  return made;
}

}  // namespace memlease::internal
