// A result that is thrown away, or used after what it belongs to: the command line has it.
#include <memlease/mem_array.h>
#include <memlease/memlease.h>

void use(const memlease::Client& client, const memlease::Array& array, memlease::Follower& follower,
         const memlease::MemArray<float, 2>& a) {
  static_cast<void>(client.directory());
  static_cast<void>(array.id());
  static_cast<void>(follower.last());
  static_cast<void>(a.size());
  MEMLEASE_STATEMENT;
}
