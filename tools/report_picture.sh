#!/usr/bin/env bash
# usage: report_picture.sh [EBB [RUN]]
# Makes docs/report.png, README's picture: a run's report, and a part of that page as Chromium shows
# it. RUN is the folder of a run; without it preset:small is trained in less device memory than its
# states need, which takes a minute on two idle cores.
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
ebb=$(realpath "${1:-$root/build/release/ebb}")
run=${2:+$(realpath "$2")}
cd "$root"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "report_picture: no Chromium here (apt-get install chromium)"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z $run ]]; then
  # Text that is there on every Debian and Ubuntu, and has something to learn.
  cat /usr/share/common-licenses/* >"$work/data.txt"
  "$ebb" train --model preset:small --data "$work/data.txt" --out "$work/run" --steps 40 --warmup 5 \
    --learning-rate 1e-3 --sequence 256 --micro-batch 4 --device cpu --device-memory 80MiB --states stream \
    --eval-share 0.03 --eval-every 8 --eval-batches 2 --save-every end >"$work/log"
  tail -n 3 "$work/log"
  run=$work/run
fi
"$ebb" report "$run" --out "$work/report.html"

# What a newcomer should see first: curves, one tier, lanes. The rest is on the page itself.
python3 - "$work/report.html" <<'PY'
import pathlib, sys
page = pathlib.Path(sys.argv[1])
style = """<style>
body { max-width: 1200px; } h1, h2, nav, .controls, footer, #plan, #settings, #tables, body > .scroll { display: none; }
#curves .charts { grid-template-columns: repeat(3, 1fr); } #curves .chart:nth-child(n+4) { display: none; }
#memory .pair ~ .pair { display: none; } section { margin-top: .8rem; } .readout { min-height: 0; }
</style></head>"""
page.write_text(page.read_text().replace("</head>", style, 1))
PY
"$chromium" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/browser" \
  --window-size=1200,1010 --virtual-time-budget=5000 --screenshot="$work/report.png" \
  "file://$work/report.html" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
bytes=$(stat -c %s "$work/report.png")
((bytes < 200000)) || { echo "report_picture: $bytes bytes are too many for a repository"; exit 1; }
cp "$work/report.png" docs/report.png
echo "report_picture: docs/report.png, $bytes bytes"
