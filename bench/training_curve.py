#!/usr/bin/env python3
"""Draws speed over the limit of device memory, from what `ebb bench train --json` printed.

usage: training_curve.py RESULT.json PICTURE.svg

A line for every model, number of tokens and state format: the share of resident speed that is kept
where so much of the states has no room on the device, measured (dots and lines) and predicted (open
circles: predicted speed by measured resident speed). Rows with other limits, and those without a
resident row to be compared with, are left out. Needs nothing but Python.
"""

import json
import sys
from collections import defaultdict
from html import escape
from pathlib import Path

COLORS = ["#0f766e", "#c2410c", "#1d4ed8", "#6d28d9", "#1f2937"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 56, 24, 56, 52


def percent_without_room(limit):
    """0 for "resident", 90 for "-90%", nothing for other limits."""
    if limit == "resident":
        return 0.0
    return float(limit[1:-1]) if limit.startswith("-") and limit.endswith("%") else None


def lines_of(rows):
    """Points (percent, measured share, predicted share) by what a line is of, from the left."""
    lines = defaultdict(list)
    for row in rows:
        percent = percent_without_room(row["limit"])
        measured = row.get("share_of_resident")
        if percent is None or measured is None:
            continue
        model = row["model"].split(":")[-1].split("/")[-1]
        name = f"{model}, {row['tokens_per_step']:,} tokens, {row['state_format']}"
        lines[name].append((percent, measured, measured * row["predicted_over_measured"]))
    return {name: sorted(points) for name, points in lines.items() if len(points) > 1}


def picture(lines, title):
    shares = [share for points in lines.values() for point in points for share in point[1:]]
    bottom, top = min(0.5, min(shares)), max(1.05, max(shares))

    def x(percent):
        return LEFT + (WIDTH - LEFT - RIGHT) * percent / 100

    def y(share):
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - share) / (top - bottom)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for tenth in range(int(bottom * 10), int(top * 10) + 1):
        share = tenth / 10
        if share < bottom:
            continue
        svg.append(f'<path d="M{LEFT},{y(share):.1f} H{WIDTH - RIGHT}" stroke="#e5e7eb"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.1f}</text>')
    for percent in sorted({point[0] for points in lines.values() for point in points}):
        label = "resident" if percent == 0 else f"\u2212{percent:g}%"
        svg.append(f'<text x="{x(percent):.1f}" y="{HEIGHT - 32}" text-anchor="middle">{label}</text>')
    svg.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">device memory: what resident takes, less this share of the states</text>')
    for i, (name, points) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{'L' if k else 'M'}{x(p[0]):.1f},{y(p[1]):.1f}" for k, p in enumerate(points))
        svg.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for percent, measured, predicted in points:
            svg.append(f'<circle cx="{x(percent):.1f}" cy="{y(measured):.1f}" r="3.5" fill="{color}"/>')
            svg.append(f'<circle cx="{x(percent):.1f}" cy="{y(predicted):.1f}" r="5" fill="none" stroke="{color}"/>')
        svg.append(f'<path d="M{LEFT + 240 * i},38 h18" stroke="{color}" stroke-width="3"/>')
        svg.append(f'<text x="{LEFT + 240 * i + 24}" y="42">{escape(name)}</text>')
    return "\n".join(svg + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    result = json.loads(Path(sys.argv[1]).read_text())
    lines = lines_of(result["rows"])
    if not lines:
        sys.exit("no two rows of one model, batch and format with a resident one among them: try ebb bench train --curve --json")
    title = f"Share of resident speed, {result['device_name']}; circles are predictions"
    Path(sys.argv[2]).write_text(picture(lines, title), encoding="utf-8")


if __name__ == "__main__":
    main()
