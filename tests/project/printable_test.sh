#!/usr/bin/env bash
# usage: printable_test.sh BUILD
# Every parameter of a test prints as words: no name and no value is a row of bytes.
set -euo pipefail
build=$1
status=0
listed=0

for program in "$build"/tests/*_tests; do
  [[ -x $program ]] || continue
  tests=$("$program" --gtest_list_tests)
  listed=$((listed + $(grep -c '^  ' <<<"$tests")))
  if bytes=$(grep -e '-byte object <' <<<"$tests"); then
    echo "${program##*/}: give these parameters a PrintTo (tests/print.h):"
    echo "$bytes"
    status=1
  fi
done
if ((listed == 0)); then
  echo "no test is listed by $build/tests/*_tests"
  exit 1
fi
exit $status
