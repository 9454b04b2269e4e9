// Must not compile: what wire/protocol.cc meets once a layout has changed.
#include "wire/page_layout.h"

static_assert(memlease::wire::PageLayouts<memlease::wire::page_layout_hash(), 1>::kUnchanged);
