// A plug-in of somebody's application, that uses the libmemlease which it is linked to.
#include <memlease/memlease.h>

#include <cstdio>
#include <exception>

extern "C" __attribute__((visibility("default"))) int use_memlease() try {
  memlease::ConnectOptions options;
  options.start = false;
  const auto client = memlease::Client::connect(options);
  return client.exists("nothing/of-this-name") ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
