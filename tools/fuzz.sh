#!/usr/bin/env bash
# usage: fuzz.sh TARGET|all [SECONDS]
# Fuzzes a target of tests/fuzz/targets, one process, for so many seconds (60): three quarters of
# them with short inputs, the rest with inputs of up to 1 MiB, where what takes time or memory in the
# square of its input shows. What it learns from short ones stays in build/fuzz/corpus/TARGET, cut
# down to what adds coverage, and the next run goes on from there.
# Prints one line a target; exits 1 if there was a finding, whose input is in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${2:-60}

# Largest input, and with it: seconds that one may take (sanitized code on a busy machine), the
# largest single allocation and all memory. The targets themselves hold time and what C++ allocates
# to a multiple of the input; this catches what never ends, and what libraries take past it.
limits=(-max_len=8192 -timeout=10 -malloc_limit_mb=64 -rss_limit_mb=1024)
long_limits=(-max_len=1048576 -len_control=0 -timeout=120 -malloc_limit_mb=1024 -rss_limit_mb=4096)

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
  options=("-artifact_prefix=$findings/" -print_final_stats=1)
  if [[ -f $dictionary ]]; then options+=("-dict=$dictionary"); fi
  rm -rf "$learned.long"
  mkdir -p "$learned" "$learned.long" "$findings"

  result=ok
  long=$(((seconds + 3) / 4))
  short=$((seconds > long ? seconds - long : 1))
  {
    "$program" "${options[@]}" "${limits[@]}" -max_total_time="$short" "$learned" "$seeds" &&
      "$program" "${options[@]}" "${long_limits[@]}" -max_total_time="$long" \
        "$learned.long" "$learned" "$seeds"
  } >"$log" 2>&1 || result="FINDING, see $log and $findings"
  rm -rf "$learned.long"
  executed=$(awk '/^stat::number_of_executed_units/ { sum += $2 } END { print sum }' "$log")
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
