#include "server/rpc/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <chrono>
#include <string>
#include <string_view>

#include "wire/mutex.h"

namespace memlease::server {
namespace {

namespace protobuf = google::protobuf;

constexpr std::uint32_t kLines = 5;  // per period
constexpr std::chrono::seconds kPeriod{10};
constexpr std::size_t kMaxTextBytes = 1024;

// Outlives main(), as gRPC's threads do.
struct Target {
  wire::Mutex mutex{wire::HeldOverLocks(3)};
  Log* log ABSL_GUARDED_BY(mutex) = nullptr;
  LogLimiter limiter{kLines, kPeriod};
};

Target& target() {
  static auto* const target = new Target;
  return *target;
}

void pass_on(LogLevel level, std::string_view library, std::string_view text) {
  Target& to = target();
  const wire::MutexLock lock(to.mutex);
  if (to.log == nullptr) return;
  to.log->write(to.limiter, level, "message of a library",
                {{"library", library}, {"text", text.substr(0, kMaxTextBytes)}});
}

void pass_on_grpc(gpr_log_func_args* message) {
  LogLevel level = LogLevel::kError;
  if (message->severity == GPR_LOG_SEVERITY_INFO) level = LogLevel::kInfo;
  if (message->severity == GPR_LOG_SEVERITY_DEBUG) level = LogLevel::kDebug;
  pass_on(level, "grpc", message->message);
}

void pass_on_protobuf(protobuf::LogLevel severity, const char* /*file*/, int /*line*/,
                      const std::string& text) {
  LogLevel level = LogLevel::kError;
  if (severity == protobuf::LOGLEVEL_INFO) level = LogLevel::kInfo;
  if (severity == protobuf::LOGLEVEL_WARNING) level = LogLevel::kWarning;
  pass_on(level, "protobuf", text);
}

void set_log(Log* log) {
  Target& to = target();
  const wire::MutexLock lock(to.mutex);
  to.log = log;
}

}  // namespace

LibraryLog::LibraryLog(Log& log) {
  set_log(&log);
  gpr_log_verbosity_init();
  gpr_set_log_function(pass_on_grpc);
  protobuf::SetLogHandler(pass_on_protobuf);
}

// The functions stay: one of gRPC's threads may be in one.
LibraryLog::~LibraryLog() { set_log(nullptr); }

}  // namespace memlease::server
