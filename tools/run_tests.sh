#!/usr/bin/env bash
# usage: run_tests.sh CTEST-OPTION...
# Runs ctest on all usable cores: one moving line on a terminal, one line a test in a pipe. What
# failed is listed after all of them, and the last line counts: '1071 passed, 0 failed, 2 skipped'.
set -euo pipefail
cores=$("$(dirname "${BASH_SOURCE[0]}")/usable_cores.sh")
results=$(mktemp)
trap 'rm -f "$results"' EXIT
run=(ctest --parallel "$cores" --output-on-failure --no-tests=error --no-label-summary
  --output-junit "$results" "$@")
status=0
if [[ -t 1 ]]; then
  "${run[@]}" --progress || status=$?
else
  "${run[@]}" | sed -u '/^ *Start  *[0-9]*: /d' || status=$?
fi

# A test that cannot be started is `notrun` as one that skips itself is, but for the message.
awk '
  /<testcase / { in_case = 1; state = /status="run"/ ? "passed" : "failed" }
  /<skipped message="SKIP_/ { if (in_case) state = "skipped" }
  /<testcase .*\/>|<\/testcase>/ { if (in_case) count[state]++; in_case = 0 }
  END {
    printf "%d passed, %d failed", count["passed"], count["failed"]
    if (count["skipped"]) printf ", %d skipped", count["skipped"]
    printf "\n"
  }' "$results"
exit "$status"
