#!/usr/bin/env bash
# Installs the packages of debian-packages.txt that are missing. Needs root only if some are.
set -euo pipefail
list="$(dirname "${BASH_SOURCE[0]}")/debian-packages.txt"

if ! command -v dpkg-query >/dev/null; then
  echo "deps: not a Debian or Ubuntu system. Install the equivalents of $list yourself;"
  echo "deps: CMake will name what it cannot find."
  exit 0
fi

mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' "$list" | grep -v '^$')
missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID == 0)); then
  as_root=(env)
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
else
  echo "deps: missing packages: ${missing[*]}" >&2
  echo "deps: run this, then try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
