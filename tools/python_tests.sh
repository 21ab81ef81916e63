#!/usr/bin/env bash
# usage: python_tests.sh
# Builds the Python package's wheel, installs it into an empty environment and runs tests/python there,
# then again beside a PyTorch. That is, of these the first that is there:
#
#   EBB_TORCH_PYTHON   a Python that imports torch 2.4 or later
#   python3            where it does
#   EBB_TORCH_ROOT     a Debian 13 in a folder, whose python3-torch is 2.6 for the CPU (PyPI's wants
#                      gigabytes of NVIDIA's libraries); it is made if it is missing, once, with
#                      root, debootstrap and some 2 GiB. By default in ~/.cache/ebb/torch_root
#
# Says what it cannot have, and what it skipped therefore; that is no failure. Wheels are for this
# machine's CPU and, where CMake finds CUDA, for its GPUs. EBB_CUDA=OFF leaves those out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build/python_tests
mkdir -p "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1
# Tensors are small, and the machine may have other things to do.
export OMP_NUM_THREADS=1

quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    echo "python: failed: $*"
    return 1
  fi
}

if [[ ! -x $work/build/bin/python ]]; then
  if ! quietly python3 -m venv "$work/build" ||
    ! quietly "$work/build/bin/pip" install --retries 1 --timeout 20 scikit-build-core; then
    rm -rf "$work/build"
    echo "python: no venv or no scikit-build-core (PyPI) to be had here: skipped"
    exit 0
  fi
fi

rm -rf "$work/dist" "$work/empty"
if [[ ${EBB_CUDA:-} ]]; then export SKBUILD_CMAKE_DEFINE="EBB_CUDA=$EBB_CUDA"; fi
quietly "$work/build/bin/pip" wheel . --no-build-isolation --no-deps -w "$work/dist"
wheel=$(echo "$work"/dist/ebb-*.whl)
if quietly "$work/build/bin/pip" install --retries 1 --timeout 20 auditwheel; then
  quietly "$work/build/bin/auditwheel" show "$wheel"
  tag=$(tr '\n' ' ' <"$work/log" | grep -o 'manylinux_[0-9_]*x\?[a-z0-9_]*' | head -n 1 || true)
  echo "python: ${wheel##*/}, which auditwheel finds good for ${tag:-this machine alone}"
else
  echo "python: no auditwheel (PyPI) to be had here: not asked"
fi

# The package alone, where nothing else is installed.
quietly python3 -m venv "$work/empty"
quietly "$work/empty/bin/pip" install --no-index --no-deps "$wheel"
(cd tests/python && quietly "$work/empty/bin/python" -m unittest test_package test_api)
echo "python: without PyTorch: $(tail -n 3 "$work/log" | tr -s "\n" " ")"

has_torch='import torch; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)'
# run_tests PYTHON: in an environment over it that has the wheel.
run_tests() {
  rm -rf "$work/torch"
  quietly "$1" -m venv --system-site-packages "$work/torch"
  quietly "$work/torch/bin/pip" install --no-index --no-deps --force-reinstall "$wheel"
  local site
  # An environment over another has its base's packages, not the other's.
  site=$("$1" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
  (cd tests/python && PYTHONPATH="$("$work/torch/bin/python" -c \
    'import sysconfig; print(sysconfig.get_path("purelib"))'):$site" \
    quietly "$work/torch/bin/python" -m unittest discover)
  echo "python: with PyTorch $("$1" -c 'import torch; print(torch.__version__)'):" \
    "$(tail -n 3 "$work/log" | tr -s "\n" " ")"
}

for python in "${EBB_TORCH_PYTHON:-}" python3; do
  if [[ $python ]] && "$python" -c "$has_torch" 2>/dev/null; then
    run_tests "$python"
    exit 0
  fi
done

root=${EBB_TORCH_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/ebb/torch_root}
# make_root: a Debian 13 with python3-torch, from this machine's mirror. It is there whole or not at all.
make_root() {
  local part=$root.part mirror
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ {print $3; exit}')
  rm -rf --one-file-system "$part"
  mkdir -p "${root%/*}"
  # Every newer Debian is made as sid is; an older debootstrap does not know their names.
  timeout 600 debootstrap --variant=minbase --include=ca-certificates trixie "$part" \
    "${mirror:-http://deb.debian.org/debian}" /usr/share/debootstrap/scripts/sid || return 1
  apt-config dump | grep -E '^Acquire::(https?::|Retries|Check-Valid-Until)' \
    >"$part/etc/apt/apt.conf.d/00host" || true
  cp -L /etc/resolv.conf "$part/etc/resolv.conf"
  chroot "$part" env DEBIAN_FRONTEND=noninteractive timeout 600 \
    apt-get install -y --no-install-recommends python3-torch python3-numpy python3-venv || return 1
  mv "$part" "$root"
}
if [[ ! -d $root ]]; then
  if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
    echo "python: no PyTorch here, and no root and debootstrap to make one: its tests are skipped"
    exit 0
  elif ! make_root >"$work/root.log" 2>&1; then
    tail -n 5 "$work/root.log"
    echo "python: a Debian 13 with PyTorch cannot be had here: its tests are skipped"
    exit 0
  fi
fi
if ((EUID != 0)); then
  echo "python: $root needs root to be entered: tests with PyTorch are skipped"
  exit 0
fi
# What is mounted is seen, and ends, with this process alone.
inside='
  mount -t proc proc "$0/proc"
  mount -t tmpfs tmpfs "$0/mnt"
  cp -r tests include examples bench "$1" "$0/mnt"
  chroot "$0" /bin/sh -ec "
    export OMP_NUM_THREADS=1 HOME=/mnt
    python3 -m venv --system-site-packages /mnt/venv
    /mnt/venv/bin/pip install --quiet --no-index --no-deps /mnt/*.whl
    cd /mnt/tests/python
    /mnt/venv/bin/python -m unittest discover"'
quietly unshare --mount /bin/sh -ec "$inside" "$root" "$wheel"
echo "python: with Debian 13's PyTorch: $(tail -n 3 "$work/log" | tr -s "\n" " ")"
