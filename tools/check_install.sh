#!/usr/bin/env bash
# usage: check_install.sh [BUILD]
# What is installed can be moved, found with find_package(ebb), linked and run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$root/build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "install: failed: $*"
    exit 1
  fi
}

quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/prefix"
# Where a path begins, not within another: a checkout in /ebb is not named by ".../cmake/ebb/".
begins='(?<![\w.}/-])'
if grep -rnP "$begins(\Q$root\E(?![\w.-])|\Q$work/first\E)" "$work/prefix" --include='*.cmake'; then
  echo "install: the files above name the folder they were built in or installed to"
  exit 1
fi
quietly cmake -S "$root/examples/find_package" -B "$work/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix"
quietly cmake --build "$work/build"

quietly "$work/build/train_and_write" "$work/made"
if [[ $(grep -c '^tide [78] |' "$work/log") != 2 ]]; then
  cat "$work/log"
  echo "install: the example should have written two texts"
  exit 1
fi
quietly cmake -S "$root/examples/hybrid_optimizer" -B "$work/by_hand" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix"
quietly cmake --build "$work/by_hand"
quietly "$work/by_hand/train_by_hand"
# From C, with nothing but the header and the shared library, which the program finds by its soname.
libraries=$(dirname "$(find "$work/prefix" -name libebb_hybrid.so)")
quietly "${CC:-gcc}" -std=c99 -Wall -Wextra -pedantic -Werror -I"$work/prefix/include" \
  "$root/examples/hybrid_optimizer_c/main.c" -L"$libraries" -lebb_hybrid -o "$work/train_in_c"
rm "$libraries/libebb_hybrid.so"
quietly env LD_LIBRARY_PATH="$libraries" "$work/train_in_c"
quietly "$work/prefix/bin/ebb" --help
echo "install: ok"
