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

found=$("$work/build/say_bytes" 1.5GiB)
expected="1.5GiB is 1610612736 bytes, or 1.50 GiB"
if [[ $found != "$expected" ]]; then
  echo "install: the example printed '$found', expected '$expected'"
  exit 1
fi
quietly cmake -S "$root/examples/hybrid_optimizer" -B "$work/by_hand" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix"
quietly cmake --build "$work/by_hand"
quietly "$work/by_hand/train_by_hand"
quietly "$work/prefix/bin/ebb" --help
echo "install: ok"
