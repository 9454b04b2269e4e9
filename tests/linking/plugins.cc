// Opens the plug-ins that its arguments name, each for itself, calls all of them twice, and prints
// "done". A library without use_memlease() is only opened.
#include <dlfcn.h>

#include <cstdio>
#include <vector>

int main(int, char** arguments) {
  using Use = int (*)();
  std::vector<Use> uses;
  for (char** path = arguments + 1; *path != nullptr; ++path) {
    void* const plugin = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    if (void* const use = dlsym(plugin, "use_memlease")) {
      uses.push_back(reinterpret_cast<Use>(use));
    }
  }
  for (int round = 0; round < 2; ++round) {
    for (const Use use : uses) {
      if (use() != 0) {
        return 1;
      }
    }
  }
  std::puts("done");
}
