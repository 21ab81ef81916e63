#!/usr/bin/env bash
# usage: fresh.sh [SYSTEM...]
# Proves Ebb on machines that have nothing: for each SYSTEM (bookworm is Debian 12, jammy and noble
# are Ubuntu 22.04 and 24.04; all of them if none is named) it makes a minimal root folder with
# debootstrap, runs the archive of `make dist` there if there is one, then this commit's files and
# README's two commands (not on jammy, whose libraries are too old to build with). Prints wall and CPU
# time and sizes; the whole output stays in build/fresh/. Needs root, debootstrap and some 4 GiB.
#
#   TMPDIR        where the root folders are made; they are removed afterwards, also on Ctrl-C
#   FRESH_CCACHE  a compiler cache to use inside, by its folder; the times then prove nothing. It knows
#                 this machine's compilations where compiler and language (LANG) are the same
#
# The mirror, proxies and what else apt needs here are those of this machine's apt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
all=(bookworm jammy noble)
systems=("${@:-${all[@]}}")
if ((EUID != 0)); then
  echo "fresh: needs root, to make root folders and to enter them: sudo make fresh" >&2
  exit 1
elif ! command -v debootstrap >/dev/null; then
  echo "fresh: debootstrap is missing: apt-get install debootstrap" >&2
  exit 1
fi

logs=$PWD/build/fresh
work=$(mktemp -d "${TMPDIR:-/tmp}/ebb-fresh.XXXXXX")
mkdir -p "$logs"
running=""
# remove FOLDER: and what is mounted in it, deepest first. Should something stay mounted, then
# --one-file-system does not go into it.
remove() {
  awk -v folder="$1/" 'index($2, folder) == 1 {print $2}' /proc/mounts | sort -r |
    while IFS= read -r mounted; do umount -l "$mounted" || true; done
  rm -rf --one-file-system "$1"
}
clean_up() {
  trap - EXIT INT TERM
  if [[ $running ]]; then kill -- "-$running" 2>/dev/null || true; fi
  remove "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

distribution_of() { if [[ $1 == bookworm ]]; then echo Debian; else echo Ubuntu; fi; }

# mirror_of DISTRIBUTION: where this machine's apt has it from. Nothing if it has another, and then
# debootstrap knows the usual place.
mirror_of() {
  # shellcheck disable=SC2016  # these are apt's variables
  apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v origin="$1" '$1 == origin && $2 == "main" && $3 !~ /security/ {print $3; exit}'
}

# ubuntu_key FILE: the key that signs Ubuntu's archive. Debian 12 has no package with it, so it comes
# from Ubuntu's own, and what makes it the right one is its fingerprint.
ubuntu_key() {
  local found wanted=F6ECB3762474EDA9D21B7022871920D1991BC93C
  local package=pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb mirror
  mirror=$(mirror_of Ubuntu)
  # Else where debootstrap itself looks.
  if [[ -z $mirror ]]; then
    mirror=$(sed -n 's#.*default_mirror *\(http://archive[^ ]*\).*#\1#p' /usr/share/debootstrap/scripts/gutsy | head -n 1)
  fi
  /usr/lib/apt/apt-helper download-file "${mirror%/}/$package" "$work/key.deb" \
    >"$logs/key.log" 2>&1 &&
    dpkg-deb -x "$work/key.deb" "$work/key" || return 1
  local key=$work/key/etc/apt/trusted.gpg.d/ubuntu-keyring-2018-archive.gpg
  mkdir -m 700 "$work/gpg"
  found=$(gpg --homedir "$work/gpg" --show-keys --with-colons "$key" 2>>"$logs/key.log" |
    awk -F: '$1 == "fpr" {print $10}')
  [[ $found == "$wanted" ]] && cp "$key" "$1"
}

# make_root SYSTEM FOLDER: a minimal system, as debootstrap makes it, that apt works in.
make_root() {
  local system=$1 root=$2 distribution script keyring
  distribution=$(distribution_of "$system")
  script=/usr/share/debootstrap/scripts/$system
  local options=(--variant=minbase)
  if [[ $distribution == Ubuntu ]]; then
    options+=("--components=main,universe")
    keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [[ ! -e $keyring ]]; then
      keyring=$work/ubuntu.gpg
      if [[ ! -e $keyring ]] && ! ubuntu_key "$keyring"; then
        echo "Ubuntu's archive key cannot be had (package ubuntu-keyring)"
        return 1
      fi
    fi
    options+=("--keyring=$keyring")
    # Every Ubuntu is made as gutsy was; an older debootstrap does not know the newer names.
    if [[ ! -e $script ]]; then script=/usr/share/debootstrap/scripts/gutsy; fi
  fi
  debootstrap "${options[@]}" "$system" "$root" "$(mirror_of "$distribution")" "$script" || return 1
  apt-config dump | grep -E '^Acquire::(https?::|Retries|Check-Valid-Until)' \
    >"$root/etc/apt/apt.conf.d/00host" || true
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
}

# cpu_seconds PROCESS: CPU time of all its children that have ended, and theirs.
cpu_seconds() {
  awk -v hertz="$(getconf CLK_TCK)" '{sub(/.*\) /, ""); printf "%d\n", ($14 + $15) / hertz}' "/proc/$1/stat"
}

# inside ROOT LOG TITLE COMMAND...: runs a command in /ebb, with nothing of this shell's environment.
# Prints its time, and what it had taken when it printed the first line of its build and of the demo.
inside() {
  local root=$1 log=$2 title=$3 start=$SECONDS line built="" shown="" status=0
  shift 3
  local environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
  local name
  for name in http_proxy https_proxy no_proxy; do
    if [[ ${!name:-} ]]; then environment+=("$name=${!name}"); fi
  done
  if [[ ${FRESH_CCACHE:-} ]]; then
    environment+=(CCACHE_DIR=/ccache CCACHE_BASEDIR=/ebb CCACHE_NOHASHDIR=1 "LANG=${LANG:-}")
  fi
  mkfifo "$work/pipe"
  # Each of these becomes the next, so that the process is the command itself, and all that it starts
  # is one group, which ends with this script.
  setsid env -i "${environment[@]}" chroot "$root" /bin/sh -c 'cd /ebb && exec "$@"' sh "$@" \
    >"$work/pipe" 2>&1 </dev/null &
  running=$!
  local before
  before=$(cpu_seconds $$)
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if [[ ! $built && $line == '[1/'* ]]; then
      built=yes
      echo "  $title compiles after $((SECONDS - start)) s (CPU $(cpu_seconds $running) s) of packages" >&2
    elif [[ ! $shown && $line == *'1. Without a limit'* ]]; then
      shown=yes
      echo "  the demo's first line after $((SECONDS - start)) s (CPU $(cpu_seconds $running) s)" >&2
    fi
  done <"$work/pipe" >"$log"
  wait $running || status=$?
  running=""
  rm "$work/pipe"
  if ((status)); then
    tail -n 40 "$log" >&2
    echo "fresh: $title failed; all it said is in $log" >&2
    exit 1
  fi
  echo "  $title: $((SECONDS - start)) s (CPU $(($(cpu_seconds $$) - before)) s): $(tail -n 1 "$log")"
}

megabytes() { du -smx "$1" | cut -f1; }

# try_archive ROOT SYSTEM: what `make dist` made runs where nothing was installed.
try_archive() {
  local root=$1 system=$2 archives=(dist/ebb-*.tar.gz)
  if [[ ! -f ${archives[0]} ]]; then
    echo "  no archive in dist/: make dist makes it"
    return
  fi
  mkdir -p "$root/ebb"
  tar -xzf "${archives[-1]}" -C "$root/ebb" --strip-components=1
  inside "$root" "$logs/$system-archive.log" "the archive" /bin/sh -c 'set -e
    ./bin/ebb train --model preset:tiny --data README.md --sequence 64 --micro-batch 2 --steps 3 --out run
    ./bin/ebb generate --model run --prompt Ebb --max-tokens 8 >/dev/null
    echo it trains and generates'
  rm -rf "$root/ebb"
}

skipped=()
for system in "${systems[@]}"; do
  if [[ " ${all[*]} " != *" $system "* ]]; then
    echo "fresh: '$system' is not known; the systems are: ${all[*]}" >&2
    exit 1
  fi
  root=$work/$system
  start=$SECONDS
  echo "== $system"
  if ! make_root "$system" "$root" >"$logs/$system-root.log" 2>&1; then
    tail -n 5 "$logs/$system-root.log"
    echo "  skipped: no root folder could be made; $logs/$system-root.log says why"
    skipped+=("$system")
    continue
  fi
  bare=$(megabytes "$root")
  echo "  a root folder of $bare MB in $((SECONDS - start)) s"
  try_archive "$root" "$system"
  if [[ $system != jammy ]]; then
    mkdir -p "$root/ebb"
    git archive HEAD | tar -x -C "$root/ebb"
    if [[ ${FRESH_CCACHE:-} ]]; then
      mkdir "$root/ccache"
      mount --bind "$FRESH_CCACHE" "$root/ccache"
    fi
    inside "$root" "$logs/$system-demo.log" "./try demo" ./try demo
    after_demo=$(megabytes "$root")
    strip -o "$work/stripped" "$root/ebb/build/demo/ebb"
    printf '  ebb: %s bytes, %s stripped\n' "$(stat -c %s "$root/ebb/build/demo/ebb")" "$(stat -c %s "$work/stripped")"
    inside "$root" "$logs/$system-test.log" "./try test" ./try test
    echo "  the root folder grew by $((after_demo - bare)) MB with the demo, by $(($(megabytes "$root") - bare)) with the tests"
  fi
  remove "$root"
done
echo "fresh: ok$([[ ${#skipped[@]} == 0 ]] || echo ", but skipped: ${skipped[*]}")"
if ((${#skipped[@]} == ${#systems[@]})); then exit 1; fi
