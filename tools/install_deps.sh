#!/usr/bin/env bash
# usage: install_deps.sh [build]
# Installs the packages of debian-packages.txt and debian-packages-tests.txt that are missing; with
# `build` those of the first, which the command alone is built with. Needs root only if some are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lists=(tools/debian-packages.txt)
if [[ ${1:-} != build ]]; then lists+=(tools/debian-packages-tests.txt); fi

if ! command -v dpkg-query >/dev/null; then
  echo "deps: not a Debian or Ubuntu system. Install the equivalents of ${lists[*]} yourself;"
  echo "deps: CMake will name what it cannot find."
  exit 0
fi

mapfile -t wanted < <(cat "${lists[@]}" | sed -e 's/#.*//' -e 's/[[:space:]]//g' | grep -v '^$')
missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
# Headers for builds with CUDA that come from PyPI only; without them, and without a way to get
# them, Ebb's own kernels do the work.
#   install_headers FOLDER PACKAGE==VERSION FOLDER-IN-THE-WHEEL
install_headers() {
  local to=build/deps/$1 package=$2 inside=$3
  command -v nvcc >/dev/null && [[ ! -d $to/include ]] || return 0
  rm -rf "$to"
  mkdir -p "$to"
  if python3 -m pip download --quiet --no-deps --only-binary=:all: --retries 1 --timeout 10 \
    --dest "$to" "$package" 2>/dev/null; then
    python3 -m zipfile -e "$to"/*.whl "$to/wheel"
    mv "$to/wheel/$inside" "$to/include"
    rm -rf "$to/wheel" "$to"/*.whl
    echo "deps: ${package%==*} is in $to"
  else
    echo "deps: ${package%==*} (PyPI) cannot be had here; going on without"
  fi
}
# The command alone is built for a GPU only where there is one.
install_cuda_headers() {
  if [[ ${lists[*]} != *tests* ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then return; fi
  install_headers cudnn-frontend nvidia-cudnn-frontend==1.32.0 include
  install_headers cutlass nvidia-cutlass==4.2.0.0 cutlass_library/source/include
}
if ((${#missing[@]} == 0)); then
  install_cuda_headers
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
install_cuda_headers
