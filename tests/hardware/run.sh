#!/usr/bin/env bash
# Runs all that this machine's GPU can show, and leaves report.json and report.md:
#   run.sh [--stand-in] [--seconds N] [REPORT_DIR]
# It needs no installation: Python 3.11 or newer with numpy, ml_dtypes and pytest, g++, nvcc.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "${PYTHON:-python3}" "$here/tests/hardware/run.py" "$@"
