#!/usr/bin/env bash
# check_layers.py names exactly the lines of bad_tree/ that are marked `// bad`.
set -euo pipefail
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$tests/bad_tree

if found=$("$tests/../../tools/check_layers.py" "$tree"); then
  echo "check_layers.py accepted $tree"
  exit 1
fi
expected=$(cd "$tree" && grep -rn '// bad' src include python | cut -d: -f1,2 | sort)
if ! diff <(echo "$expected") <(echo "$found" | cut -d: -f1,2 | sort); then
  echo "'<': bad, but accepted; '>': rejected, but good. The check said:"
  echo "$found"
  exit 1
fi
