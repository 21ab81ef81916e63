#!/usr/bin/env bash
# Prints the cores this process may use: its affinity mask, cut down to the container's CPU quota.
set -euo pipefail
cores=$(nproc)
if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [[ $quota != max ]]; then
  by_quota=$(((quota + period - 1) / period))
  if ((by_quota < cores)); then cores=$by_quota; fi
fi
echo "$cores"
