// Probes of the GPUs: as this process sees them, and by way of the daemon.
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "client/ctl/cell.h"
#include "client/ctl/check.h"
#include "cuda/loader.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "memlease/client.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

constexpr const char* kNoGpu = "a driver, and no GPU that this process may use";
constexpr const char* kNoGpuRemedy =
    "Look at CUDA_VISIBLE_DEVICES; a container must be given its GPUs.";

absl::StatusOr<std::vector<cuda::Gpu>> gpus_here() {
  const auto cuda = cuda::load_plugin();
  if (!cuda.ok()) return cuda.status();
  return cuda::visible_gpus(**cuda);
}

// The daemon allocates, this process opens what it has allocated, writes, and reads back.
void share_array_on(const Client& client, const std::string& device) {
  CreateOptions options;
  options.name = fmt::format("memleasectl-doctor-{}", ::getpid());
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {512};
  options.slots = 1;
  options.device = device;
  const Array array = client.create(options);
  const std::vector<std::uint64_t> written(512, 0x6d656d6c65617365);
  std::vector<std::uint64_t> found(written.size());
  array.put(written.data(), written.size() * sizeof(written[0]));
  array.get(found.data(), found.size() * sizeof(found[0]));
  client.withdraw(options.name);
  array.close();
  if (found != written) {
    throw Internal(fmt::format("an array on {} has other bytes than were put there", device),
                   "Look at the kernel's log for errors of the GPU (dmesg | grep -i xid).");
  }
}

}  // namespace

Check probe_gpu() {
  const auto gpus = gpus_here();
  if (!gpus.ok()) {
    return {"gpu", Verdict::kNote, "no GPU arrays: " + wire::message_of(gpus.status()),
            wire::hint_of(gpus.status())};
  }
  std::vector<std::string> shown;
  bool all_share = true;
  for (const cuda::Gpu& gpu : *gpus) {
    all_share = all_share && gpu.ipc;
    shown.push_back(fmt::format("cuda:{} {}, {}{}", gpu.ordinal, gpu.name,
                                human_bytes(gpu.total_bytes),
                                gpu.ipc ? "" : ", which cannot share memory with other processes"));
  }
  if (shown.empty()) {
    return {"gpu", Verdict::kNote, kNoGpu, kNoGpuRemedy};
  }
  return {"gpu", all_share ? Verdict::kOk : Verdict::kWarning,
          fmt::format("{}", fmt::join(shown, "; ")),
          all_share ? "" : "Put arrays on another GPU, or into host memory."};
}

Check probe_gpu_sharing(const Options& options) {
  const auto gpus = gpus_here();
  if (!gpus.ok() || gpus->empty()) {
    return {"gpu_sharing", Verdict::kFailure, "there is no GPU to share an array on",
            "See the line \"gpu\"."};
  }
  std::string tried;
  try {
    ConnectOptions connect;
    connect.directory = options.directory;
    connect.start = false;
    const Client client = Client::connect(connect);
    for (const cuda::Gpu& gpu : *gpus) {
      tried = fmt::format("cuda:{}: ", gpu.ordinal);
      share_array_on(client, gpu.uuid);
    }
    client.close();
  } catch (const Error& error) {
    return {"gpu_sharing", Verdict::kFailure, tried + error.message(), error.hint()};
  }
  return {"gpu_sharing", Verdict::kOk,
          fmt::format("the daemon's memory was opened, written and read on {} GPU{}", gpus->size(),
                      gpus->size() == 1 ? "" : "s"),
          ""};
}

}  // namespace memlease::ctl
