// A user's program: publishes a field and reads it back. Its arguments are the daemon's directory
// and the year of the C++ that it should have been compiled as.
#include <memlease/memlease.h>

#include <iostream>
#include <string>

static_assert(__cplusplus >= 201703L, "memlease's headers are C++17");

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (std::to_string(__cplusplus / 100 % 100) != argv[2]) {
    std::cerr << "compiled as C++" << __cplusplus << ", not as C++" << argv[2] << '\n';
    return 1;
  }
  try {
    memlease::ConnectOptions where;
    where.directory = argv[1];
    const auto client = memlease::Client::connect(where);
    memlease::CreateOptions options;
    options.name = "consumer/field";
    options.dtype = memlease::dtype_of<float>();
    options.shape = {4, 3};
    const auto field = client.create(options);
    {
      auto lease = field.write();
      const auto cells = lease.span<float, 2>();
      for (std::int64_t row = 0; row < cells.extent(0); ++row) {
        for (std::int64_t column = 0; column < cells.extent(1); ++column) {
          cells(row, column) = static_cast<float>(10 * row + column);
        }
      }
      lease.publish();
    }
    const auto lease = field.read();
    if (lease.span<float, 2>()(3, 2) != 32.0F) return 1;
    std::cout << "version " << lease.version() << " of " << field.name() << '\n';
    field.withdraw();
  } catch (const memlease::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
