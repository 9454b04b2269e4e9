// metrics.
#include <cstdio>

#include "client/ctl/commands.h"
#include "memlease/v1/admin.pb.h"

namespace memlease::ctl {

// For programs: what a terminal cannot be trusted with is not in it, as no name of a user's is.
absl::Status show_metrics(const Connection& daemon, const Options& options) {
  const auto reply = daemon.admin->metrics();
  if (!reply.ok()) return reply.status();
  if (options.json) {
    print_record({"", {{"text", ""}}, {{reply->text()}}}, options);
  } else {
    std::fputs(reply->text().c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace memlease::ctl
