#!/usr/bin/env python3
"""Makes tests/golden/gguf/blocks.gguf: random blocks of every type that Ebb widens, and beside
each tensor NAME what the gguf package makes of it, as F32 NAME.wide. README.md in this folder says
how it is used.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

SEED = 20261118
ROWS, COLS = 3, 512

# Where the half precision numbers of a block are.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.F16: [0],
}


def random_blocks(rng, kind):
    per, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS * COLS // per, size), dtype=np.uint8)
    for at in HALVES.get(kind, []):
        # Any finite number: exponents below 31, subnormals among them.
        halves = rng.integers(0, 1 << 16, len(blocks), dtype=np.uint16)
        halves = np.where(halves & 0x7C00 == 0x7C00, halves & 0x83FF, halves).astype("<u2")
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(-1, 2)
    if kind == Type.BF16:
        blocks[:, 1] &= 0xBF  # below 2, so no infinities
    return blocks.reshape(ROWS, -1)


def main():
    parser = argparse.ArgumentParser()
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=Path, default=root / "tests/golden/gguf")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(out / "blocks.gguf", "blocks")
    writer.add_uint32("blocks.seed", SEED)
    for kind in [*HALVES, Type.BF16]:
        raw = random_blocks(rng, kind)
        if kind == Type.F16:
            wide = raw.view("<f2").astype(np.float32)
        else:
            wide = gguf.quants.dequantize(raw, kind).astype(np.float32)
        assert wide.shape == (ROWS, COLS) and np.isfinite(wide).all(), kind
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        writer.add_tensor(kind.name + ".wide", wide)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
