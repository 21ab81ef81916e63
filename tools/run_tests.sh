#!/usr/bin/env bash
# usage: run_tests.sh CTEST-OPTION...
# Runs ctest on all usable cores: one moving line on a terminal, one line a test in a pipe.
set -euo pipefail
cores=$("$(dirname "${BASH_SOURCE[0]}")/usable_cores.sh")
run=(ctest --parallel "$cores" --output-on-failure --no-tests=error "$@")
if [[ -t 1 ]]; then
  "${run[@]}" --progress
else
  "${run[@]}" | sed -u '/^ *Start  *[0-9]*: /d'
fi
