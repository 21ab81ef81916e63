#!/usr/bin/env bash
# usage: gpu_speed.sh MODEL [train flag...]
# Speed of training a preset on the GPU with everything on the device and with every state off it, one
# line each: tokens/s, the share of resident, device peak, and the busy time of each lane a step.
# EBB is the command (default: build/release/ebb); WAYS may name some of resident, stream, host, mix.
set -euo pipefail
ebb=${EBB:-build/release/ebb}
model=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Made-up text: speed does not depend on it.
seq 1 60000 | sed 's/.*/& tides rise and fall &/' >"$folder/text"

number() { sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\{0,1\}\$/\1/p" "$folder/$1.json" | head -n 1; }
lane() { sed -n "/\"$2\": {/,/}/s/.*busy_seconds_per_step\": \([0-9.e+-]*\).*/\1/p" "$folder/$1.json" | head -n 1; }
peak() { sed -n '/"device": {/,/}/s/.*"measured_peak": \([0-9]*\).*/\1/p' "$folder/$1.json" | head -n 1; }

printf '%-34s%10s%8s%10s%9s%9s%9s%9s  %s\n' "$model" tokens/s share device compute up down host digest
resident=0
for way in "resident --states resident" "stream --states stream" "host --states host" \
           "mix --states stream --host-fraction 0.3"; do
  name=${way%% *}
  [[ " ${WAYS:-resident stream host mix} " == *" $name "* ]] || continue
  # shellcheck disable=SC2086
  $ebb train --model "$model" --data "$folder/text" --out "$folder/$name" --sequence 2048 --micro-batch 8 \
    --accumulate 2 --steps 8 --schedule constant --recompute none --activations device --device cuda --keep 0 \
    --summary "$folder/$name.json" ${way#* } "$@" >"$folder/$name.log" 2>&1 ||
    { tail -n 5 "$folder/$name.log"; continue; }
  # The median leaves out the first step, which loads kernels.
  speed=$(awk -v s="$(number "$name" step_seconds_median)" 'BEGIN {printf "%.0f", 32768 / s}')
  [[ $name == resident ]] && resident=$speed
  printf '%-34s%10s%8s%10s%9.3f%9.3f%9.3f%9.3f  %.8s\n' "  $name" "$speed" \
    "$(awk -v a="$speed" -v b="$resident" 'BEGIN {printf "%.2f", (b > 0) ? a / b : 0}')" \
    "$(peak "$name" | awk '{printf "%.1fGiB", $1 / 2^30}')" \
    "$(lane "$name" compute)" "$(lane "$name" up)" "$(lane "$name" down)" "$(lane "$name" host)" \
    "$(sed -n 's/.*"weights_digest": "\([0-9a-f]*\)".*/\1/p' "$folder/$name.json")"
done
