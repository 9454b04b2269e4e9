// The way in: a process's connection to a memlease daemon. Standard library only, C++17.
#pragma once

#include <memlease/array.h>
#include <memlease/attributes.h>
#include <memlease/dtype.h>
#include <memlease/error.h>
#include <memlease/stop.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace memlease {

namespace internal {
class Connection;
class Session;
}  // namespace internal

struct ConnectOptions {
  // Where the daemon's sockets are. Empty: MEMLEASE_DIR, else the user's directory
  // ($XDG_RUNTIME_DIR/memlease, else /tmp/memlease-<uid>), else /run/memlease, whichever answers.
  std::string directory;
  // Start a daemon (in the user's directory, or the one given) if nobody answers. It ends by itself
  // some time after the last process has left and the last persistent array is withdrawn. While the
  // one that is there ends, connect() waits for that.
  bool start = true;
  // Path of the daemon's program; empty: MEMLEASE_DAEMON, else beside this library, else $PATH.
  std::string daemon;
  // Called at least every 0.1 s while a call of this connection's waits, by its arrays and leases,
  // too; what it throws ends the wait. Kept until the connection is closed, or the last copy of the
  // Client and the last of its arrays has gone; a call of another thread's that is inside of it
  // then ends it first, so what it refers to has to live as long.
  std::function<void()> check_interrupt;
  // It has something to say only once a signal handler has run in the waiting thread, one without
  // SA_RESTART. Then a long wait for a version or a name calls it after each, and every two seconds
  // at least, so that a thread that waits hardly wakes up.
  bool check_after_signals = false;
  // publish() throws Busy while a pin of the write lease lives, rather than make a late write
  // fault. MEMLEASE_STRICT=1 in the environment says the same for a whole process.
  bool strict = false;
  // How long connect() waits for the daemon: for one that ends, one that is started, one that does
  // not answer yet, or is busy with others who connect at once. Timeout then; zero takes one that
  // answers at once. Default: 30 s for one that ends, 5 s for one that starts, 10 s for an answer.
  Timeout timeout = {};
  // Called once connect() has waited for 1 s for a daemon that is shutting down, with a line of
  // text that says so, how long it goes on, and how to see whose leases that daemon waits for. What
  // it throws ends the wait.
  std::function<void(const std::string&)> on_wait;
};

// NOLINTNEXTLINE(readability-identifier-naming): users' names, as in Python
enum class Lifetime { Session, Persistent };

// Which process of those that the mode lets write becomes the writer: Any, whoever writes next; or
// Exclusive, the one that has created the array, until it closes the array or ends: then the one
// that writes next. Meanwhile write() throws Denied elsewhere, and names it.
// NOLINTNEXTLINE(readability-identifier-naming): likewise
enum class Writer { Any, Exclusive };

struct CreateOptions {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides_bytes = {};  // empty = C order
  std::string device = "host";                   // or "cuda:0", or a GPU's UUID
  std::uint32_t slots = 3;
  // While readers hold all slots, the array grows to so many, and shrinks again. 0: 64 where these
  // take 64 MiB at most, else 8 times `slots`. With max_slots = slots it does not grow, and the
  // writer waits for readers; so do arrays with slots=1.
  std::uint32_t max_slots = 0;
  Lifetime lifetime = Lifetime::Session;
  std::uint32_t mode = 0600;
  Writer writer = Writer::Any;
  bool exist_ok = false;  // open instead if there is an equal array; else AlreadyExists
  // With exist_ok: whose array it must be, as Client::open has it. Denied, too, if this process
  // would have to create it and is another user's.
  std::optional<std::uint32_t> owner = {};
  // Kept with the array, for whoever opens it: Array::attributes(). They do not change, and an
  // array that exist_ok opens keeps its own. InvalidArgument where they are too long, or not UTF-8.
  Attributes attributes = {};
};

// Copies are handles of the same connection, and all connections of one process to one daemon share
// one session. Thread-safe. Calls need the daemon and throw DaemonUnavailable or DaemonLost without
// it. In a forked child a client connects again at its first use there, to the same directory and
// without starting a daemon; so do its arrays.
class MEMLEASE_API Client {
 public:
  // Moves copy, too: what was moved from is a handle still.
  Client(const Client&) noexcept = default;
  Client& operator=(const Client&) noexcept = default;
  ~Client() = default;

  [[nodiscard]] static Client connect(const ConnectOptions& options = {}) {
    return connect(options, MEMLEASE_VERSION);
  }
  // To the daemon of this directory.
  template <typename Directory,
            std::enable_if_t<std::is_constructible_v<std::string, const Directory&>, int> = 0>
  [[nodiscard]] static Client connect(const Directory& directory) {
    ConnectOptions options;
    options.directory = std::string(directory);
    return connect(options);
  }
  // The same for the headers that the caller was compiled with, which the former passes.
  // VersionSkew if the library's minor version is another one: until 1.0 interfaces may change
  // between these.
  [[nodiscard]] static Client connect(const ConnectOptions& options, const char* header_version);

  Array create(const CreateOptions& options) const;
  // `owner`: the uid whose array it must be, as Array::owner_uid() has it. Another user may have
  // taken the name: Denied then.
  [[nodiscard]] Array open(const std::string& name, std::optional<std::uint32_t> owner = {}) const;
  bool exists(const std::string& name) const;
  // Names of arrays that the caller may read. In the pattern * is any text, also across slashes,
  // and ? any one character. InvalidArgument for more than 255 bytes, or bytes that no name has.
  [[nodiscard]] std::vector<std::string> list(const std::string& pattern = "*") const;
  // Opens an array that somebody else may have yet to create. Default: no end. `owner`: as in
  // open(); one of another user's ends the wait by Denied.
  Array wait_for(const std::string& name, Timeout timeout = {},
                 std::optional<std::uint32_t> owner = {}) const;
#if defined(__cpp_lib_jthread)
  // The same with a std::stop_token: a stop ends the wait within a tenth of a second, and it throws
  // Interrupted.
  Array wait_for(const std::string& name, internal::StopToken auto stop, Timeout timeout = {},
                 std::optional<std::uint32_t> owner = {}) const {
    return internal::until_stopped(std::move(stop), [&](const internal::Stop& by) {
      return wait_for(name, timeout, owner, &by);
    });
  }
#endif
  void withdraw(const std::string& name) const;

  const std::string& directory() const MEMLEASE_LIFETIMEBOUND;
  std::uint32_t session_id() const;  // 0 in a forked child that has not used the client
  std::uint64_t calls() const;       // to the daemon so far, of this process's session
  std::uint64_t copies() const;      // by put, get and update so far, likewise
  // Slots so far whose pages were protected because pins outlived a publication, and slots for
  // which there was no room for that (half of vm.max_map_count, in this process): there a late
  // write is seen by readers.
  std::uint64_t protected_slots() const;
  std::uint64_t refused_protections() const;
  // Arrays so far of which CUDA did not register pages: of slots on the host, so that copies to and
  // from GPUs go by pageable memory, more slowly; or of an array on a GPU, so that hosts wait in
  // place of streams.
  std::uint64_t refused_registrations() const;
  // Write leases so far that ended without anybody having asked for their bytes: nothing was
  // written.
  std::uint64_t empty_writes() const;

  // Closes this connection, its copies, and the arrays that they have opened; those of other
  // connections stay open. What waits by any of these in other threads throws Closed within a tenth
  // of a second. With the process's last connection to this daemon the session ends; but leases and
  // pins stay valid, and the session ends with the last of them. A process that has created an
  // array of lifetime Session keeps its session, and so the array's name, until it ends: a later
  // connect() finds both. Destroying a client closes nothing. An exception of check_interrupt ends
  // the call to the daemon; closed all is then.
  void close() const;
  bool closed() const noexcept;  // this connection. By any thread

 private:
  explicit Client(std::shared_ptr<internal::Connection> connection) noexcept;
  Array wait_for(const std::string& name, Timeout timeout, std::optional<std::uint32_t> owner,
                 const internal::Stop* stop) const;
  std::shared_ptr<internal::Connection> connection_;
};

// Whether a lease or pin of this process lives, of any array. After a fork the child does not have
// them: a view of theirs faults there.
[[nodiscard]] MEMLEASE_API bool leases_alive();

// From here on, where a write to bytes that have been published ends this process (SIGSEGV), a line
// on standard error says first which array, version and slot it was. What handled the signal before
// handles it then, by default the process ends as before. A repeat does nothing.
MEMLEASE_API void explain_faults();

}  // namespace memlease
