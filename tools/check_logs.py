#!/usr/bin/env python3
"""usage: check_logs.py RUN

Compares what a run's log.csv and event files give to their readers, pandas' and TensorBoard's, with
its log.jsonl. Exits 1 where a number differs. tools/check_log_readers.sh makes such a run.
"""

import json
import math
import pathlib
import struct
import sys

import pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def single(value):
    """As events have numbers: in 32 bits."""
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(folder):
    """{(name in the log, step): value} of every number, and the rows of the log."""
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    values = {}
    for row in rows:
        for key, value in row.items():
            if key == "memory":
                values.update({(f"{tier}_bytes", row["step"]): used for tier, used in value.items()})
            elif key not in ("step", "validation_tokens"):
                values[key, row["step"]] = value
    return values, rows


def check_csv(folder, values, rows):
    table = pandas.read_csv(folder / "log.csv")
    assert list(table["step"]) == [row["step"] for row in rows], "steps of log.csv"
    found = 0
    for (key, step), value in values.items():
        column = table[table["step"] == step][key].dropna()
        assert list(column) == [value], f"log.csv: {key} of step {step}: {list(column)}, not {value}"
        found += 1
    assert table.drop(columns=["step", "validation_tokens"]).count().sum() == found, "more cells"
    print(f"csv: pandas {pandas.__version__} read {found} numbers of {len(table)} rows")


def check_events(folder, values):
    accumulator = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    read = {}
    for tag in accumulator.Tags()["scalars"]:
        group, name = tag.split("/")
        key = {"memory": f"{name}_bytes", "validation": f"validation_{name}"}.get(group, name)
        for scalar in accumulator.Scalars(tag):
            assert (key, scalar.step) not in read, f"{tag} twice at step {scalar.step}"
            assert math.isfinite(scalar.wall_time) and scalar.wall_time > 1.6e9, "wall time"
            read[key, scalar.step] = scalar.value
    assert read == {at: single(value) for at, value in values.items()}, "events differ from the log"
    print(f"events: TensorBoard read {len(read)} scalars of {len(accumulator.Tags()['scalars'])} tags")


def main():
    folder = pathlib.Path(sys.argv[1])
    values, rows = expected(folder)
    check_csv(folder, values, rows)
    check_events(folder, values)


if __name__ == "__main__":
    main()
