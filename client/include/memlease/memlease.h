// memlease: named arrays in shared memory, leased between processes. Include this.
#pragma once

#include <memlease/array.h>
#include <memlease/attributes.h>
#include <memlease/client.h>
#include <memlease/dtype.h>
#include <memlease/error.h>
#include <memlease/follower.h>
#include <memlease/indexer.h>
#include <memlease/lease.h>
#include <memlease/mem_array.h>
#include <memlease/region.h>
#include <memlease/span.h>
#include <memlease/stream.h>
#include <memlease/version.h>
#include <memlease/view.h>
#include <memlease/wait.h>
