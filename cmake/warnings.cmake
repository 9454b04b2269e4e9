# memlease_warnings: linked PRIVATE by every target of ours. Generated code does not link it.
add_library(memlease_warnings INTERFACE)
target_compile_options(memlease_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                                                   -Wnon-virtual-dtor -Wconversion -Werror)
if(MEMLEASE_SANITIZE)
  # With sanitizers GCC 12 sees uninitialized uses inside of its own <regex> and <functional>.
  target_compile_options(memlease_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
