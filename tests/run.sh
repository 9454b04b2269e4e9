# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev test: its parts, the second run of what failed beside others, and the summary.

# Tests wait for processes that start and end.
readonly test_jobs=$((2 * jobs))

summaries=()
# Keeps the summary lines of the runner that has just finished, for the end of our output.
keep_summary() {  # REGEX
  local line
  while read -r line; do
    say "$line"
    summaries+=("$line")
  done < <(grep -E "$1" "$last_log")
}

again=()
# What no busy machine brings about, in the words of sanitizers, pytest and ctest.
readonly real='Sanitizer: |runtime error: |crashed while running|\((SEGFAULT|ILLEGAL|BUS|Subprocess [a-z]+|Not Run)\)$'
# A test that failed beside others is run once more, alone, and named at the end: most such tests are about
# a machine that is too busy. Not so a finding that is real however rare: a sanitizer's, a race's (label tsan), a
# process that died. Nor a run that ended before all tests had run, which the callers know by its status.
run_again() {  # PRESET STATUS TEST... -- RUNNER...
  local preset=$1 status=$2 first=$last_log tests=()
  shift 2
  while [[ $1 != -- ]]; do
    tests+=("$preset: $1")
    shift
  done
  shift
  ((${#tests[@]} > 0 && ${#tests[@]} <= 3)) && ! grep -qE "$real" "$first" || exit "$status"
  step "$preset: ${#tests[@]} of these again, alone" "$@"
  say "they pass now; they failed beside others: ${tests[*]}"
  again+=("${tests[@]}")
  last_log=$first
}

slow=()
# Keeps the slowest tests of the runner that has just finished: "SECONDS PRESET TEST".
keep_slowest() {  # PRESET
  local line
  while read -r line; do
    slow+=("$line")
  done < <(sed -nE -e "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (.*[^. ]) *\.* *(Passed|\*\*\*[^0-9]*) +([0-9.]+) sec.*/\\3 $1 \\1/p" \
    -e "s/^([0-9.]+)s (call|setup|teardown) +(.*)/\\1 $1 \\3/p" "$last_log" | sort -rn | head -n 10)
}

run_ctest() {  # PRESET [CTEST-ARG...]
  local preset=$1 runner=("${interruptible[@]}" ctest)
  shift
  # GCC 12's TSan cannot place its shadow where newer kernels randomise 32 bits of addresses.
  if [[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
    runner=("${interruptible[@]}" setarch --addr-no-randomize ctest)
  fi
  use_build "$preset"
  attempt "$preset: C++ tests" "${runner[@]}" --preset "$preset" --parallel "$test_jobs" "$@" || {
    local status=$? names
    mapfile -t names < <(sed -nE 's/^\t *[0-9]+ - (.*) \([^()]*\)$/\1/p' "$last_log")
    ((status == 8)) || exit "$status"
    [[ $(ctest --preset "$preset" --rerun-failed --show-only=json-v1) != *'"tsan"'* ]] || exit "$status"
    run_again "$preset" "$status" "${names[@]}" -- "${runner[@]}" --preset "$preset" --rerun-failed
  }
  keep_summary 'tests (passed|failed)'
  keep_slowest "$preset"
}

# The interpreter is not built with ASan, so the runtime must be loaded before it; libstdc++ too,
# because the runtime looks for the real __cxa_throw when it starts. Leaks are not looked for: the
# interpreter and the libraries it imports keep memory until exit, and none of that is ours. A test
# that cannot run so carries the mark no_asan. A report of ASan's goes to file descriptor 2, which
# pytest must not capture, as the process ends with it.
run_pytest() {  # PRESET [PYTEST-ARG...]
  local preset=$1 runner=("${interruptible[@]}" "$python" -m pytest)
  shift
  use_build "$preset"
  if [[ $preset == asan ]]; then
    runner=("${interruptible[@]}" PYTHONPATH="$asan_site"
      LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)"
      ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
      "$python" -m pytest -m 'not no_asan' --capture=sys)
  fi
  # A file's tests stay in one process, as some of them share a daemon.
  attempt "$preset: Python tests" "${runner[@]}" --numprocesses "$test_jobs" --dist loadfile --durations=10 "$@" || {
    local status=$? names
    ((status == 1)) || exit "$status"
    mapfile -t names < <(sed -nE 's/^(FAILED|ERROR) (.*)/\2/p' "$last_log")
    run_again "$preset" "$status" "${names[@]}" -- \
      "${runner[@]}" --last-failed --last-failed-no-failures none "$@"
  }
  keep_summary '^=+ .* in [0-9.]+s.*=+$'
  keep_slowest "$preset"
}

test_part() {  # PART [ARG...]
  local part=$1
  shift
  case $part in
    release) build release && run_ctest release "$@" ;;
    python) ensure_prometheus && build_release && run_pytest release "$@" ;;
    asan) build asan && run_ctest asan "$@" ;;
    asan-python) ensure_prometheus && build_asan_python && run_pytest asan "$@" ;;
    tsan) build tsan && run_ctest tsan "$@" ;;
    docs)
      # shellcheck source=docs/site/site.sh
      source docs/site/site.sh
      docs "$@"
      summaries+=("$(tail -n 1 "$last_log")")
      ;;
    *) die "no such part of the tests: $part (see ./dev help)" 2 ;;
  esac
}

test_all() {
  local part start=$SECONDS line passed=0 failed=0 count
  for part in release python docs asan asan-python tsan; do
    test_part "$part"
  done
  say
  say "the slowest, in seconds:"
  printf '%s\n' "${slow[@]}" | sort -rn | head -n 10 | cut -c 1-100
  say
  for line in "${summaries[@]}"; do
    say "$line"
    if [[ $line =~ ([0-9]+)\ tests\ failed\ out\ of\ ([0-9]+) ]]; then
      failed=$((failed + BASH_REMATCH[1]))
      passed=$((passed + BASH_REMATCH[2] - BASH_REMATCH[1]))
    else
      [[ $line =~ ([0-9]+)\ passed ]] && passed=$((passed + BASH_REMATCH[1]))
      [[ $line =~ ([0-9]+)\ failed ]] && failed=$((failed + BASH_REMATCH[1]))
      [[ $line =~ ([0-9]+)\ error ]] && failed=$((failed + BASH_REMATCH[1]))
    fi
  done
  count=${#summaries[@]}
  say "$count parts in $((SECONDS - start)) s"
  for line in "${again[@]}"; do say "passed only alone, on the second run: $line"; done
  say "$((passed + ${#again[@]})) passed, $((failed - ${#again[@]})) failed"
}
