#include "tests/support/fakecuda/private_world.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tests/support/fakecuda/fakecuda.h"

namespace fakecuda {
namespace {

std::string make_folder() {
  char path[] = "/dev/shm/memlease-fakecuda-XXXXXX";
  if (mkdtemp(path) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "making a folder for a world");
  }
  return path;
}

}  // namespace

bool is_loaded() {
  static const bool loaded = dlsym(RTLD_DEFAULT, "fakecuda_abi") != nullptr &&
                             std::getenv("MEMLEASE_TEST_CUDA") == nullptr;
  return loaded;
}

PrivateWorld::PrivateWorld(const WorldOptions& options)
    : folder_(is_loaded() ? make_folder() : "") {
  if (!is_loaded()) return;
  world_ = World::create(folder_, options);
  fakecuda_detach();
  setenv("FAKECUDA_WORLD", folder_.c_str(), 1);
}

PrivateWorld::~PrivateWorld() {
  if (!is_loaded()) return;
  if (!judged_) {
    for (const Finding& finding : findings()) ADD_FAILURE() << describe(finding);
  }
  unsetenv("FAKECUDA_WORLD");
  world_.reset();
  std::filesystem::remove_all(folder_);
}

std::vector<Finding> PrivateWorld::findings() {
  if (!is_loaded()) return {};
  fakecuda_detach();
  judged_ = true;
  return check(*world_);
}

std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += describe(finding) + "\n";
  return text;
}

}  // namespace fakecuda
