# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev lint: what is checked without running anything.

# Clang reads the headers of the libraries that the locks' files include.
readonly lint_packages=(
  git python3-venv "clang-format-$clang_version" shellcheck codespell "clang-$clang_version" g++
  libabsl-dev libfmt-dev libspdlog-dev libcli11-dev libtomlplusplus-dev
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
)
readonly tidy_packages=("clang-tidy-$clang_version")

# Lists the project's files, committed or new, whose names match the patterns.
files() {  # GIT-PATTERN...
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
    [[ ! -f $file ]] || say "$file"
  done
}

lint() {  # [--fast]
  local fast=${1:-} cpp python_files shell all
  [[ -z $fast || $fast == --fast ]] || die "lint knows no option $fast (see ./dev help)" 2
  ensure_packages "${lint_packages[@]}"
  ensure_python lint
  mapfile -t cpp < <(files '*.h' '*.cc')
  mapfile -t python_files < <(files '*.py' '*.pyi')
  mapfile -t shell < <(files dev .ci/run '*.sh' '*.bash' 'deploy/debian/*/p*')
  ((${#cpp[@]} == 0)) ||
    step "lint: clang-format" "clang-format-$clang_version" --dry-run -Werror "${cpp[@]}"
  step "lint: shellcheck" shellcheck "${shell[@]}"
  mapfile -t all < <(files)
  step "lint: codespell" codespell --ignore-words-list nd,te,unsecure,statics "${all[@]}"
  if ((${#python_files[@]} > 0)); then
    step "lint: ruff check" "$python" -m ruff check "${python_files[@]}"
    step "lint: ruff format" "$python" -m ruff format --check "${python_files[@]}"
  fi
  [[ ! -d python/memlease ]] || step "lint: mypy" env -C python "$python" -m mypy \
    --config-file ../pyproject.toml --strict memlease
  step "lint: locks" lint_locks
  [[ $fast == --fast ]] || lint_tidy
}

# Compiles nothing: Clang reads the files, as far as -Wthread-safety needs.
readonly locks=build/lint/locks
readonly clang_locks=(
  "clang++-$clang_version" -std=c++20 -Wno-everything -Wthread-safety -Wthread-safety-beta -Werror
  '-DMEMLEASE_VERSION=""' -I. -Iclient/include -isystem "$locks/generated"
)

# The messages' headers, and the libraries' headers read once: each file then takes half a second.
prepare_locks() {
  rm -rf "$locks" && mkdir -p "$locks/generated" &&
    protoc --proto_path=proto "--cpp_out=$locks/generated" "--grpc_out=$locks/generated" \
      "--plugin=protoc-gen-grpc=$(command -v grpc_cpp_plugin)" proto/memlease/v1/*.proto &&
    python3 tests/layering/locked_files.py --libraries >"$locks/libraries.h" &&
    "${clang_locks[@]}" -x c++-header "$locks/libraries.h" -o "$locks/libraries.pch"
}

# Does Clang see each planted violation of the law of locks (docs/locks.md), and nothing else?
check_planted_locks() {
  local planted=tests/layering/planted_locks.cc
  diff <(grep -n '// found$' "$planted" | cut -d: -f1) \
    <("${clang_locks[@]}" -fsyntax-only -ferror-limit=0 "$planted" 2>&1 |
      sed -n "s|^$planted:\([0-9]*\):.* error: .*\[-Werror,-Wthread-safety.*|\1|p")
}

# Does every file that sees a mutex of ours keep that law?
check_locks() {
  local files
  files=$(python3 tests/layering/locked_files.py) &&
    xargs -d '\n' -P "$jobs" -n 4 \
      "${clang_locks[@]}" -fsyntax-only -include-pch "$locks/libraries.pch" <<<"$files"
}

lint_locks() { prepare_locks && check_planted_locks && check_locks; }

# As a build, so that files are checked again only when one of them or a header has changed: all of
# them take half an hour.
lint_tidy() {
  setup
  ensure_packages "${tidy_packages[@]}"
  step "lint: configure" cmake --preset tidy
  step "lint: clang-tidy" cmake --build --preset tidy --parallel "$jobs" -- -k 0
}
