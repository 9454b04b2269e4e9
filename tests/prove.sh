# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev prove: what takes too long for ./dev test. Each part says what it does, and stops at the first
# thing that is wrong. Ctrl-C ends it; nothing is left but files under build/.

readonly fuzz_packages=("clang-$clang_version" "libclang-rt-$clang_version-dev")
readonly fuzzers=(array_spec attach_frame config_file http2_frames requests session_pages)
# Those that are random or race: with other seeds they are other tests.
readonly storms='[./](AttachStorm|CrashPoints|CrashSteps|Flood|Hostile(Calls|List|Member|Storm)|KillStorm|Leases|OwnMemory|QueueStorm|ReplicaStorm|Scribblers|SlotModel|SlotProtocol|Soak|StoppedReaderOf[A-Za-z]+|StreamingStores|Versions|Wakes)\.'

# Counts of what is random add up over all runs in this tree.
add_up() {  # WHAT COUNT
  local file=$root/build/goals/$1 before=0
  [[ -n $2 ]] || die "$1: the run does not say how many"
  mkdir -p "${file%/*}"
  [[ ! -f $file ]] || before=$(<"$file")
  echo $((before + $2)) >"$file"
  say "$1: $2, $((before + $2)) in all"
}

# The larger configurations of the models of the slot protocol: up to half an hour each.
prove_model() {
  setup
  step "model: all configurations" "$python" tests/model/check_model.py --full
  tail -n 1 "$last_log"
}

# Writers that fight, readers that are killed and stopped, pins and forks: in rounds, each with new
# seeds.
prove_storms() {  # MINUTES
  local round end=$((SECONDS + $1 * 60))
  setup
  build release
  use_build release
  export MEMLEASE_STORM_KILLS=2000 MEMLEASE_SOAK_OPERATIONS=300000 RC_PARAMS="max_success=2000"
  for ((round = 1; round == 1 || SECONDS < end; ++round)); do
    step "storms: round $round" "${interruptible[@]}" ctest --preset release -R "$storms"
    add_up kills "$(awk '/^seed [0-9]+, [0-9]+ kills/ {n += $3} END {print n}' build/release/Testing/Temporary/LastTest.log)"
  done
}

# Rows of docs/reliability.md: the program and the tests that do a little of one in ./dev test, and here all.
readonly goals=(
  'kills test_daemon_threads KillStorm.*'
  'writers test_daemon_threads QueueStorm.*'
  'soak test_integration Soak.*'
  'kernel_calls test_integration FailingKernelCalls.*'
  'connections test_integration *FloodBeside.*'
  'shares test_integration FairShares.*'
  'access test_server_rpc AccessTable.*'
  'stopped test_integration StoppedCallers.*'
  'unread test_channel AttachLimits.OfMany*'
  'http2 test_integration Http2Floods.*'
  'races test_integration DaemonRaces.*'
  'guesses test_integration Tokens.CannotBeGuessed'
  'tokens test_server_core SessionToken*'
  'requests test_integration HostileStorm.*'
  'lines test_integration Slots/CrashLines.*'
  'frames test_integration AttachStorm.*'
  'scribblers test_integration Scribblers.*'
  'numbers test_attach_reuses AttachReuses.*'
  'forks test_integration Forks.*'
  'memory test_integration Each/FailingMemoryOf.*-*/create:*/ctl'
  'memory-create test_integration Each/FailingMemoryOf.*/create'
  'memory-ctl test_integration Each/FailingMemoryOf.*/ctl'
)

# What was reached is in build/goals/book, with its date and commit. A row that this commit has reached is not tried
# again: so an interrupted run goes on where it has stopped. After so many minutes no further row is begun. Where one
# misses its goal, the others are tried all the same.
prove_goals() {  # MINUTES
  local row name program tests begins word missed=() end=$((SECONDS + $1 * 60)) book=$root/build/goals/book
  setup
  build release
  use_build release
  mkdir -p "${book%/*}"
  touch "$book"
  for row in "${goals[@]}"; do
    read -r name program tests <<<"$row"
    begins="$(git rev-parse --short HEAD) $name"
    ! grep -qF "$begins reached: " "$book" || continue
    ((SECONDS < end)) || break
    word=reached
    attempt "goals: $name" "${interruptible[@]}" MEMLEASE_GOALS=yes "build/release/tests/$program" "--gtest_filter=$tests" || {
      word=missed
      missed+=("$name")
    }
    grep -q '^reached: ' "$last_log" || die "no test of $tests says what it has reached"
    sed -n "s/^reached: /$(date -I) $begins $word: /p" "$last_log" >>"$book"
  done
  cat "$book"
  ((${#missed[@]} == 0)) || die "missed: ${missed[*]}"
}

# How many seeds one process takes in a round.
readonly seeds_each=5000

simulate() {  # FIRST
  seq "$1" "$seeds_each" $(($1 + seeds_each * (jobs - 1))) |
    xargs --max-procs="$jobs" --replace build/release/tests/simulate '{}' "$seeds_each"
}

# The daemon's core on simulated ports, with new seeds in each round. One that fails is printed, with the
# fewest steps that do; build/release/tests/simulate SEED is the same run again, of the same sources.
prove_simulation() {  # MINUTES
  local round end=$((SECONDS + $1 * 60))
  setup
  build_targets release simulate
  for ((round = 1; round == 1 || SECONDS < end; ++round)); do
    step "simulation: round $round" simulate "$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')"
    add_up seeds "$((seeds_each * jobs))"
    add_up 'jumps of a clock' "$(awk '/seeds from/ {n += $6} END {print n}' "$last_log")"
  done
}

# Each fuzzer runs for so long. What it finds is in build/fuzz/found. Mend it, and put the input into tests/fuzz/corpus.
# So long, too, run the Python tests that make examples, of producers that are wrong about their arrays among others:
# in rounds, with ASan, each with new examples, also where CI in the environment asks for the same ones. What one finds it prints; put it into the test by @example.
prove_fuzz() {  # MINUTES
  local name round end seconds=$(($1 * 60)) found=$root/build/fuzz/found
  ensure_packages "${build_packages[@]}" "${fuzz_packages[@]}"
  step "fuzz: configure" cmake --preset fuzz
  step "fuzz: build" cmake --build --preset fuzz --parallel "$jobs" --target memlease_fuzzers
  for name in "${fuzzers[@]}"; do
    mkdir -p "$found/$name" "build/fuzz/corpus/$name"
    # The first folder gets what is new.
    step "fuzz: $name" "build/fuzz/tests/fuzz_$name" "-max_total_time=$seconds" -timeout=10 \
      -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$found/$name/" \
      "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
    add_up "inputs of $name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$last_log")"
  done
  setup demo test sycl
  build_asan_python
  export MEMLEASE_TIMES_EXAMPLES=20
  for ((round = 1, end = SECONDS + seconds; round == 1 || SECONDS < end; ++round)); do
    say "fuzz: producers, round $round"
    run_pytest asan -m 'hypothesis and not no_asan' --hypothesis-profile=default tests/python
  done
}

# Do tests find what is wrong? Faults that are planted, and small changes at random, one by one in a copy of the
# tree. Either goes on where an earlier run of the same sources has stopped: what was found is in build/faults.
prove_faults() {  # MINUTES
  setup test
  ensure_packages "${build_packages[@]}"
  step "faults: planted" "$python" tests/faults/faults.py planted --minutes "$1"
  tail -n 1 "$last_log"
}

prove_mutants() {  # MINUTES
  setup test
  ensure_packages "${build_packages[@]}"
  step "faults: mutants" "$python" tests/faults/faults.py mutants --minutes "$1" --seed "$RANDOM"
  grep '^LIVES' "$last_log" || true
  tail -n 1 "$last_log"
}

# As a user gets it where there is no wheel: the sdist, built by pip alone, and tried where nothing of
# ours is but that.
prove_package() {
  local made=$root/build/prove
  setup wheel
  rm -rf "$made"
  mkdir -p "$made"
  step "package: sdist" "$python" -m build --sdist --no-isolation --outdir "$made" "$root"
  mkdir "$made/source"
  tar -C "$made/source" --strip-components=1 -xzf "$made"/memlease-*.tar.gz
  # Laid out as our own tree is, so that ccache knows the files again.
  step "package: wheel" env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$made/source" "$python" -m pip -v wheel \
    --no-deps -w "$made" --build-constraint requirements/build.txt \
    "--config-settings=build-dir=$made/source/build/release" "$made/source"
  step "package: empty environment" /usr/bin/python3 -m venv "$made/venv"
  step "package: install" "$made/venv/bin/pip" install "$made"/memlease-*.whl \
    "$(grep '^numpy==' requirements/wheel.txt)"
  step "package: try" env -i -C "$made" HOME="$made" PATH="$made/venv/bin:/usr/bin:/bin" \
    MEMLEASE_DIR="$made/run" python "$root/tests/wheel/try_installed.py"
  cat "$last_log"
  rm -rf "$made"
}

readonly systemd_packages=(systemd systemd-container debootstrap)

# The units under a real systemd, which boots in a container. The test says what a system lacks.
prove_systemd() {
  setup test
  ensure_packages "${systemd_packages[@]}"
  build_targets release memleased memleasectl memlease_peer
  use_build release
  step "systemd: units" "$python" -m pytest -p no:memlease -p no:cacheprovider -rA tests/systemd
  keep_summary '^=+ .* in [0-9.]+s.*=+$'
  grep -E '^(restarted|hung daemon)' "$last_log" || true
}

readonly namespaces_packages=(bubblewrap systemd-container buildah)

# What works between daemon and clients in containers: all cells of the table in docs/containers.md,
# and by bubblewrap and systemd-nspawn; and what the image holds, of which buildah makes the last stage.
prove_namespaces() {
  setup test
  ensure_packages "${namespaces_packages[@]}"
  build_targets release memleased memleasectl memlease_peer memlease_device_peer \
    memlease_cuda fakecuda_program fakecuda_kernels
  use_build release
  step "namespaces" env MEMLEASE_PROVE=1 "$python" -m pytest -p no:memlease -p no:cacheprovider \
    --numprocesses "$jobs" tests/integration
  keep_summary '^=+ .* in [0-9.]+s.*=+$'
}

readonly image_packages=(buildah debootstrap)

# The base that the Containerfile names, without a registry: Debian's minimal system.
image_base() {
  local container
  container=$("${buildah[@]}" from scratch) &&
    "${buildah[@]}" copy --quiet "$container" "$("$python" tests/wheel/roots.py make bookworm)" / &&
    "${buildah[@]}" commit --quiet --rm "$container" memlease-base
}

image_build() {
  "${buildah[@]}" build --isolation=chroot --format=docker --build-arg BASE=localhost/memlease-base \
    --tag memleased --file deploy/container/Containerfile "$root"
}

# Its root file system, as a container has it, to $1.
image_unpack() {  # FOLDER
  local container mounted
  container=$("${buildah[@]}" from memleased) && mounted=$("${buildah[@]}" mount "$container") &&
    mkdir -p "$1" && cp -a "$mounted/." "$1" && "${buildah[@]}" umount "$container" &&
    du -sh --apparent-size "$1"
}

# Both stages of the Containerfile, with the packages of the Debian archive; then what the image holds is
# tried as by ./dev test. As root.
prove_image() {
  local store=$root/build/prove-image
  local buildah=(buildah --root "$store/store" --runroot "$store/run" --storage-driver vfs)
  setup test
  ensure_packages "${image_packages[@]}"
  build_targets release memlease_package memlease_peer memlease_cuda fakecuda_program fakecuda_kernels
  install_python release
  use_build release
  rm -rf "$store"
  mkdir -p "$store"
  step "image: bare system" "$python" tests/wheel/roots.py make bookworm
  if grep '^not tried: ' "$last_log"; then return; fi
  step "image: base" image_base
  step "image: both stages" image_build
  step "image: unpack" image_unpack "$store/image"
  tail -n 1 "$last_log"
  step "image: try it" env "MEMLEASE_IMAGE=$store/image" "$python" -m pytest -p no:cacheprovider -rA \
    tests/integration/containers/test_image.py
  keep_summary '^=+ .* in [0-9.]+s.*=+$'
  rm -rf "$store"
}

# What ./dev deb makes, in the container of prove_systemd: from the files alone, as a machine's administrator has them.
prove_debs() {
  # shellcheck source=deploy/debian/deb.sh
  source deploy/debian/deb.sh
  setup test
  ensure_packages "${systemd_packages[@]}"
  deb
  step "debs: install, upgrade, remove" env "MEMLEASE_DEBS=$root/build/deb/packages" \
    "$python" -m pytest -p no:memlease -p no:cacheprovider -rA tests/debs
  keep_summary '^=+ .* in [0-9.]+s.*=+$'
}

prove() {  # [PART] [--minutes N]
  local part parts=() minutes=10 start=$SECONDS
  while (($# > 0)); do
    case $1 in
      --minutes)
        [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "--minutes needs a whole number of minutes" 2
        minutes=$2
        shift
        ;;
      model | goals | storms | simulation | fuzz | faults | mutants | package | systemd | debs | namespaces | image)
        parts+=("$1")
        ;;
      *) die "no such part to prove: $1 (see ./dev help)" 2 ;;
    esac
    shift
  done
  ((${#parts[@]} > 0)) || parts=(package systemd debs namespaces image faults mutants fuzz simulation storms goals model)
  trap 'say; say "interrupted: nothing found so far"; exit 130' INT
  for part in "${parts[@]}"; do "prove_$part" "$minutes"; done
  say "Proved: ${parts[*]} in $((SECONDS - start)) s"
}
