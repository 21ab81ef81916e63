#!/usr/bin/env bash
# The checks of sizes, format, headers and words reject a small tree that breaks each, and accept
# it once it is mended.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/include/ebb" "$tree/src/base"
cp "$root/.clang-format" "$tree"
header=$tree/include/ebb/sample.h
source=$tree/src/base/sample.cpp

fail() {
  echo "$1"
  exit 1
}
accepts() { "$root/tools/$1" "$tree" >/dev/null || fail "$1 rejected: $2"; }
rejects() {
  if "$root/tools/$1" "$tree" >/dev/null 2>&1; then fail "$1 accepted: $2"; fi
}

printf '#pragma once\n' >"$header"
printf 'int sample() { return 1; }\n' >"$source"
for check in check_sizes.sh check_format.sh check_headers.sh check_words.sh; do
  accepts $check "a good tree"
done

if command -v clang-format >/dev/null; then
  printf 'int  sample( ) {return 1;}\n' >"$source"
  rejects check_format.sh "an unformatted file"
fi

printf '// line\n%.0s' {1..600} >"$source"
accepts check_sizes.sh "600 lines"
echo '// line' >>"$source"
rejects check_sizes.sh "601 lines"

# In two parts, so that the check of this very file finds nothing.
for halves in 'TO DO' 'FIX ME' '/wor k/x' '"/ro ot/x"'; do
  printf '// %s\n' "${halves// /}" >"$source"
  rejects check_words.sh "${halves// /}"
done
printf '// src/work/x, a mastodon\n' >"$source"
accepts check_words.sh "a relative path"

printf '#pragma once\nstd::string name();\n' >"$header"
rejects check_headers.sh "a header that lacks an include"
printf '#pragma once\n#include "base/dtype.h"\n' >"$header"
rejects check_headers.sh "a header that includes a private one"
printf 'struct Sample {};\n' >"$header"
rejects check_headers.sh "a header without a guard"
printf '#pragma once\n#ifdef EBB_CUDA\n#endif\n' >"$header"
rejects check_headers.sh "a header that depends on the build"
printf '#pragma once\n' >"$header"
printf '#pragma once\n#ifdef __cplusplus\n#endif\n' >"${header%.h}_c.h"
accepts check_headers.sh "a header of C that asks for the language"
printf '#pragma once\n#ifdef EBB_CUDA\n#endif\n' >"${header%.h}_c.h"
rejects check_headers.sh "a header of C that depends on the build"
printf '#pragma once\nstruct A { int b = 1; };\n' >"${header%.h}_c.h"
rejects check_headers.sh "a header of C that is C++"
