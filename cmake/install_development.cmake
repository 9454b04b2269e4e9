# memlease_install_development(PREFIX <folder> LIBRARY <folder> LIBDIR <folder> INCLUDEDIR <folder>
#                              LINK <flags> INSTALL <arguments of install()>...)
#
# Installs what other people's projects are built with: headers, a package for CMake, a file for pkg-config.
# All lie below PREFIX, wherever that is moved to; LIBRARY is where the library is below it. LINK is what
# pkg-config says to the linker.
include(CMakePackageConfigHelpers)

function(memlease_install_development)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PREFIX;LIBRARY;LIBDIR;INCLUDEDIR;LINK" "INSTALL")
  set(made ${PROJECT_BINARY_DIR}/development/${arg_PREFIX})
  get_target_property(version memlease SOVERSION)
  set(soname libmemlease.so.${version})
  set(folder ${arg_LIBRARY})
  cmake_path(APPEND arg_LIBRARY ${soname} OUTPUT_VARIABLE library)
  set(include ${arg_INCLUDEDIR})
  set(link ${arg_LINK})
  set(cmake_folder ${arg_LIBDIR}/cmake/memlease)
  set(pkgconfig_folder ${arg_LIBDIR}/pkgconfig)
  # Lexically: from a folder below the prefix to the prefix.
  string(REGEX REPLACE "[^/]+" ".." to_prefix ${pkgconfig_folder})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/memleaseConfig.cmake.in
    ${made}/memleaseConfig.cmake INSTALL_DESTINATION ${cmake_folder}
    INSTALL_PREFIX /prefix NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${made}/memleaseConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/memlease.pc.in ${made}/memlease.pc @ONLY)

  install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/include/memlease
          DESTINATION ${arg_PREFIX}/${include} ${arg_INSTALL})
  install(FILES ${made}/memleaseConfig.cmake ${made}/memleaseConfigVersion.cmake
          DESTINATION ${arg_PREFIX}/${cmake_folder} ${arg_INSTALL})
  install(FILES ${made}/memlease.pc DESTINATION ${arg_PREFIX}/${pkgconfig_folder} ${arg_INSTALL})
endfunction()
