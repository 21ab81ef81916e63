#!/usr/bin/env bash
# usage: check_sizes.sh [ROOT]
# Past 600 lines a file hides more than one concept: that fails. A header past 200 is only named.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${1:-$tools/..}

bad=0
while IFS= read -r file; do
  lines=$(wc -l <"$root/$file")
  if ((lines > 600)); then
    echo "$file: $lines lines; at most 600. Find the second concept in it and give it a file."
    bad=1
  elif [[ $file == *.h && $lines -gt 200 ]]; then
    echo "$file: $lines lines; warning: a header over 200"
  fi
done < <("$tools/list_files.sh" "$root" '*.h' '*.cpp' '*.cu' '*.cuh' '*.py')
((bad == 0)) && echo "sizes: ok"
exit $bad
