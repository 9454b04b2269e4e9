// A client process with GPU arrays under a test's command (tests/support/peer.h): one command a
// line, one answer a line, "ok RESULT" or "error CODE MESSAGE". Streams go by names, elements are
// uint64; its kernels are the test kernels, so that it runs on hardware as on the stand-in.
#include <cuda_runtime_api.h>
#include <memlease/memlease.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <string>

#include "fmt/format.h"
#include "tests/device/peer_streams.h"
#include "tests/support/crash_point.h"
#include "tests/support/fakecuda/test_kernels.h"

namespace memlease::testing {
namespace {

// What the caller's interrupt check throws.
struct Interrupt : std::exception {
  const char* what() const noexcept override { return "interrupt"; }
};

class DevicePeer {
 public:
  explicit DevicePeer(std::string directory) : directory_(std::move(directory)) {}
  ~DevicePeer() {
    streams_.open_gate();
    reads_.clear();
    writes_.clear();
    pins_.clear();
    arrays_.clear();
    if (client_) client_->close();
    sources_.clear();
  }
  DevicePeer(const DevicePeer&) = delete;
  DevicePeer& operator=(const DevicePeer&) = delete;

  // Throws Error.
  std::string run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (const auto answer = streams_.run(command, words)) return *answer;
    const auto known = kCommands.find(command);
    if (known == kCommands.end()) return "there is no command " + command;
    return (this->*known->second)(words);
  }

 private:
  using Words = PeerStreams::Words;

  Array& array(const std::string& name) {
    const auto known = arrays_.find(name);
    if (known != arrays_.end()) return known->second;
    return arrays_.emplace(name, client_->open(name)).first->second;
  }
  // From the first to the last element, and without what is in between.
  std::size_t count(const std::string& name) { return array(name).size_bytes() / 8; }
  std::size_t elements(const std::string& name) {
    return static_cast<std::size_t>(array(name).shape().at(0));
  }

  // Without anything of its own on a GPU. [signals]: its check for interrupts, as Python's, has
  // something to say only after one.
  std::string join(Words& words) {
    ConnectOptions options;
    options.directory = directory_;
    options.start = false;
    options.check_interrupt = [this] {
      if (checks_left_ > 0 && --checks_left_ == 0) throw Interrupt();
    };
    std::string when;
    options.check_after_signals = static_cast<bool>(words >> when);
    client_.emplace(Client::connect(options));
    return "";
  }
  std::string connect(Words& words) {
    join(words);
    // Now, as memory that is made or freed may wait for all streams.
    streams_.prepare();
    return "";
  }
  // NAME SLOTS WORDS DEVICE [STRIDE_BYTES]. SLOTS "3" are 3 and no more, "3:12" may become 12.
  std::string create(Words& words) {
    CreateOptions options;
    options.name = PeerStreams::word(words);
    const std::string slots = PeerStreams::word(words);
    const std::size_t colon = slots.find(':');
    options.slots = static_cast<std::uint32_t>(std::stoul(slots.substr(0, colon)));
    options.max_slots = colon == std::string::npos
                            ? options.slots
                            : static_cast<std::uint32_t>(std::stoul(slots.substr(colon + 1)));
    options.shape = {static_cast<std::int64_t>(PeerStreams::number(words))};
    options.device = PeerStreams::word(words);
    if (std::int64_t stride = 0; words >> stride) options.strides_bytes = {stride};
    options.dtype = dtype_of<std::uint64_t>();
    arrays_.insert_or_assign(options.name, client_->create(options));
    return array(options.name).device();
  }
  std::string open(Words& words) { return array(PeerStreams::word(words)).device(); }
  // NAME DEVICE AS: the array's handle there goes by that name.
  std::string on(Words& words) {
    const std::string name = PeerStreams::word(words);
    const Array there = array(name).on(PeerStreams::word(words));
    arrays_.insert_or_assign(PeerStreams::word(words), there);
    return there.device();
  }
  // NAME: the article's test of such a class: 2 everywhere, by the host; 3 more by a kernel; the
  // elements again, by the host. -> how many are wrong, and where the array is
  std::string mem_array(Words& words) {
    MemArray<std::uint64_t, 3> a(*client_, {2, 4, 7}, "host", PeerStreams::word(words));
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        for (std::int64_t k = 0; k < 7; ++k) a.write({i, j, k}, 2);
      }
    }
    a.to("cuda:0");
    const cudaStream_t on = streams_.raw_stream(words);
    {
      auto lock = a.lock(on);
      check_cuda(tk_add(lock.data(), static_cast<std::size_t>(a.size()), 3, on));
    }
    MemArray<std::uint64_t, 3> copy = a;
    {
      copy.lock().drop();
    }
    std::size_t wrong = 0;
    for (std::int64_t k = 0; k < 7; ++k) wrong += (a(1, 3, k) != 5) + (copy(0, 0, k) != 5);
    const std::string where = a.on_device() && copy.on_device() ? "device" : "host";
    a.to("host");
    wrong += a.read().at(1, 3, 6) != 5;
    return fmt::format("{} {} {}", wrong, where, a.device());
  }
  // NAME DEVICE STREAM: a MemArray that is a face of it -> the error, where it is, an element
  std::string move(Words& words) {
    MemArray<std::uint64_t, 1> face(*client_, array(PeerStreams::word(words)));
    const std::string device = PeerStreams::word(words);
    std::string outcome = "moved";
    try {
      face.to(device, streams_.stream(words));
    } catch (const Error& error) {
      outcome = name_of(error.code());
    }
    return fmt::format("{} {} {}", outcome, face.device(), face(0));
  }
  // -> how many versions this process has copied
  std::string copies(Words&) { return std::to_string(client_->copies()); }
  // NAME STREAM [WAIT_MS] -> VERSION SLOT
  std::string write(Words& words) {
    const std::string name = PeerStreams::word(words);
    WriteOptions options;
    options.stream = streams_.stream(words);
    if (int wait_ms = 0; words >> wait_ms) options.wait = std::chrono::milliseconds(wait_ms);
    return begin(name, array(name).write(options));
  }
  std::string update(Words& words) {
    const std::string name = PeerStreams::word(words);
    WriteOptions options;
    options.stream = streams_.stream(words);
    return begin(name, array(name).update(options));
  }
  std::string begin(const std::string& name, WriteLease lease) {
    std::string place = fmt::format("{} {}", lease.version(), lease.slot());
    writes_.insert_or_assign(name, std::move(lease));
    return place;
  }
  // NAME VALUE STREAM: by a kernel.
  std::string fill(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::uint64_t value = PeerStreams::number(words);
    auto* data = static_cast<std::uint64_t*>(writes_.at(name).data());
    check_cuda(tk_fill(data, count(name), value, streams_.raw_stream(words)));
    return "";
  }
  std::string add(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::uint64_t value = PeerStreams::number(words);
    auto* data = static_cast<std::uint64_t*>(writes_.at(name).data());
    check_cuda(tk_add(data, count(name), value, streams_.raw_stream(words)));
    return "";
  }
  std::string publish(Words& words) {
    const std::string name = PeerStreams::word(words);
    WriteLease lease = std::move(writes_.at(name));
    writes_.erase(name);
    return std::to_string(lease.publish(streams_.stream(words)));
  }
  std::string drop(Words& words) {
    const std::string name = PeerStreams::word(words);
    writes_.at(name).drop(streams_.stream(words));
    writes_.erase(name);
    return "";
  }
  // NAME STREAM NEWER_THAN -> VERSION SLOT
  std::string read(Words& words) {
    const std::string name = PeerStreams::word(words);
    ReadOptions options;
    options.stream = streams_.stream(words);
    if (std::uint64_t newer = 0; words >> newer) options.newer_than = newer;
    options.timeout = std::chrono::seconds(10);
    reads_.insert_or_assign(name, array(name).read(options));
    return fmt::format("{} {}", reads_.at(name).version(), reads_.at(name).slot());
  }
  // NAME AS: the read lease goes by that name from now on, so that one more can be read.
  std::string keep(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::string as = PeerStreams::word(words);
    arrays_.insert_or_assign(as, array(name));
    reads_.insert_or_assign(as, std::move(reads_.at(name)));
    reads_.erase(name);
    return "";
  }
  // NAME STREAM
  std::string wait(Words& words) {
    const std::string name = PeerStreams::word(words);
    reads_.at(name).wait(streams_.stream(words));
    return "";
  }
  // NAME: the stream for a view of the lease is called "exported" from now on.
  std::string export_read(Words& words) {
    return exported(reads_.at(PeerStreams::word(words)).export_stream());
  }
  std::string export_write(Words& words) {
    return exported(writes_.at(PeerStreams::word(words)).export_stream());
  }
  std::string exported(Stream stream) {
    streams_.set_exported(stream);
    return "";
  }
  // NAME EXPECTED STREAM: by a kernel, which goes on.
  std::string look(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::uint64_t expected = PeerStreams::number(words);
    const auto* data = static_cast<const std::uint64_t*>(reads_.at(name).data());
    cudaStream_t on = streams_.raw_stream(words);
    check_cuda(tk_check(data, count(name), expected, streams_.mismatches_of(on), on));
    return "";
  }
  // NAME STREAM
  std::string release(Words& words) {
    const std::string name = PeerStreams::word(words);
    ReadLease lease = std::move(reads_.at(name));
    reads_.erase(name);
    lease.release(streams_.stream(words));
    return "";
  }
  std::string pin(Words& words) {
    const std::string name = PeerStreams::word(words);
    pins_[name] = reads_.at(name).pin();
    return "";
  }
  std::string unpin(Words& words) {
    pins_.erase(PeerStreams::word(words));
    return "";
  }
  // NAME VALUE: from host memory.
  std::string put(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::vector<std::uint64_t> bytes(elements(name), PeerStreams::number(words));
    return std::to_string(array(name).put(bytes.data(), bytes.size() * 8));
  }
  // NAME -> VERSION FIRST LAST
  std::string get(Words& words) {
    const std::string name = PeerStreams::word(words);
    std::vector<std::uint64_t> bytes(elements(name));
    const std::uint64_t version = array(name).get(bytes.data(), bytes.size() * 8);
    return fmt::format("{} {} {}", version, bytes.front(), bytes.back());
  }
  // NAME WORDS STREAM: memory of a library's on the current device, zeroed, and the stream that the
  // library says it works on. It is freed when nobody keeps it any more.
  std::string source(Words& words) {
    const std::string name = PeerStreams::word(words);
    const std::uint64_t size_bytes = PeerStreams::number(words) * 8;
    void* made = nullptr;
    check_cuda(cudaMalloc(&made, size_bytes));
    const std::shared_ptr<void> owner(made, [](void* memory) { (void)cudaFree(memory); });
    check_cuda(cudaMemset(made, 0, size_bytes));
    check_cuda(cudaDeviceSynchronize());
    owners_[name] = owner;
    sources_[name] = {made, {}, streams_.stream(words), owner};
    return "";
  }
  // NAME AT COUNT VALUE STREAM: by a kernel.
  std::string produce(Words& words) {
    auto* data =
        static_cast<std::uint64_t*>(const_cast<void*>(sources_.at(PeerStreams::word(words)).data));
    const std::uint64_t at = PeerStreams::number(words);
    const std::uint64_t count = PeerStreams::number(words);
    const std::uint64_t value = PeerStreams::number(words);
    check_cuda(tk_fill(data + at, count, value, streams_.raw_stream(words)));
    return "";
  }
  // NAME STRIDE_BYTES...
  std::string strides(Words& words) {
    GpuSource& source = sources_.at(PeerStreams::word(words));
    source.strides_bytes.clear();
    for (std::int64_t stride = 0; words >> stride;) source.strides_bytes.push_back(stride);
    return "";
  }
  // NAME: its address is one of the host's from now on.
  std::string move_to_host(Words& words) {
    sources_.at(PeerStreams::word(words)).data = this;
    return "";
  }
  // NAME: the library does not keep it any more.
  std::string forget(Words& words) {
    sources_.erase(PeerStreams::word(words));
    return "";
  }
  // NAME -> 1 while somebody keeps it
  std::string kept(Words& words) {
    return owners_.at(PeerStreams::word(words)).expired() ? "0" : "1";
  }
  // NAME SOURCE STREAM -> VERSION
  std::string put_source(Words& words) {
    const std::string name = PeerStreams::word(words);
    const GpuSource& source = sources_.at(PeerStreams::word(words));
    WriteOptions options;
    options.stream = streams_.stream(words);
    return std::to_string(array(name).put(source, options));
  }
  // NAME SOURCE: into a lease.
  std::string fill_from(Words& words) {
    const WriteLease& lease = writes_.at(PeerStreams::word(words));
    lease.put(sources_.at(PeerStreams::word(words)));
    return "";
  }
  std::string version(Words& words) {
    return std::to_string(array(PeerStreams::word(words)).version());
  }
  std::string has_writer(Words& words) {
    return array(PeerStreams::word(words)).has_writer() ? "1" : "0";
  }
  // NAME VERSION: waits for it, and reads it without a stream.
  std::string read_version(Words& words) {
    const std::string name = PeerStreams::word(words);
    ReadOptions options;
    options.version = PeerStreams::number(words);
    options.timeout = std::chrono::seconds(60);
    const ReadLease lease = array(name).read(options);
    return std::to_string(lease.version());
  }
  // -> how many arrays CUDA has refused to register
  std::string refused(Words&) { return std::to_string(client_->refused_registrations()); }
  std::string withdraw(Words& words) {
    client_->withdraw(PeerStreams::word(words));
    return "";
  }
  std::string close(Words& words) {
    const std::string name = PeerStreams::word(words);
    array(name).close();
    arrays_.erase(name);
    return "";
  }
  // A step of GpuOrder, in words.
  std::string leave_out(Words& words) {
    std::string step;
    std::getline(words >> std::ws, step);
    testing::leave_out(step);
    return "";
  }
  // NAME -> the device's number in this process
  std::string ordinal(Words& words) {
    return std::to_string(array(PeerStreams::word(words)).device_ordinal());
  }
  std::string calls(Words&) { return std::to_string(client_->calls()); }
  // NTH: this question of a wait whether it is interrupted is answered by an exception.
  std::string interrupt(Words& words) {
    checks_left_ = static_cast<int>(PeerStreams::number(words));
    return "";
  }
  // STEP NTH: an exception there.
  std::string throw_at(Words& words) {
    const std::string step = PeerStreams::word(words);
    arm_step(step, static_cast<int>(PeerStreams::number(words)), [] { throw std::bad_alloc(); });
    return "";
  }
  // STEP NTH SIGNAL
  std::string arm(Words& words) {
    const std::string step = PeerStreams::word(words);
    const auto nth = static_cast<int>(PeerStreams::number(words));
    arm_crash(step, nth, static_cast<int>(PeerStreams::number(words)));
    return "";
  }

  static const std::map<std::string, std::string (DevicePeer::*)(Words&)> kCommands;

  const std::string directory_;
  std::optional<Client> client_;
  std::map<std::string, Array> arrays_;
  std::map<std::string, WriteLease> writes_;
  std::map<std::string, ReadLease> reads_;
  std::map<std::string, Pin> pins_;
  std::map<std::string, GpuSource> sources_;
  std::map<std::string, std::weak_ptr<const void>> owners_;
  int checks_left_ = 0;
  PeerStreams streams_;
};

const std::map<std::string, std::string (DevicePeer::*)(DevicePeer::Words&)> DevicePeer::kCommands =
    {
        {"join", &DevicePeer::join},
        {"connect", &DevicePeer::connect},
        {"create", &DevicePeer::create},
        {"open", &DevicePeer::open},
        {"on", &DevicePeer::on},
        {"mem_array", &DevicePeer::mem_array},
        {"move", &DevicePeer::move},
        {"copies", &DevicePeer::copies},
        {"write", &DevicePeer::write},
        {"update", &DevicePeer::update},
        {"fill", &DevicePeer::fill},
        {"add", &DevicePeer::add},
        {"publish", &DevicePeer::publish},
        {"drop", &DevicePeer::drop},
        {"read", &DevicePeer::read},
        {"keep", &DevicePeer::keep},
        {"wait", &DevicePeer::wait},
        {"export_read", &DevicePeer::export_read},
        {"export_write", &DevicePeer::export_write},
        {"look", &DevicePeer::look},
        {"release", &DevicePeer::release},
        {"pin", &DevicePeer::pin},
        {"unpin", &DevicePeer::unpin},
        {"put", &DevicePeer::put},
        {"get", &DevicePeer::get},
        {"source", &DevicePeer::source},
        {"produce", &DevicePeer::produce},
        {"strides", &DevicePeer::strides},
        {"move_to_host", &DevicePeer::move_to_host},
        {"kept", &DevicePeer::kept},
        {"forget", &DevicePeer::forget},
        {"put_source", &DevicePeer::put_source},
        {"fill_from", &DevicePeer::fill_from},
        {"version", &DevicePeer::version},
        {"has_writer", &DevicePeer::has_writer},
        {"read_version", &DevicePeer::read_version},
        {"refused", &DevicePeer::refused},
        {"withdraw", &DevicePeer::withdraw},
        {"close", &DevicePeer::close},
        {"leave_out", &DevicePeer::leave_out},
        {"ordinal", &DevicePeer::ordinal},
        {"calls", &DevicePeer::calls},
        {"interrupt", &DevicePeer::interrupt},
        {"throw_at", &DevicePeer::throw_at},
        {"arm", &DevicePeer::arm},
};

// "reset DIRECTORY": forgets all, as if it had just been started for that one. What hangs or has
// failed on the GPU shows in that.
std::string reset(std::optional<DevicePeer>& peer, const std::string& directory) {
  peer.reset();
  forget_steps();
  check_cuda(cudaDeviceSynchronize());
  peer.emplace(directory);
  return "reset";
}

int obey(const std::string& directory) {
  const std::string kReset = "reset ";
  std::optional<DevicePeer> peer(std::in_place, directory);
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = "ok " + (line.starts_with(kReset) ? reset(peer, line.substr(kReset.size()))
                                                 : peer->run(line));
    } catch (const Error& error) {
      answer = fmt::format("error {} {}", name_of(error.code()), error.message());
    } catch (const std::exception& error) {
      answer = fmt::format("error exception {}", error.what());
    }
    std::puts(answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace memlease::testing

// As tests/support/peer_main.cc.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return memlease::testing::obey(argv[1]);
}
