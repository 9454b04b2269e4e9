# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev wheel: a wheel for each Python that is here, made of the release build; tried where nothing of
# ours is but the wheel. What is given out lies in build/wheel/dist.

readonly wheel_platform=manylinux_2_34_x86_64
readonly wheel_roots=(bookworm jammy)
made=$root/build/wheel

# All that git knows of these folders is in the sdist, and CMake can configure it.
wheel_sdist() {
  local unpacked=$made/sdist name
  rm -rf "$unpacked" && mkdir -p "$unpacked" &&
    "$python" -m build --sdist --no-isolation --outdir "$made/dist" "$root" &&
    tar -C "$unpacked" --strip-components=1 -xzf "$made"/dist/memlease-*.tar.gz || return
  while read -r name; do
    [[ -e $unpacked/$name ]] || {
      echo "the sdist has no $name"
      return 1
    }
  done < <(git ls-files -- client cmake cuda deploy docs/man proto python server wire LICENSE VERSION)
  cmake -S "$unpacked" -B "$made/configured" --preset install \
    -DMEMLEASE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python" && rm -rf "$made/configured"
}

wheel_build() {  # VERSION PROGRAM
  "$python" -m pip -v --python "$2" wheel --no-deps --wheel-dir "$made/raw" \
    --build-constraint requirements/build.txt "--config-settings=build-dir=$made/python$1" \
    --config-settings=cmake.source-dir=python/built \
    "--config-settings=cmake.define.MEMLEASE_BUILT_DIR=$root/build/release" \
    "--config-settings=cmake.define.MEMLEASE_NOTICES_DIR=$made/notices" "$root"
}

# auditwheel refuses a tag that the wheel does not keep to. CUDA's runtime is the user's: NVIDIA's
# package or a toolkit.
wheel_repair() {
  PATH=$venv/bin:$PATH "$python" -m auditwheel repair --plat "$wheel_platform" --only-plat \
    --exclude libcudart.so.13 --wheel-dir "$made/dist" "$made"/raw/memlease-*.whl
}

wheel_environment() {  # VERSION PROGRAM
  rm -rf "$made/try" && mkdir -p "$made/try" && "$2" -m venv "$made/try/venv" &&
    "$python" -m pip --python "$made/try/venv" install --no-index --find-links "$made/others" \
      "$made/dist/memlease-$(<VERSION)-cp${1/./}"-*.whl numpy &&
    cp tests/wheel/{try_installed,first_array}.py "$made/try"
}

# A wheel is an installation for C++ projects, too; all wheels have the same one.
wheel_consumers() {
  local prefix
  prefix=$("$made/try/venv/bin/python" -m memlease prefix) && mkdir -p "$made/try/cpp" &&
    cmake "-DPREFIX=$prefix" -DLIBDIR=lib "-DSOURCE_DIR=$root/tests/integration/consumer" \
      "-DWORK_DIR=$made/try/cpp" -DCXX=c++ -P tests/integration/build_consumers.cmake
}

wheel_others() {  # VERSION
  compgen -G "$made/others/numpy-*-cp${1/./}-*.whl" || "$python" -m pip download --only-binary :all: --no-deps --python-version "$1" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --dest "$made/others" \
    "$(grep '^numpy==' requirements/wheel.txt)"
}

# Of the root's own Python, by its own pip and the line of docs/installing.md, without network.
# shellcheck disable=SC2016  # $PATH is the root's
wheel_in_root() {  # SUITE
  local install
  install=$(grep '^pip install memlease-.*-cp311-.*\.whl' docs/installing.md) &&
    "$python" tests/wheel/roots.py run "$1" "$made/root" sh -ec '
      python3.11 -m venv /tmp/venv
      export PATH=/tmp/venv/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt
      cd /mnt
      eval "$0"
      exec python try_installed.py' "$install"
}

wheel_try_roots() {
  local suite
  if ! compgen -G "$made/dist/*-cp311-*.whl" >/dev/null; then
    say "not tried: bare systems: they have Python 3.11, and no wheel here is for that"
    return
  fi
  mkdir -p "$made/root"
  cp "$made"/dist/*.whl "$made"/others/*.whl tests/wheel/{try_installed,first_array}.py "$made/root"
  ((EUID != 0)) || ensure_packages debootstrap
  for suite in "${wheel_roots[@]}"; do
    step "wheel: bare root $suite" "$python" tests/wheel/roots.py make "$suite"
    if grep '^not tried: ' "$last_log"; then continue; fi
    step "wheel: try it in $suite" wheel_in_root "$suite"
    tail -n 1 "$last_log"
  done
}

wheel() {  # [--python PROGRAM]...
  local version program named=() versions=()
  while (($# > 0)); do
    [[ $1 == --python && -n ${2:-} ]] || die "wheel does not know '$1' (see ./dev help)" 2
    named+=("$2")
    shift 2
  done
  setup wheel
  build_targets release memlease_package
  rm -rf "$made"/{raw,dist,notices,root}
  mkdir -p "$made/others"
  step "wheel: sdist" wheel_sdist
  step "wheel: what is linked in" "$python" deploy/wheel/linked.py build/release "$made/notices"
  while read -r version program; do
    versions+=("$version:$program")
    step "wheel: Python $version" wheel_build "$version" "$program"
  done < <("$python" deploy/wheel/pythons.py "${named[@]}")
  step "wheel: repair" wheel_repair
  step "wheel: check" "$python" deploy/wheel/check_wheel.py "$made"/dist/*.whl
  cat "$last_log"
  for version in "${versions[@]}"; do
    program=${version#*:} version=${version%%:*}
    step "wheel: NumPy for Python $version" wheel_others "$version"
    step "wheel: empty environment of Python $version" wheel_environment "$version" "$program"
    step "wheel: try it with Python $version" env -i -C "$made/try" HOME="$made/try" \
      PATH="$made/try/venv/bin:/usr/bin:/bin" MEMLEASE_DIR="$made/try/run" python try_installed.py
    tail -n 1 "$last_log"
  done
  step "wheel: build C++ projects with it" wheel_consumers
  grep -Eo '(not )?tried: .*' "$last_log"
  rm -rf "$made/try"
  wheel_try_roots
  say "Made, in build/wheel/dist:"
  (cd "$made/dist" && du -h --apparent-size -- *)
}
