// Leases: one process's hold on one version of an array. Standard library only, C++17.
#pragma once

#include <memlease/read_lease.h>
#include <memlease/write_lease.h>
