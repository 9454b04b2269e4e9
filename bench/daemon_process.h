// The daemon, looked at from outside.
#pragma once

#include <sys/types.h>

#include <string>

namespace memlease::bench {

// Who listens in the directory.
pid_t daemon_pid(const std::string& directory);
// Processor time of all threads of a process, ended ones too.
double cpu_ns(pid_t pid);
// Resident memory of a process, shared pages that it maps and uses included.
double resident_bytes(pid_t pid);
// Memory of all shared files of this machine.
double shared_bytes();

}  // namespace memlease::bench
