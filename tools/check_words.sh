#!/usr/bin/env bash
# usage: check_words.sh [ROOT]
# No paths of one person's machine and no notes of unfinished work in the project's files.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${1:-$tools/..}
cd "$root"

# Written so that they do not find themselves.
paths='(^|[][[:space:]"'"'"'`(=:,<])/(work|root|farm|home)/'
notes='\b(TO[D]O|FIX[M]E)\b'

# No match is grep's exit status 1, which xargs reports as 123.
found=$("$tools/list_files.sh" . '*' | grep -v '^LICENSE$' | tr '\n' '\0' |
  xargs -0 -r grep -nHIE -e "$paths" -e "$notes" || true)
if [[ -n $found ]]; then
  echo "$found"
  echo "words: a machine's path or a note of unfinished work. Make the path an option or relative;"
  echo "words: do the work, or leave the note out."
  exit 1
fi
echo "words: ok"
