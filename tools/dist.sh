#!/usr/bin/env bash
# usage: dist.sh [BUILD]
# Packs what the preset `dist` built into dist/ebb-VERSION-linux-MACHINE.tar.gz: the command, the
# optimizer's shared library with its header, every library they need that a bare Debian 12, Ubuntu 22.04
# or 24.04 lacks, and all licences. It runs from any folder. dist/SHA256SUMS has its checksum.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:-$root/build/dist}" && pwd)
# What every system that it is for has: Ubuntu 22.04 has the oldest of each.
newest='GLIBC_2.35 GLIBCXX_3.4.30 CXXABI_1.3.13 GCC_12.0.0'
machine='^(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so\.'

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=ebb-$version-linux-$(uname -m)
dist=$root/dist
stage=$dist/$name
rm -rf "$dist"
mkdir -p "$stage/lib" "$stage/include/ebb" "$stage/licences"
cmake --install "$build" --prefix "$stage" --strip --component command >/dev/null
cp "$root/README.md" "$root/LICENSE" "$stage"
cp "$root/include/ebb/hybrid_optimizer_c.h" "$stage/include/ebb"

# package_of FILE: the Debian package it came with; a library may be known by its path under / or /usr.
package_of() {
  local file
  file=$(readlink -f "$1")
  { dpkg-query -S "$file" || dpkg-query -S "${file#/usr}" || dpkg-query -S "/usr$file"; } 2>/dev/null |
    sed -n '1s/:.*//p'
}
licence_of() {
  local notice=/usr/share/doc/$1/copyright
  if [[ ! -f $notice ]]; then
    echo "dist: $1 has no $notice to go with it" >&2
    exit 1
  fi
  cp -L "$notice" "$stage/licences/$1"
}

# Libraries of libraries are among them.
packages=()
while read -r library path; do
  if [[ $library =~ $machine ]]; then continue; fi
  if [[ $path == not ]]; then
    echo "dist: $library is not found" >&2
    exit 1
  fi
  package=$(package_of "$path")
  if [[ -z $package ]]; then
    echo "dist: no package has $path, so its licence is not known" >&2
    exit 1
  fi
  cp -L "$path" "$stage/lib/$library"
  packages+=("$package")
  licence_of "$package"
done < <(ldd "$build/ebb" "$build/libebb_hybrid.so" | awk '$2 == "=>" {print $1, $3}' | sort -u)
# Other names of a library are links to it.
find "$stage/lib" -type f -exec chmod 644 {} + -exec strip --strip-unneeded {} +
# What is compiled into them from headers.
while read -r package; do licence_of "$package"; done < <(grep '^\(lib\|nlohmann\)' "$root/tools/debian-packages.txt")
# Texts that these notices refer to, and where the sources of the libraries are.
{ grep -rohE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$stage/licences" || true; } | sort -u |
  while read -r text; do if [[ -f $text ]]; then cp -L "$text" "$stage/licences"; fi; done
{
  echo "The libraries in lib/, but for Ebb's own, are these packages' builds. apt-get source gets their sources:"
  dpkg-query -W -f='${source:Package} ${source:Version} (${Package})\n' "${packages[@]}" | sort -u
} >"$stage/licences/SOURCES"

# Nothing in it may need a newer system than the oldest it is for.
bad=0
for file in "$stage"/bin/* "$stage"/lib/*; do
  for limit in $newest; do
    kind=${limit%_*}
    found=$(objdump -T "$file" | { grep -oE "\b${kind}_[0-9.]+" || true; } | sort -uV | tail -n 1)
    if [[ $found && $(printf '%s\n' "$limit" "$found" | sort -V | tail -n 1) != "$limit" ]]; then
      echo "dist: ${file#"$stage"/} needs $found, and Ubuntu 22.04 has $limit: build it on Debian 12 or older" >&2
      bad=1
    fi
  done
done
((bad == 0)) || exit 1

# It runs with its own libraries, elsewhere, and takes none but those of the list from the system.
moved=$(mktemp -d)
trap 'rm -rf "$moved"' EXIT
cp -r "$stage" "$moved/ebb"
env -i "$moved/ebb/bin/ebb" --help >/dev/null
while read -r library path; do
  if [[ $path != "$moved"/* && ! $library =~ $machine ]]; then
    echo "dist: $library comes from $path, not from the archive" >&2
    exit 1
  fi
done < <(env -i /usr/bin/ldd "$moved/ebb/bin/ebb" "$moved/ebb/lib/libebb_hybrid.so" | awk '$2 == "=>" {print $1, $3}')

tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner -czf "$dist/$name.tar.gz" "$name"
(cd "$dist" && sha256sum "$name.tar.gz" >SHA256SUMS)
echo "dist: $(($(stat -c %s "$dist/$name.tar.gz") >> 20)) MiB, ebb $(($(stat -c %s "$stage/bin/ebb") >> 20)) MiB: dist/$name.tar.gz"
