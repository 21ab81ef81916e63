#!/usr/bin/env python3
"""usage: check_layers.py [ROOT]

Includes point down the list of rooms, never up, never sideways. The tables below are that list;
every include of src/, include/ and python/ is held against them. Prints file:line, the include and
the rule it breaks, and exits 1 if there is one.
"""

import pathlib
import re
import sys

# What a room may include, besides itself.
ROOMS = {
    "base": [],
    "device": ["base"],
    "io": ["base"],
    "memory": ["device", "base"],
    "kernels": ["device", "base"],
    "plan": ["base"],
    "exec": ["plan", "memory", "device", "io", "base"],
    "model": ["kernels", "memory", "device", "base"],
    "states": ["kernels", "memory", "device", "base"],
    "text": ["io", "base"],
    "files": ["text", "model", "states", "kernels", "io", "memory", "base"],
    "dist": ["memory", "device", "base"],
    "report": ["files", "io", "base"],
    "hybrid": ["states", "files", "exec", "kernels", "memory", "device", "io", "base"],
}
ROOMS["engine"] = list(ROOMS)
ROOMS["measure"] = list(ROOMS)
ROOMS["api"] = list(ROOMS)
ROOMS["cli"] = []

# Public headers that belong to base; of the others, api, measure, report and hybrid implement what
# they declare, engine takes its settings from their structs, and cli uses them.
COMMON_PUBLIC = {"ebb/error.h", "ebb/units.h"}
ALL_PUBLIC = {"engine", "measure", "api", "report", "hybrid", "cli", "ebb", "python"}

# Headers of a library, and the only folders that may include them.
FENCED = [
    (
        "CUDA",
        r"(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cooperative_groups|nvToolsExt"
        r"|nvml|driver_types\.h|vector_types\.h|device_launch_parameters\.h|mma\.h)"
        r"|(cub|thrust|nvtx3)/",
        r"/cuda/",
        "a folder named cuda/",
    ),
    ("NCCL", r"nccl", r"/nccl/", "a folder named nccl/"),
    ("MPI", r"mpi(_|\.h|cxx\.h|/)", r"/mpi/", "a folder named mpi/"),
    ("liburing", r"liburing", r"/uring/", "a folder named uring/"),
    ("oneDNN", r"dnnl|oneapi/", r"^src/kernels/cpu/", "src/kernels/cpu/"),
    ("CLI11", r"CLI/", r"^src/cli/", "src/cli/"),
    ("toml++", r"toml\+\+/", r"^src/cli/", "src/cli/"),
]

STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <atomic>: no dot, no slash
STANDARD_C = re.compile(r"std(def|int)\.h")  # in public headers of C
BASE_LIBRARIES = re.compile(
    r"(fmt|nlohmann|sys)/.*|xxhash\.h"
    r"|(dirent|errno|fcntl|pthread|sched|signal|time|unistd)\.h"
)

# A path that a macro stands for counts as an include: Highway re-includes a file that way.
INCLUDE = re.compile(r'\s*#\s*(?:include|define\s+\w*INCLUDE\w*)\s+([<"])([^>"]+)[>"]')
BARE_INCLUDE = re.compile(r'\s*#\s*include\s*(?![<"\s])(\S+)')
SUFFIXES = {".h", ".hpp", ".inl", ".inc", ".cpp", ".cc", ".cu", ".cuh"}


def room_of(path):
    """The room of a path relative to the root: a folder of src/, 'ebb' or 'python'."""
    if path.parts[0] == "src":
        return path.parts[1] if len(path.parts) > 2 else None
    return "ebb" if path.parts[0] == "include" else path.parts[0]


def target_of(root, path, quote, name):
    """The room an include leads to, or None for a library's or the system's header."""
    beside = root / path.parent / name
    if quote == '"' and beside.is_file():
        return room_of(beside.resolve().relative_to(root))
    first = name.split("/")[0]
    return first if "/" in name and (first in ROOMS or first == "ebb") else None


def broken_rule(path, room, target, name):
    """The rule that `path` breaks by including `name`, or None."""
    if target is None:
        for library, headers, folders, where in FENCED:
            if re.match(headers, name) and not re.search(folders, path.as_posix()):
                return f"{library} headers appear only in {where}"
        of_c = path.name.endswith("_c.h")
        if room == "ebb" and not (STANDARD_C if of_c else STANDARD).fullmatch(name):
            return "include/ebb may include only the standard library and ebb/"
        if room == "base" and not (STANDARD.fullmatch(name) or BASE_LIBRARIES.fullmatch(name)):
            return "base may include only the system, fmt, nlohmann-json and xxhash"
        return None
    if target == room:
        return None
    if target == "ebb":
        if name in COMMON_PUBLIC or room in ALL_PUBLIC:
            return None
        return f"{room} may include of ebb/ only {' and '.join(sorted(COMMON_PUBLIC))}"
    if room in ("ebb", "python", "cli"):
        label = {"ebb": "include/ebb", "python": "python/", "cli": "cli"}[room]
        return f"{label} may include of Ebb only the public headers ebb/*.h and its own"
    if target not in ROOMS[room]:
        return f"{room} may include only {', '.join(ROOMS[room]) or 'itself'}"
    return None


def check_file(root, path):
    room = room_of(path)
    if room is None or room not in {*ROOMS, "ebb", "python"}:
        yield f"{path}:1: not in a room; rooms of src/ are {', '.join(ROOMS)}"
        return
    text = (root / path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            quote, name = match.groups()
            rule = broken_rule(path, room, target_of(root, path, quote, name), name)
        elif match := BARE_INCLUDE.match(line):
            name, rule = match[1], "an include names its file, so that this check can read it"
        else:
            continue
        if rule:
            yield f"{path}:{number}: includes {name}: {rule}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    root = root.resolve()
    files = [
        path.relative_to(root)
        for folder in ("src", "include", "python")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in SUFFIXES
    ]
    problems = [problem for path in files for problem in check_file(root, path)]
    for problem in problems:
        print(problem)
    if not files:
        print(f"layers: no source files under {root}")
    elif not problems:
        print(f"layers: ok, {len(files)} files")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
