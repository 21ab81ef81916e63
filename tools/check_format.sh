#!/usr/bin/env bash
# usage: check_format.sh [--fix] [ROOT]
# Every C++ file is as clang-format would write it. --fix rewrites those that are not.
set -euo pipefail
mode=(--dry-run -Werror)
if [[ ${1:-} == --fix ]]; then
  mode=(-i)
  shift
fi
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${1:-$tools/..}

if ! command -v clang-format >/dev/null; then
  echo "format: skipped, clang-format is not installed (make deps installs it)"
  exit 0
fi
cd "$root"
mapfile -t files < <("$tools/list_files.sh" . '*.h' '*.c' '*.cpp' '*.cu' '*.cuh')
if ((${#files[@]})) && ! clang-format --style=file "${mode[@]}" "${files[@]}"; then
  echo "format: run 'make format'"
  exit 1
fi
echo "format: ok, ${#files[@]} files"
