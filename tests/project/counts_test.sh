#!/usr/bin/env bash
# The last line of run_tests.sh counts what passed, failed and was skipped, its exit status says
# whether all is well, and what failed is named before it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect STATUS LAST-LINE TEST...: ctest's own file, as CMake would write it.
expect() {
  local status=0 wanted=$1 line=$2
  shift 2
  printf '%s\n' "$@" >"$tree/CTestTestfile.cmake"
  "$root/tools/run_tests.sh" --test-dir "$tree" >"$tree/log" 2>&1 || status=$?
  if [[ $((status != 0)) != "$wanted" || $(tail -n 1 "$tree/log") != "$line" ]]; then
    cat "$tree/log"
    echo "exit status $status; expected the last line to be '$line'"
    exit 1
  fi
}

good='add_test(good true)'
bad='add_test(bad false)'
absent="add_test(absent $tree/absent)"
skipped=('add_test(skipped sh -c "exit 77")' 'set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)')

expect 0 '1 passed, 0 failed' "$good"
expect 0 '1 passed, 0 failed, 1 skipped' "$good" "${skipped[@]}"
expect 1 '1 passed, 2 failed, 1 skipped' "$good" "$bad" "$absent" "${skipped[@]}"
for name in bad absent; do
  grep -q "[0-9] - $name (" "$tree/log" || { cat "$tree/log"; echo "$name is not named"; exit 1; }
done
