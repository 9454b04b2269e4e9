// What every command of memleasectl has: a daemon to ask, and a place to answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/admin/admin_stub.h"
#include "client/ctl/table.h"

namespace memlease::ctl {

struct Options {
  std::string directory;  // empty: where connect() would look
  bool json = false;
  bool gpu = false;     // doctor: try the GPUs, too
  bool verify = false;  // doctor: let the daemon check its books, too
  Style style;
  internal::AdminStub::Timeout timeout = internal::AdminStub::kDefaultTimeout;
};

// Scripts rely on the numbers.
enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,
  kUsage = 2,
  kNotFound = 3,
  kUnreachable = 4,
  kDenied = 5,
  kTimeout = 6,
};

struct Connection {
  std::string directory;
  std::unique_ptr<internal::AdminStub> admin;
};

// To the first of the directories in which a daemon answers. One that is not to be trusted ends the
// search: somebody may have planted it.
absl::StatusOr<Connection> connect(const Options& options);
// What a call to the daemon there came to, with the reason where the daemon is lost because it
// cannot start: that it tells those who attach.
absl::Status with_its_reason(const absl::Status& status, const std::string& directory);

void print_record(const Table& record, const Options& options,
                  const std::vector<Table>& nested = {});

ExitCode exit_code_of(const absl::Status& status);
// To stderr.
void print_error(const absl::Status& status, const Options& options);

}  // namespace memlease::ctl
