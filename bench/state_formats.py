#!/usr/bin/env python3
"""What compact optimizer states cost in quality: the same training in every format.

usage: state_formats.py --ebb build/release/ebb [--data FILE...] [--model preset:small]
           [--steps 1000] [--seeds 1 2 3] [--svg FILE] [--json FILE] [-- more flags of ebb train]

Trains the model once a format and seed (seeds set the initial weights, the order of the data and
the rounding), validates it every twentieth of the way on data it is not trained on, and prints the
final validation losses, each as a difference from that of exact with the same seed. Two runs that
differ in the last bit of anything drift apart, so a control says how far chance alone takes them.
The picture has the validation curves above and the differences below. Without --data it trains on the source
files of Python's own library, as bytes. Needs nothing but Python.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

# A control: exact again, its weight decay a hair different. How far it ends from exact is chance.
VARIANTS = {
    "exact": ["--state-format", "exact", "--weight-decay", "0.1"],
    "control": ["--state-format", "exact", "--weight-decay", "0.100001"],
    "bf16": ["--state-format", "bf16", "--weight-decay", "0.1"],
    "int8": ["--state-format", "int8", "--weight-decay", "0.1"],
}
COLORS = {"exact": "#1f2937", "control": "#9ca3af", "bf16": "#0f766e", "int8": "#c2410c"}


def library_text(folder):
    """All of Python's library in one file, in the order of its paths."""
    to = folder / "library.txt"
    root = Path(sysconfig.get_paths()["stdlib"])
    with open(to, "w", encoding="utf-8") as file:
        for path in sorted(root.rglob("*.py")):
            if "-packages" in str(path.relative_to(root)):
                continue
            try:
                file.write(path.read_text(encoding="utf-8"))
            except (UnicodeDecodeError, OSError):
                continue
            file.write("\n")
    return to


def train(arguments, data, variant, seed, out):
    command = [arguments.ebb, "train", "--model", arguments.model, "--data", *map(str, data)]
    command += ["--out", str(out), "--steps", str(arguments.steps), "--seed", str(seed)]
    command += [*VARIANTS[variant], "--keep", "0"]
    command += ["--eval-share", "0.05", "--eval-every", str(max(1, arguments.steps // 20))]
    command += ["--tokenizer", "bytes", *arguments.more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    curve = []
    for line in (out / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "validation_loss" in entry:
            curve.append((entry["step"], entry["validation_loss"]))
    return curve


def path_of(points, x, y):
    return "M" + " L".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)


def axis(lowest, highest, ticks):
    return [lowest + (highest - lowest) * i / ticks for i in range(ticks + 1)]


def picture(curves, model, steps):
    """Two panels of SVG: validation loss, and how far compact formats are from exact."""
    width, left, right = 720, 64, 16
    upper, lower, gap, top = 240, 150, 56, 44
    first = min(step for curve in curves.values() for step, _ in curve)
    losses = [loss for curve in curves.values() for _, loss in curve]
    low, high = min(losses) * 0.98, max(losses) * 1.02
    apart = {
        key: [(step, 100 * (loss / base - 1)) for (step, loss), (_, base) in zip(curve, curves[("exact", key[1])])]
        for key, curve in curves.items()
        if key[0] != "exact"
    }
    most = max(0.6, max(abs(d) for curve in apart.values() for _, d in curve) * 1.1)

    def x(step):
        return left + (width - left - right) * (step - first) / max(1, steps - first)

    def y_loss(loss):
        return top + upper * (high - loss) / (high - low)

    def y_apart(percent):
        return top + upper + gap + lower * (most - percent) / (2 * most)

    height = top + upper + gap + lower + 40
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">Validation loss, {model}, {len(curves) // len(VARIANTS)} seeds a format</text>',
    ]
    for value in axis(low, high, 4):
        svg.append(f'<path d="M{left},{y_loss(value):.1f} H{width - right}" stroke="#e5e7eb"/>')
        svg.append(f'<text x="{left - 8}" y="{y_loss(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for value in axis(-most, most, 4):
        svg.append(f'<path d="M{left},{y_apart(value):.1f} H{width - right}" stroke="#e5e7eb"/>')
        svg.append(f'<text x="{left - 8}" y="{y_apart(value) + 4:.1f}" text-anchor="end">{value:+.2f}%</text>')
    svg.append(f'<text x="{left}" y="{top + upper + gap - 10}">from exact with the same seed</text>')
    for value in axis(first, steps, 4):
        svg.append(f'<text x="{x(value):.1f}" y="{height - 14}" text-anchor="middle">{value:.0f}</text>')
    svg.append(f'<text x="{width - right}" y="{height - 1}" text-anchor="end">step</text>')
    for (format, _), curve in curves.items():
        svg.append(f'<path d="{path_of(curve, x, y_loss)}" fill="none" stroke="{COLORS[format]}" stroke-opacity="0.7"/>')
    for (format, _), curve in apart.items():
        svg.append(f'<path d="{path_of(curve, x, y_apart)}" fill="none" stroke="{COLORS[format]}"/>')
    for i, format in enumerate(VARIANTS):
        at = width - right - 290 + 74 * i
        svg.append(f'<path d="M{at},16 h18" stroke="{COLORS[format]}" stroke-width="3"/><text x="{at + 22}" y="20">{format}</text>')
    return "\n".join(svg + ["</svg>", ""])


def main():
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", required=True)
    parser.add_argument("--data", nargs="+", type=Path)
    parser.add_argument("--model", default="preset:small")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(own)
    arguments.more = more
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = arguments.data or [library_text(folder)]
        size = sum(path.stat().st_size for path in data)
        print(f"{arguments.model}, {arguments.steps} steps, {size / 1e6:.1f} MB of text; {' '.join(more)}", flush=True)
        curves = {}
        for seed in arguments.seeds:
            for format in VARIANTS:
                curve = train(arguments, data, format, seed, folder / f"{format}-{seed}")
                curves[(format, seed)] = curve
                base = curves[("exact", seed)][-1][1]
                loss = curve[-1][1]
                print(f"seed {seed}  {format:<7} {loss:.5f}  {100 * (loss / base - 1):+.3f}%", flush=True)
    for format in list(VARIANTS)[1:]:
        ratios = [curves[(format, s)][-1][1] / curves[("exact", s)][-1][1] - 1 for s in arguments.seeds]
        print(f"{format:<7} mean {100 * sum(ratios) / len(ratios):+.3f}%, worst {100 * max(ratios, key=abs):+.3f}%")
    if arguments.json:
        rows = [{"format": f, "seed": s, "curve": curve} for (f, s), curve in curves.items()]
        arguments.json.write_text(json.dumps({"model": arguments.model, "steps": arguments.steps, "runs": rows}))
    if arguments.svg:
        arguments.svg.write_text(picture(curves, arguments.model.removeprefix("preset:"), arguments.steps))


if __name__ == "__main__":
    main()
