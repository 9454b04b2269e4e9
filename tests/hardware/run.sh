#!/usr/bin/env bash
# Runs all that this machine's GPU can show, and leaves report.json and report.md: see README.md.
#   run.sh [--only PART]... [--from PART] [--seconds N] [--stand-in|--as-hardware] [REPORT_DIR]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "run.sh: $python is not Python 3.11 or newer; name one in PYTHON" >&2
  exit 2
}
exec "$python" "$here/tests/hardware/run.py" "$@"
