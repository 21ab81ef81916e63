#!/usr/bin/env bash
# usage: bundle.sh [BUILD]
# Gathers into ./bundle what runs Ebb and its tests on a GPU machine that has CUDA's libraries and
# nothing else: the command, tests, a bench, golden data and the shared libraries that such a machine lacks.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:-$root/build/release}" && pwd)
bundle=$root/bundle
programs=("$build/ebb" "$build/tests/gpu_tests" "$build/tests/engine_tests"
  "$build/libebb_hybrid.so" "$build/examples/hybrid_optimizer/train_by_hand"
  "$build/bench/gpu_kernels_bench")
limit=$((60 << 20))

for program in "${programs[@]}"; do
  if [[ ! -x $program ]]; then
    echo "bundle: $program is missing: build with CUDA (EBB_CUDA=ON) and tests"
    exit 1
  fi
done

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/tests"
for program in "${programs[@]}"; do
  strip -o "$bundle/bin/${program##*/}" "$program"
done
cp -r "$root/tests/golden" "$bundle/tests/golden"
cp "$root/tools/gpu_hybrid.py" "$bundle/bin"

# The machine has the C and C++ runtimes and CUDA's libraries; the latter are far too large anyway.
machine='^(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)[.-]|^(libcu|libnv)'
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    if [[ ! $name =~ $machine ]]; then cp -L "$path" "$bundle/lib/$name"; fi
  done
strip "$bundle"/lib/* 2>/dev/null || true
gzip -9 "$bundle"/bin/* "$bundle"/lib/*

cat >"$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# usage: run.sh [PROGRAM [ARGUMENT...]]
# Runs a program of bin/, or the GPU's tests, with the libraries beside it and the machine's CUDA.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Packed for the way; unpacked on first use. Another run may be doing the same.
for packed in "$here"/bin/*.gz "$here"/lib/*.gz; do
  if [[ -e $packed && ! -e ${packed%.gz} ]]; then
    gunzip -c "$packed" >"${packed%.gz}.$$"
    chmod +x "${packed%.gz}.$$"
    mv "${packed%.gz}.$$" "${packed%.gz}"
  fi
done
folders=("$here/lib")
for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/local/nvidia/lib64; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
# CUDA's and cuDNN's libraries often come with a Python environment only.
if command -v python3 >/dev/null; then
  while IFS= read -r folder; do folders+=("$folder"); done < <(python3 - <<'PYTHON'
import glob
import site
import sys

for root in {*site.getsitepackages(), *(p for p in sys.path if p.endswith("-packages"))}:
    for folder in sorted(glob.glob(root + "/nvidia/*/lib")):
        print(folder)
PYTHON
  )
fi
LD_LIBRARY_PATH=$(IFS=:; echo "${folders[*]}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# Where tests find what they read and run, instead of the folders they were built in.
export EBB_SOURCE_DIR=$here EBB_COMMAND=$here/bin/ebb
program=${1:-gpu_tests}
if (($#)); then shift; fi
exec "$here/bin/$program" "$@"
RUN
chmod +x "$bundle/run.sh"

size=$(du -sb "$bundle" | cut -f1)
echo "bundle: $((size >> 20)) MiB in $bundle: $(cd "$bundle" && echo bin/* lib/*)"
if ((size > limit)); then
  echo "bundle: over $((limit >> 20)) MiB"
  exit 1
fi
