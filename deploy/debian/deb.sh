# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev deb: the .deb packages for this system, in build/deb/packages, and what lintian says of them.

readonly deb_packages=(dpkg-dev fakeroot file lintian)

# Debian's Python and the environment's must be of one minor version: the module is compiled for both.
deb_python() {
  local ask='import sys; print("%d.%d" % sys.version_info[:2])' ours theirs
  ours=$("$python" -c "$ask") && theirs=$(/usr/bin/python3 -c "$ask") || return
  [[ $ours == "$theirs" ]] || {
    echo "the packages are for Python $theirs of /usr/bin, and .venv has $ours: make .venv with that one"
    return 1
  }
}

# Of the newest changes, as CPack takes what is there.
deb_pack() {
  rm -rf build/deb/packages build/deb/_CPack_Packages &&
    (umask 022 && cpack --config build/deb/CPackConfig.cmake) &&
    rm -rf build/deb/packages/_CPack_Packages
}

# shellcheck disable=SC2120  # ./dev deb with an argument is refused
deb() {
  (($# == 0)) || die "deb does not know '$1' (see ./dev help)" 2
  setup
  ensure_packages "${deb_packages[@]}"
  step "deb: Python" deb_python
  build_targets deb all
  step "deb: documents" "$python" deploy/debian/documents.py build/deb build/deb/documents
  step "deb: pack" deb_pack
  # Nobody uploads these to Debian.
  step "deb: lintian" lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs \
    build/deb/packages/*.deb
  grep -E '^[WE]: ' "$last_log" || true
  say "Made, in build/deb/packages:"
  (cd build/deb/packages && du -h --apparent-size -- *.deb)
}
