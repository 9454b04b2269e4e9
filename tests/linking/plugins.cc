// Opens the plug-ins that its arguments name, each for itself, calls all of them twice in a thread,
// closes them before that thread ends, and prints "done". A library without use_memlease() is only
// opened.
#include <dlfcn.h>

#include <cstdio>
#include <future>
#include <thread>
#include <vector>

namespace {

using Use = int (*)();

bool all_work(const std::vector<Use>& uses) {
  for (int round = 0; round < 2; ++round) {
    for (const Use use : uses) {
      if (use() != 0) return false;
    }
  }
  return true;
}

}  // namespace

int main(int, char** arguments) {
  std::vector<void*> plugins;
  std::vector<Use> uses;
  for (char** path = arguments + 1; *path != nullptr; ++path) {
    void* const plugin = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    plugins.push_back(plugin);
    if (void* const use = dlsym(plugin, "use_memlease")) {
      uses.push_back(reinterpret_cast<Use>(use));
    }
  }
  std::promise<bool> works;
  std::promise<void> closed;
  std::thread user([&] {
    works.set_value(all_work(uses));
    closed.get_future().wait();
  });
  const bool worked = works.get_future().get();
  for (void* const plugin : plugins) {
    dlclose(plugin);
  }
  closed.set_value();
  user.join();
  if (!worked) return 1;
  std::puts("done");
}
