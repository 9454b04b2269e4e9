// Publishes a field of numbers, ten times a second for five seconds. hello.py reads it meanwhile.
#include <memlease/memlease.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

int main() try {
  const auto client = memlease::Client::connect();  // finds the daemon, or starts it
  const auto field = client.create({"hello/field", memlease::dtype_of<int>(), {480, 640}});
  for (int step = 1; step <= 50; ++step) {
    auto lease = field.write();  // room for the next version, in shared memory
    const auto values = lease.span<int, 2>();
    std::fill_n(values.data(), values.size(), step);
    lease.publish();  // from here on readers have it
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
} catch (const memlease::Error& error) {
  std::cerr << error.what() << '\n';  // what, why, and what to do
  return 1;
}
