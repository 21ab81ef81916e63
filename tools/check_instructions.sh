#!/usr/bin/env bash
# usage: check_instructions.sh [BUILD]
# Counts the instructions of the hot loop of every state format and compares them with
# tools/instructions.txt: a slower loop is found on a busy machine too. Valgrind knows no AVX-512, so
# the AVX2 level is counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release}/bench/optimizer_count
parameters=4096

if ! command -v valgrind >/dev/null; then
  echo "instructions: not checked, valgrind is missing (make deps installs it)"
  exit 0
elif ! grep -qw avx2 /proc/cpuinfo; then
  echo "instructions: not checked, this processor has no AVX2"
  exit 0
fi

# instructions FORMAT CALLS: of the whole program.
instructions() {
  EBB_ISA=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : //p'
}

# Valgrind's processor is one of Intel's, so that kernels which fetch ahead are counted. A compiler drops
# fetches that it takes for a call without effect, and nothing but the time would tell: each level has
# some for every rule and format.
bad=0
for level in N_AVX2 N_AVX3; do
  fetches=$(objdump -d "$program" | awk -v level="$level" \
    '/^[0-9a-f]+ </ { in_update = index($0, level) && /update_/ }
     in_update && /\tprefetch[nt]/ { n++ } END { print n + 0 }')
  if [[ $fetches -lt 150 ]]; then
    echo "instructions: the updates of $level have $fetches prefetches, expected 150 or more"
    bad=1
  fi
done
while read -r format fewest most; do
  # What starting and ending takes is in both.
  few=$(instructions "$format" 10)
  many=$(instructions "$format" 110)
  awk -v n="$((many - few))" -v p="$((100 * parameters))" -v format="$format" -v fewest="$fewest" \
    -v most="$most" 'BEGIN {
      each = n / p
      ok = each >= fewest && each <= most
      printf "instructions a parameter, %s: %.2f, expected %s to %s%s\n", format, each, fewest, most,
        ok ? "" : " (a change on purpose goes into tools/instructions.txt)"
      exit !ok
    }' || bad=1
done < <(grep -v '^#' tools/instructions.txt)
exit $bad
