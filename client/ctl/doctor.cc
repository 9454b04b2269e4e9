#include "client/ctl/doctor.h"

#include <algorithm>
#include <cstdio>

#include "client/ctl/check.h"
#include "fmt/format.h"
#include "wire/utf8.h"

namespace memlease::ctl {
namespace {

struct Spelling {
  std::string_view word;
  std::string_view color;
};

Spelling spelling_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return {"ok", "\x1b[32m"};
    case Verdict::kNote:
      return {"note", "\x1b[36m"};
    case Verdict::kWarning:
      return {"warning", "\x1b[33m"};
    case Verdict::kFailure:
      break;
  }
  return {"FAILED", "\x1b[31m"};
}

void print_text(const std::vector<Check>& checks, const Style& style) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  for (const Check& check : checks) {
    const auto [word, color] = spelling_of(check.verdict);
    fmt::print("{}{:<7}{}  {:<{}}  {}\n", style.color ? color : "", word,
               style.color ? "\x1b[0m" : "", check.name, width, wire::printable(check.reason));
    if (!check.remedy.empty())
      fmt::print("{:{}}-> {}\n", "", width + 11, wire::printable(check.remedy));
  }
}

void print_json(const std::vector<Check>& checks, std::uint64_t failed) {
  Table table{"checks", {{"name", ""}, {"result", ""}, {"reason", ""}, {"remedy", ""}}, {}};
  for (const Check& check : checks) {
    const bool is_failure = check.verdict == Verdict::kFailure;
    table.rows.push_back({check.name,
                          std::string(is_failure ? "failed" : spelling_of(check.verdict).word),
                          check.reason, check.remedy});
  }
  std::fputs(as_json_object({"", {{"failed", ""}}, {{failed}}}, {table}).c_str(), stdout);
}

}  // namespace

int run_doctor(const Options& options) {
  std::vector<Check> checks = probe_daemon(options);
  for (const auto& probe : {probe_memfd, probe_read_only, probe_huge_pages, probe_futex_waitv,
                            probe_pidfd, probe_peer_pidfd, probe_open_files, probe_gpu}) {
    checks.push_back(probe());
  }
  if (options.gpu) checks.push_back(probe_gpu_sharing(options));
  const auto failed = static_cast<std::uint64_t>(
      std::count_if(checks.begin(), checks.end(),
                    [](const Check& check) { return check.verdict == Verdict::kFailure; }));
  if (options.json) {
    print_json(checks, failed);
  } else {
    print_text(checks, options.style);
  }
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace memlease::ctl
