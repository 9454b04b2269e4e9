#include "tests/support/fakecuda/private_world.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "gtest/gtest.h"
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

PrivateWorld::PrivateWorld(const WorldOptions& options)
    : folder_(make_folder()), world_(World::create(folder_, options)) {
  fakecuda_detach();
  setenv("FAKECUDA_WORLD", folder_.c_str(), 1);
}

PrivateWorld::~PrivateWorld() {
  if (!judged_) {
    for (const Finding& finding : findings()) ADD_FAILURE() << describe(finding);
  }
  unsetenv("FAKECUDA_WORLD");
  world_.reset();
  std::filesystem::remove_all(folder_);
}

std::vector<Finding> PrivateWorld::findings() {
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
