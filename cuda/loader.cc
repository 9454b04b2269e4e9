#include "cuda/loader.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "cuda/run_path.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"
#include "wire/mutex.h"

namespace memlease::cuda {
namespace {

using wire::ErrorCode;

constexpr const char* kLibrary = "libmemlease_cuda.so";
constexpr const char* kPathVariable = "MEMLEASE_CUDA_PLUGIN";

// Of the program, which the loader knows by the name that it was called by, or of a library that
// was named from a folder which may have been left since, the kernel knows the file. It takes a
// millisecond to tell of all that a process with a GPU has mapped: the loader is asked first.
std::filesystem::path mapped_file(std::uintptr_t wanted) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const std::size_t path = line.find('/');
    if (begin <= wanted && wanted < end && path != std::string::npos) return line.substr(path);
  }
  return {};
}

// The file that this is linked into.
std::filesystem::path own_file() {
  Dl_info info{};
  link_map* library = nullptr;
  void* const here = reinterpret_cast<void*>(&own_file);
  if (dladdr1(here, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0) {
    std::error_code failed;
    const std::filesystem::path name = library->l_name;
    const auto file = name.is_absolute() ? std::filesystem::canonical(name, failed) : "";
    if (!failed && !file.empty()) return file;
  }
  return mapped_file(reinterpret_cast<std::uintptr_t>(here));
}

// Beside the library or program that this is linked into; an installation has the daemon in bin/
// and libraries in lib/, the Python package has its libraries above bin/.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* named = std::getenv(kPathVariable); named != nullptr && *named != '\0') {
    return {named};
  }
  const auto folder = own_file().parent_path();
  if (folder.empty()) return paths;
  for (const char* beside : {"", "..", "../lib", "../lib64", "../lib/x86_64-linux-gnu"}) {
    paths.push_back((folder / beside / kLibrary).lexically_normal().string());
  }
  return paths;
}

// The library that was not found, if that is what the dynamic loader says of a file that needs it.
std::string missing_library(const std::string& reason) {
  const std::size_t end = reason.find(": cannot open shared object file: No such file");
  const std::string name = reason.substr(0, end);
  return end == std::string::npos || name.find('/') != std::string::npos ? "" : name;
}

absl::Status no_runtime(const std::string& library, const std::string& plugin) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  // pip keeps out of a distribution's folders.
  const std::string_view install = plugin.starts_with("/usr/lib")
                                       ? "NVIDIA's package cuda-cudart-13-0"
                                       : "pip install 'nvidia-cuda-runtime>=13,<14', or NVIDIA's "
                                         "package cuda-cudart-13-0";
  return wire::make_error(
      ErrorCode::kUnsupported,
      fmt::format("GPU arrays need CUDA 13's runtime, and {} was not found: not in LD_LIBRARY_PATH "
                  "({}), not in the RUNPATH of {} ({}), not in the system's folders",
                  library, path == nullptr || *path == '\0' ? "not set" : path, plugin,
                  fmt::join(run_path(plugin), ", ")),
      fmt::format("Install it: {}. Or name the folder that has it in LD_LIBRARY_PATH before the "
                  "program starts.",
                  install));
}

absl::StatusOr<const memlease_cuda_table*> load() {
  std::vector<std::string> reasons;
  for (const std::string& path : candidates()) {
    if (!std::filesystem::exists(path)) {
      reasons.push_back(path + ": no such file");
      continue;
    }
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reasons.emplace_back(dlerror());
      const std::string missing = missing_library(reasons.back());
      if (!missing.empty()) return no_runtime(missing, path);
      continue;
    }
    const auto entry =
        reinterpret_cast<memlease_cuda_plugin_function>(dlsym(library, "memlease_cuda_plugin"));
    const memlease_cuda_table* table = entry == nullptr ? nullptr : entry(MEMLEASE_CUDA_ABI);
    if (table != nullptr && table->size_bytes >= sizeof *table) return table;
    reasons.push_back(path + ": of another version of memlease");
    dlclose(library);
  }
  return wire::make_error(
      ErrorCode::kUnsupported,
      fmt::format("GPU arrays need {}, which cannot be loaded: {}", kLibrary,
                  fmt::join(reasons, "; ")),
      fmt::format("Install it beside memlease's library together with CUDA 13's runtime "
                  "(libcudart.so.13), or name it with {}.",
                  kPathVariable));
}

// 12080 is 12.8.
std::string version_text(std::int32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string uuid_text(const std::uint8_t (&bytes)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    text += fmt::format("{:02x}", bytes[i]);
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace

absl::StatusOr<const memlease_cuda_table*> load_plugin() {
  static wire::Mutex mutex;
  static std::optional<const memlease_cuda_table*> loaded;
  const wire::MutexLock lock(mutex);
  if (loaded) return *loaded;
  auto table = load();
  if (table.ok()) loaded = *table;
  return table;
}

absl::StatusOr<std::vector<Gpu>> visible_gpus(const memlease_cuda_table& cuda) {
  constexpr const char* kListing = "listing the GPUs";
  std::int32_t count = 0;
  std::int32_t error = cuda.device_count(&count);
  // First: there may be no version in a forked child.
  if (error == MEMLEASE_CUDA_INITIALIZATION_ERROR) return cuda_error(cuda, error, kListing);
  std::int32_t version = 0;
  if (cuda.driver_version(&version) != MEMLEASE_CUDA_OK || version == 0) {
    return wire::make_error(ErrorCode::kUnsupported, "no NVIDIA driver was found",
                            "Install one, or use device 'host'. In a container: give it the GPUs "
                            "(--gpus all, or --device nvidia.com/gpu=all).");
  }
  if (error == MEMLEASE_CUDA_INSUFFICIENT_DRIVER) {
    return wire::make_error(
        ErrorCode::kUnsupported,
        fmt::format("the NVIDIA driver is too old: it serves CUDA {}, and GPU arrays need {}",
                    version_text(version), version_text(MEMLEASE_CUDA_OLDEST_DRIVER)),
        "Install driver 580 or a newer one (nvidia-smi shows which there is). A container uses the "
        "driver of its host.");
  }
  if (error == MEMLEASE_CUDA_NO_DEVICE) count = error = 0;
  std::vector<Gpu> gpus;
  for (std::int32_t ordinal = 0; error == MEMLEASE_CUDA_OK && ordinal < count; ++ordinal) {
    memlease_cuda_device device{};
    error = cuda.describe_device(ordinal, &device);
    gpus.push_back(
        {uuid_text(device.uuid), device.name, device.total_bytes, ordinal, device.ipc != 0});
  }
  if (error != MEMLEASE_CUDA_OK) {
    return cuda_error(cuda, error, kListing, "Does nvidia-smi work?");
  }
  return gpus;
}

absl::Status cuda_error(const memlease_cuda_table& cuda, std::int32_t error,
                        const std::string& what, const std::string& hint) {
  char text[256];
  cuda.describe_error(error, text, sizeof text);
  if (error == MEMLEASE_CUDA_INITIALIZATION_ERROR) {
    return wire::make_error(
        ErrorCode::kForkedClient,
        fmt::format("{}: {}; CUDA cannot be used in a child that was forked from a process that "
                    "has used it",
                    what, text),
        "Start workers with multiprocessing's \"spawn\". If nobody forked: does nvidia-smi work?");
  }
  const ErrorCode code =
      error == MEMLEASE_CUDA_OUT_OF_MEMORY ? ErrorCode::kOutOfMemory : ErrorCode::kInternal;
  return wire::make_error(code, fmt::format("{}: {}", what, text), hint);
}

}  // namespace memlease::cuda
