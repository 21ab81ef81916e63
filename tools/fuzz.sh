#!/usr/bin/env bash
# usage: fuzz.sh TARGET|all [SECONDS]
# Fuzzes a target of tests/fuzz/targets, one process, for so many seconds (60). What it learns stays
# in build/fuzz/corpus/TARGET, cut down to what adds coverage, and the next run goes on from there.
# Prints one line a target; exits 1 if there was a finding, whose input is in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${2:-60}

# Largest input, and with it: seconds that one may take (sanitized code on a busy machine), the
# largest single allocation and all memory. The targets themselves hold what C++ allocates to a
# multiple of the input; this catches what libraries take past it.
limits=(-max_len=8192 -timeout=10 -malloc_limit_mb=16 -rss_limit_mb=1024)

mapfile -t all < <(cd tests/fuzz/targets && printf '%s\n' *.cpp | sed 's/\.cpp$//')
targets=("${1:-}")
if [[ ${1:-} == all ]]; then targets=("${all[@]}"); fi
if [[ ! -f tests/fuzz/targets/${targets[0]}.cpp || ! $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: tools/fuzz.sh TARGET|all [SECONDS]; targets: ${all[*]}" >&2
  exit 2
fi
mkdir -p build/fuzz
if ! clang++ -fsanitize=fuzzer,address -o build/fuzz/can_fuzz -x c++ - 2>build/fuzz/build.log <<<\
  'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
  echo "fuzz: clang++ with libFuzzer is missing: sudo apt-get install clang libclang-rt-dev" >&2
  exit 1
fi

cmake --preset fuzz --log-level=NOTICE >/dev/null
cmake --build --preset fuzz --parallel "${JOBS:-$(tools/usable_cores.sh)}" \
  --target "${targets[@]/#/fuzz_}" >build/fuzz/build.log || { cat build/fuzz/build.log; exit 1; }

found=0
for target in "${targets[@]}"; do
  program=build/fuzz/tests/fuzz/fuzz_$target
  seeds=tests/fuzz/corpus/$target
  learned=build/fuzz/corpus/$target
  findings=build/fuzz/findings/$target
  log=build/fuzz/$target.log
  dictionary=tests/fuzz/targets/$target.dict
  options=("${limits[@]}" "-artifact_prefix=$findings/")
  if [[ -f $dictionary ]]; then options+=("-dict=$dictionary"); fi
  mkdir -p "$learned" "$findings"

  result=ok
  "$program" "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 "$learned" "$seeds" \
    >"$log" 2>&1 || result="FINDING, see $log and $findings"
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  echo "$target: ${executed:-0} executions in ${seconds} s, ${edges:-0} edges: $result"
  if [[ $result != ok ]]; then
    found=1
    continue
  fi
  rm -rf "$learned.minimal"
  mkdir "$learned.minimal"
  "$program" "${limits[@]}" -merge=1 "$learned.minimal" "$seeds" "$learned" >>"$log" 2>&1
  rm -rf "$learned"
  mv "$learned.minimal" "$learned"
done
exit $found
