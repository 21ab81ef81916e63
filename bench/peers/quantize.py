#!/usr/bin/env python3
"""Two GGUF files made of the same weights, tensor by tensor: types and errors.

usage: quantize.py --ours OURS.gguf --theirs THEIRS.gguf --wide WIDE.gguf

WIDE is the model in F32 (`ebb quantize --type f32`), OURS what `ebb quantize`
makes of the same folder, THEIRS what llama.cpp's llama-quantize makes of WIDE.
For each type of tensors: how many, and the largest ratio of the two root mean
square errors. Fails where a tensor's types differ or a ratio is above 1.02.
Needs the Python package gguf.
"""

import argparse
import math
import sys

sys.path.pop(0)  # so that no file beside this one is taken for a package

import numpy
from gguf import GGUFReader
from gguf.quants import dequantize


def read(path):
    return {tensor.name: tensor for tensor in GGUFReader(path).tensors}


def error(tensor, wide):
    values = dequantize(tensor.data, tensor.tensor_type).reshape(-1)
    return math.sqrt(numpy.mean((values.astype(numpy.float64) - wide) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("ours", "theirs", "wide"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    ours, theirs, wide = (read(getattr(arguments, n)) for n in ("ours", "theirs", "wide"))
    if ours.keys() != theirs.keys():
        sys.exit(f"tensors differ: {sorted(ours.keys() ^ theirs.keys())}")
    worst = {}
    failed = False
    for name, tensor in sorted(ours.items()):
        mine, other = tensor.tensor_type.name, theirs[name].tensor_type.name
        if mine != other:
            print(f"{name}: {mine}, theirs is {other}")
            failed = True
            continue
        values = numpy.array(wide[name].data, dtype=numpy.float64).reshape(-1)
        a, b = error(tensor, values), error(theirs[name], values)
        ratio = a / b if b > 0 else (1.0 if a == 0 else math.inf)
        count, largest, _ = worst.get(mine, (0, -1.0, ""))
        worst[mine] = (count + 1, *max((largest, _), (ratio, name)))
        failed = failed or ratio > 1.02
    for kind, (count, ratio, name) in sorted(worst.items()):
        print(f"{kind}: {count} tensors, largest ratio {ratio:.4f} ({name})")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
