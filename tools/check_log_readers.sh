#!/usr/bin/env bash
# usage: check_log_readers.sh [EBB]
# Trains, is killed, resumes, and has pandas and TensorBoard's own reader read the log.csv and the
# event files that came of it (tools/check_logs.py). The readers come from PyPI into an environment
# under build/; where they cannot be had it says so and skips, which is no failure.
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
ebb=$(realpath "${1:-$root/build/release/ebb}")
cd "$root"
work=$PWD/build/log_readers
mkdir -p "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1

if [[ ! -x $work/venv/bin/tensorboard ]]; then
  if ! python3 -m venv "$work/venv" >"$work/log" 2>&1 ||
    ! "$work/venv/bin/pip" install --retries 1 --timeout 20 tensorboard pandas >>"$work/log" 2>&1; then
    rm -rf "$work/venv"
    echo "log readers: no venv, or no tensorboard and pandas (PyPI) to be had here: skipped"
    exit 0
  fi
fi

rm -rf "$work/run"
for i in $(seq 1 200); do echo "line $i: the tide comes in and the tide goes out $((i * i)) times."; done \
  >"$work/data.txt"
train() {
  "$ebb" train --model preset:tiny --data "$work/data.txt" --out "$work/run" --sequence 32 --micro-batch 2 \
    --schedule constant --eval-share 0.2 --eval-every 2 --keep 9 --log csv tensorboard "$@" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
}
train --steps 7 --save-every 3
# As if it had been killed after step 3: steps 4 to 7 are in its files, and are made again.
rm -rf "$work/run/step-00000007" "$work/run/step-00000006"
train --steps 9 --save-every 3 --resume
"$work/venv/bin/python" tools/check_logs.py "$work/run"
