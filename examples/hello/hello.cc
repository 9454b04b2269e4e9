// Publishes a field of numbers, ten times a second for five seconds. hello.py reads it meanwhile.
#include <memlease/memlease.h>

#include <chrono>
#include <iostream>
#include <thread>

int main() try {
  const auto client = memlease::Client::connect();  // finds the daemon, or starts it
  const auto field = client.create({"hello/field", memlease::dtype_of<int>(), {480, 640}});
  for (int step = 1; step <= 50; ++step) {
    if (auto lease = field.try_write()) {  // room for the next version, in shared memory
      for (int& value : lease->view<int, 2>()) value = step;
      lease->publish();  // from here on readers have it
    }  // else readers hold all there is: skip this step
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
} catch (const memlease::Error& error) {
  std::cerr << error.what() << '\n';  // what, why, and what to do
  return 1;
}
