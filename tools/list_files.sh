#!/usr/bin/env bash
# usage: list_files.sh ROOT PATTERN...
# Prints ROOT's files, relative to it, whose name matches a glob: what git tracks and what is new
# and not ignored. Where git cannot say (a release archive), all but hidden folders and what
# is made.
set -euo pipefail
cd "$1"
shift
if [[ "$(git rev-parse --show-toplevel 2>/dev/null)" -ef . ]]; then
  git ls-files --cached --others --exclude-standard
else
  find . -type f -not -path './.*/*' -not -path './build/*' \
    -not -path './bundle/*' -not -path './dist/*' -printf '%P\n'
fi | sort -u | while IFS= read -r file; do
  [[ -f $file ]] || continue  # tracked, and deleted from the working tree
  for pattern in "$@"; do
    # shellcheck disable=SC2053  # the pattern is meant to be a glob
    if [[ ${file##*/} == $pattern ]]; then
      printf '%s\n' "$file"
      break
    fi
  done
done
