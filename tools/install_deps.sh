#!/usr/bin/env bash
# Installs the packages of debian-packages.txt that are missing. Needs root only if some are.
set -euo pipefail
list="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/debian-packages.txt"

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
install_front_end() {
  # cuDNN's C++ front end for builds with CUDA: headers that come from PyPI only. Without it, and
  # without a way to get it, attention runs on Ebb's own kernels.
  local to=build/deps/cudnn-frontend wheel
  command -v nvcc >/dev/null && [[ ! -d $to/include ]] || return 0
  mkdir -p "$to"
  if python3 -m pip download --quiet --no-deps --dest "$to" nvidia-cudnn-frontend==1.32.0 2>/dev/null; then
    wheel=$(echo "$to"/*.whl)
    python3 -m zipfile -e "$wheel" "$to/wheel"
    mv "$to/wheel/include" "$to/include"
    rm -rf "$to/wheel" "$wheel"
    echo "deps: cuDNN's front end is in $to"
  else
    echo "deps: cuDNN's front end (PyPI: nvidia-cudnn-frontend) cannot be had here; going on without"
  fi
}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ((${#missing[@]} == 0)); then
  install_front_end
  exit 0
fi

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
install_front_end
