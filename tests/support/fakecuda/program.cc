// The program `fakecuda`: makes and checks worlds from a shell or from Python.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tests/support/fakecuda/check.h"

namespace {

constexpr const char* kUsage = R"(Usage:
  fakecuda create FOLDER [DEVICES [CAPACITY_BYTES]]
  fakecuda set FOLDER KNOB VALUE
  fakecuda fail FOLDER CALL ERROR [NTH [TIMES]]
  fakecuda check FOLDER          print what is wrong; exit status 1 if anything is
  fakecuda trace FOLDER          print the trace
  fakecuda contexts FOLDER       print what contexts each process ever made: PID DEVICE COUNT NAME
)";

int check(const std::string& folder) {
  const auto world = fakecuda::World::open(folder);
  const auto findings = fakecuda::check(*world);
  for (const auto& finding : findings) std::printf("%s\n", fakecuda::describe(finding).c_str());
  std::printf("%zu findings in %llu records\n", findings.size(),
              static_cast<unsigned long long>(world->layout().records_used));
  return findings.empty() ? 0 : 1;
}

void trace(const std::string& folder) {
  static constexpr const char* kKinds[] = {"-",     "agent",  "allocate", "enqueue",  "execute",
                                           "touch", "access", "free",     "release",  "acquire",
                                           "write", "wait",   "exit",     "violation"};
  const auto world = fakecuda::World::open(folder);
  const fakecuda::Layout& layout = world->layout();
  for (fakecuda::u64 i = 0; i < layout.records_used; ++i) {
    const fakecuda::Record& record = layout.records[i];
    std::printf("%llu %s agent %u: %llx %llx %llx\n", static_cast<unsigned long long>(i),
                kKinds[static_cast<std::size_t>(record.kind.load())], record.agent,
                static_cast<unsigned long long>(record.a),
                static_cast<unsigned long long>(record.b),
                static_cast<unsigned long long>(record.c));
  }
}

void contexts(const std::string& folder) {
  const auto world = fakecuda::World::open(folder);
  const fakecuda::Layout& layout = world->layout();
  for (const fakecuda::Process& process : layout.processes) {
    if (process.state == fakecuda::Process::kFree) break;
    for (fakecuda::u32 device = 0; device < layout.devices; ++device) {
      std::printf("%u %u %u %s\n", process.pid, device, process.contexts[device].load(),
                  process.name.data());
    }
  }
}

int run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  const auto number = [&](std::size_t nth, const char* otherwise) {
    return std::stoll(nth < words.size() ? words[nth] : otherwise);
  };
  if (command == "create" && words.size() >= 2) {
    fakecuda::World::create(words[1], {static_cast<fakecuda::u32>(number(2, "2")),
                                       static_cast<fakecuda::u64>(number(3, "1073741824"))});
  } else if (command == "set" && words.size() == 4) {
    fakecuda::World::open(words[1])->set(fakecuda::World::knob_named(words[2]),
                                         static_cast<fakecuda::u32>(number(3, "")));
  } else if (command == "fail" && words.size() >= 4) {
    fakecuda::World::open(words[1])->fail(words[2], static_cast<int>(number(3, "")),
                                          static_cast<int>(number(4, "1")),
                                          static_cast<int>(number(5, "1")));
  } else if (command == "check" && words.size() == 2) {
    return check(words[1]);
  } else if (command == "trace" && words.size() == 2) {
    trace(words[1]);
  } else if (command == "contexts" && words.size() == 2) {
    contexts(words[1]);
  } else {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fakecuda: %s\n", error.what());
    return 2;
  }
}
