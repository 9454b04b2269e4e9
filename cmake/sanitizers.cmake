# memlease_no_undefined(<target>): the library must find all it needs where it is linked. Not in a
# sanitized build, where a sanitizer's runtime is the program's and stays undefined.
function(memlease_no_undefined target)
  if(NOT MEMLEASE_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

# Applies MEMLEASE_SANITIZE to every target that follows. A finding ends the program: a test that
# goes on after one could still pass.
if(MEMLEASE_SANITIZE STREQUAL "address")
  set(memlease_sanitizers address,undefined)
elseif(MEMLEASE_SANITIZE STREQUAL "thread")
  set(memlease_sanitizers thread)
elseif(MEMLEASE_SANITIZE)
  message(FATAL_ERROR "MEMLEASE_SANITIZE=${MEMLEASE_SANITIZE} is not known: use address or thread, "
                      "or leave it empty.")
endif()

if(memlease_sanitizers)
  add_compile_options(-fsanitize=${memlease_sanitizers} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  # These builds look for locks over calls, too (wire/held_mutexes.h).
  add_compile_definitions(MEMLEASE_HELD_MUTEXES)
  add_link_options(-fsanitize=${memlease_sanitizers})
endif()
if(MEMLEASE_SANITIZE STREQUAL "address")
  # UBSan's check of vptrs opens a pipe for each look, and cries wolf in a test that has used up its
  # descriptors.
  add_compile_options(-fno-sanitize=vptr)
  # Of each variable ASan knows an address, which need not be relocated then: the tests' processes, of
  # which there are thousands, start a fifth faster.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()

# memlease_leave_address_checks(<target>...): without those of UBSan's checks that are a third of what
# a file costs to compile. ASan sees a bad address when it is used; what touches shared memory keeps them.
function(memlease_leave_address_checks)
  if(MEMLEASE_SANITIZE STREQUAL "address")
    foreach(target ${ARGV})
      target_compile_options(${target} PRIVATE
        -fno-sanitize=null,alignment,pointer-overflow,object-size)
    endforeach()
  endif()
endfunction()
