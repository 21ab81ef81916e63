#!/usr/bin/env bash
# The main job, shown: a model is trained within less than half of the device memory that it needs
# with everything on the device, and then generates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ebb=build/demo/ebb
folder=$(mktemp -d "${TMPDIR:-/tmp}/ebb-demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT

limit=100MiB
steps=60
run=(--model preset:small --data src include docs README.md CONTRIBUTING.md --sequence 256 --micro-batch 8
     --learning-rate 1e-3 --warmup 5 --steps "$steps")

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# The number or word behind a key of a summary.
value() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$folder/$1.json" | head -n 1; }
# A figure of the device tier, in MiB.
device() { sed -n "/\"device\": {/,/}/s/.*\"$2\": \([0-9]*\).*/\1/p" "$folder/$1.json" | head -n 1 |
           awk '{printf "%.1f MiB", $1 / 1048576}'; }

say "1. Without a limit everything stays on the device ($steps steps of preset:small on Ebb's own sources)."
$ebb train "${run[@]}" --out "$folder/free" --summary "$folder/free.json" | grep -E '^step .*[05]/|^What|^Where|^How'

say "2. Within $limit, which is less than half of that, it cannot stay there:"
echo "\$ ebb plan ... --device-memory $limit --states resident"
if $ebb plan "${run[@]}" --device-memory $limit --states resident; then
  echo "demo: resident training was expected to be refused" >&2
  exit 1
fi

say "3. The plan finds a way. It trains, is stopped half way by Ctrl-C (it finishes the step and saves) ..."
$ebb train "${run[@]}" --device-memory $limit --out "$folder/run" >"$folder/first.log" &
training=$!
until grep -q "^step $((steps / 2))/" "$folder/first.log"; do
  kill -0 $training 2>/dev/null || { cat "$folder/first.log"; exit 1; }
  read -rt 0.2 <> <(:) || true
done
kill -INT $training
wait $training || true
grep -E '^What|^Where|^How|^step .*[05]/|^Inter|^Saved' "$folder/first.log"

say "... and goes on where it was, here with every state in host memory, streamed through the device:"
$ebb train --resume "$folder/run" --states stream --recompute block \
  --summary "$folder/run.json" | grep -E '^Going|^Where|^step .*[05]/|^Saved'

say "4. What it cost, measured in these runs:"
printf '  %-34s%16s%16s\n' "" "no limit" "$limit"
printf '  %-34s%16s%16s\n' "device memory, peak" "$(device free measured_peak)" "$(device run measured_peak)"
printf '  %-34s%16s%16s\n' "device memory, peak as predicted" "$(device free predicted_peak)" "$(device run predicted_peak)"
printf '  %-34s%16.3f%16.3f\n' "loss after $steps steps" "$(value free loss_last)" "$(value run loss_last)"
printf '  %-34s%16.2f%16.2f\n' "seconds a step, median" "$(value free step_seconds_median)" "$(value run step_seconds_median)"
printf '  %-34s%16.12s%16.12s\n' "weights, digest" "$(value free weights_digest)" "$(value run weights_digest)"
printf '  %-34s%16.12s%16.12s\n' "moments, digest" "$(value free moments_digest)" "$(value run moments_digest)"
[[ $(value free weights_digest) == "$(value run weights_digest)" ]] &&
  [[ $(value free moments_digest) == "$(value run moments_digest)" ]] ||
  { echo "demo: the two runs should have ended with the same bits" >&2; exit 1; }
echo "  Same bits: the limit, the stop and the resume changed nothing but the time."

say "5. It generates, within the same limit:"
$ebb generate --model "$folder/run" --device-memory $limit --prompt "// The " --max-tokens 240 --temperature 0.7 --seed 3
