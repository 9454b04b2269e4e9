// Keeps a DLPack tensor in a static variable, as some libraries do, and deletes it when the process
// ends: behind all that was loaded after this library, and long after the Python interpreter.
#include <cstdio>

namespace {

struct Kept {
  ~Kept() {
    if (deleter == nullptr) return;
    deleter(tensor);
    std::puts("deleted");
  }
  void* tensor = nullptr;
  void (*deleter)(void*) = nullptr;
} kept;

}  // namespace

extern "C" __attribute__((visibility("default"))) void keep_to_the_end(void* tensor,
                                                                       void (*deleter)(void*)) {
  kept.tensor = tensor;
  kept.deleter = deleter;
}
