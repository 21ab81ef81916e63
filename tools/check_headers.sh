#!/usr/bin/env bash
# usage: check_headers.sh [ROOT]
# A public header compiles alone, twice in a row, with include/ as the only folder, and does not
# change with the build: it has no #if. One whose name ends with _c.h is also C99, and asks only
# which of the languages it is read in.
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
cd "$root"

bad=0
count=0
for header in include/ebb/*.h; do
  [[ -f $header ]] || continue
  count=$((count + 1))
  name=${header#include/}
  if ! printf '#include <%s>\n#include <%s>\n' "$name" "$name" |
    "${CXX:-g++}" -std=c++20 -fsyntax-only -Iinclude -Wall -Wextra -Werror -x c++ -; then
    echo "$header: does not compile alone; include what it uses, from std and ebb/ only"
    bad=1
  fi
  choices='^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef)\b'
  if [[ $header == *_c.h ]]; then
    if ! printf '#include <%s>\n#include <%s>\ntypedef int nothing;\n' "$name" "$name" |
      "${CC:-gcc}" -std=c99 -fsyntax-only -Iinclude -Wall -Wextra -pedantic -Werror -x c -; then
      echo "$header: does not compile as C99"
      bad=1
    fi
    choices='^[[:space:]]*#[[:space:]]*(if|ifndef|ifdef[[:space:]]+(?!__cplusplus\b))\b'
  fi
  if grep -nHP "$choices" "$header"; then
    echo "$header: a public header must read the same in every build; move the choice to src/"
    bad=1
  fi
done
((bad == 0)) && echo "headers: ok, $count headers"
exit $bad
