// Publishes a field of numbers, ten times a second for five seconds. hello.py reads it meanwhile.
#include <memlease/memlease.h>

#include <algorithm>
#include <chrono>
#include <thread>

int main() {
  const auto client = memlease::Client::connect();  // finds the daemon, or starts it
  const auto field = client.create({"hello/field", memlease::dtype_of<float>(), {480, 640}});
  for (float step = 1; step <= 50; ++step) {
    auto lease = field.write();  // room for the next version, in shared memory
    const auto values = lease.span<float, 2>();
    std::fill_n(values.data(), values.size(), step);
    lease.publish();  // from here on readers have it
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}
