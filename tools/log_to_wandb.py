#!/usr/bin/env python3
"""usage: log_to_wandb.py RUN [--project NAME] [--name NAME] [--follow]

Sends a run of Ebb to Weights & Biases: the folder's log.jsonl as its history, and what plan.json says
of model, machine and settings as its configuration. Needs `pip install wandb` and `wandb login`, or
WANDB_MODE=offline, which keeps everything in the folder wandb/ until `wandb sync`.

With --follow it goes on while the run does, until it has ended. Sent twice, a run is the same one
there: its identity is made of its folder's path and of when it started.
"""

import argparse
import hashlib
import json
import math
import pathlib
import sys
import time


def lines_of(path, follow, is_running, pause=2.0):
    """The log's lines as objects; with `follow` until the run has ended and all was read."""
    text = b""
    with open(path, "rb") as log:
        while True:
            last = not follow or not is_running()
            text += log.read()
            *whole, text = text.split(b"\n")
            for line in whole:
                try:
                    yield json.loads(line)
                except ValueError:
                    print(f"{path}: passed over a line that is no JSON", file=sys.stderr)
            if last:
                return
            time.sleep(pause)


def figures_of(line):
    """The numbers of a line by the names that charts have; none that is not finite."""
    figures = {}
    for key, value in line.items():
        if key == "memory":
            figures.update({f"memory/{tier}": used for tier, used in value.items()})
        elif key.startswith("validation_"):
            figures["validation/" + key.removeprefix("validation_")] = value
        elif key != "step":
            figures["train/" + key] = value
    return {
        key: value
        for key, value in figures.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def send(run, lines):
    """A step and its validation are one row there: steps must go up."""
    step, row = None, {}
    for line in lines:
        if line["step"] != step and row:
            run.log(row, step=step)
            row = {}
        step = line["step"]
        row.update(figures_of(line))
    if row:
        run.log(row, step=step)


def plan_of(folder):
    path = folder / "plan.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def main():
    about = argparse.ArgumentParser(description="Send a run of Ebb to Weights & Biases.")
    about.add_argument("run", type=pathlib.Path, help="the folder that 'ebb train --out' made")
    about.add_argument("--project", default="ebb")
    about.add_argument("--name", help="of the run; without it the folder's")
    about.add_argument("--follow", action="store_true", help="go on until the run has ended")
    options = about.parse_args()
    folder = options.run
    if not (folder / "log.jsonl").is_file():
        sys.exit(f"{folder}: this is no run: expected a folder with log.jsonl")
    try:
        import wandb
    except ImportError:
        sys.exit("wandb is not installed: pip install wandb")
    plan = plan_of(folder)
    wanted = ("model", "data", "parameters", "steps", "tokens_per_step", "machine", "device",
              "threads", "flags", "ebb", "settings")
    identity = f"{folder.resolve()}\n{plan.get('started', '')}"
    run = wandb.init(
        project=options.project,
        name=options.name or folder.resolve().name,
        id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        resume="allow",
        config={key: plan[key] for key in wanted if key in plan},
    )
    # The lock goes when the run ends well; one that was killed leaves it behind: then Ctrl-C.
    lock = folder / "ebb.lock"
    send(run, lines_of(folder / "log.jsonl", options.follow, lock.is_file))
    run.finish()


if __name__ == "__main__":
    main()
