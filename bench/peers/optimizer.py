#!/usr/bin/env python3
"""Ebb's optimizer on the CPU beside PyTorch's fused AdamW and DeepSpeed's CPU Adam, in one run.

usage: optimizer.py --ebb build/release/ebb [--parameters N] [--threads N] [--rounds N]

The whole job is the same for all: bf16 gradients come in, are clipped by their
global norm, update fp32 masters and moments, and bf16 weights come out. The
others do it as their users do: widen the gradients to fp32, clip_grad_norm_, the
fused step, narrow the weights; each part is timed. Ebb sums squares in one pass
and does the rest in another, in each of its state formats (`ebb bench optimizer`).
All take turns, with as many threads and parameters; what counts are medians.
PyTorch may use huge pages, as Ebb does, unless THP_MEM_ALLOC_ENABLE is set to 0.
Needs torch, and 75 bytes of memory a parameter; DeepSpeed is timed where it is
installed, with 20 bytes more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

RATES = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
PARTS = ["widen", "clip", "step", "narrow"]


def timed(times, part, call):
    start = time.perf_counter()
    call()
    times[part].append(time.perf_counter() - start)


class Peer:
    """A torch optimizer of one flat parameter, with bf16 gradients and weights beside it."""

    def __init__(self, torch, make, count):
        self.torch = torch
        self.master = torch.nn.Parameter(fill(torch, torch.empty(count), 0.02))
        self.master.grad = torch.zeros(count)
        self.gradient = fill(torch, torch.empty(count, dtype=torch.bfloat16), 1e-3)
        self.weight = torch.zeros(count, dtype=torch.bfloat16)
        self.optimizer = make([self.master])
        self.times = {part: [] for part in PARTS}
        self.job()  # makes the moments and touches all memory
        self.times = {part: [] for part in PARTS}

    def job(self):
        clip = self.torch.nn.utils.clip_grad_norm_
        timed(self.times, "widen", lambda: self.master.grad.copy_(self.gradient))
        timed(self.times, "clip", lambda: clip([self.master], 1.0))
        timed(self.times, "step", self.optimizer.step)
        with self.torch.no_grad():
            timed(self.times, "narrow", lambda: self.weight.copy_(self.master))


def fill(torch, tensor, size):
    """Random values, the same ones again and again: making a billion would take a minute."""
    generator = torch.Generator().manual_seed(1)
    tile = torch.randn(1 << 20, generator=generator) * size
    for piece in tensor.split(len(tile)):
        piece.copy_(tile[: len(piece)])
    return tensor


def pytorch(torch):
    return lambda parameters: torch.optim.AdamW(parameters, fused=True, **RATES)


def deepspeed():
    """How to make DeepSpeed's, or None: its op is compiled on first use, which may fail, too."""
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        from deepspeed.ops.op_builder import CPUAdamBuilder

        CPUAdamBuilder().load()
    except Exception as error:  # whatever is wrong with the installation, the others go on
        print(f"DeepSpeed: left out ({type(error).__name__}: {str(error).splitlines()[0]})")
        return None
    return lambda parameters: DeepSpeedCPUAdam(parameters, adamw_mode=True, **RATES)


def run_ebb(options):
    """Nanoseconds a parameter of each format's update, and of the sums of squares."""
    command = [*options.ebb, "bench", "optimizer", "--json", "--rule", "adamw"]
    for flag in ("parameters", "threads", "seconds"):
        command += ["--" + flag, str(getattr(options, flag))]
    answer = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
    found = {row["format"]: row for row in answer["rows"]}
    found["norm"] = next(row for row in answer["gradients"] if row["pass"] == "square_sums")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ebb", nargs="+", required=True, help="the command: build/release/ebb, or bundle/run.sh ebb")
    parser.add_argument("--parameters", type=int, default=60_000_000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5, help="of all in turns")
    parser.add_argument("--passes", type=int, default=3, help="of each peer in a round")
    parser.add_argument("--seconds", type=float, default=1, help="of each of Ebb's rows in a round")
    options = parser.parse_args()
    if min(options.parameters, options.threads, options.rounds, options.passes) < 1:
        parser.error("--parameters, --threads, --rounds and --passes are 1 or more")

    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    sys.path.pop(0)  # this folder has files with packages' names
    import torch

    torch.set_num_threads(options.threads)
    makers = {f"PyTorch {torch.__version__}": pytorch(torch), "DeepSpeed": deepspeed()}
    peers = {n: Peer(torch, make, options.parameters) for n, make in makers.items() if make}
    ebb = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        ebb.append(run_ebb(options))
        for peer in peers.values():
            for _ in range(options.passes):
                peer.job()
    report(options, ebb, peers)


def report(options, ebb, peers):
    isa = ebb[0]["exact"]["isa"]
    print(
        f"{options.parameters} parameters, {options.threads} threads, {isa}; medians of "
        f"{options.rounds} rounds in turns; seconds for 1 B parameters"
    )

    def median_of(key, field="ns_per_parameter"):
        return statistics.median(answer[key][field] for answer in ebb)

    norm = median_of("norm")
    update = {}
    for name in ("exact", "bf16", "int8"):
        update[name] = median_of(name)
        share = median_of(name, "share_of_ceiling")
        print(
            f"Ebb {name:22} {update[name] + norm:7.4f}  = norm {norm:.4f} + update {update[name]:.4f}"
            f" ({share:.2f} of its ceiling)"
        )
    for name, peer in peers.items():
        parts = {p: statistics.median(peer.times[p]) / options.parameters * 1e9 for p in PARTS}
        whole = sum(parts.values())
        listed = " + ".join(f"{part} {seconds:.4f}" for part, seconds in parts.items())
        print(f"{name:26} {whole:7.4f}  = {listed}")
        unclipped = whole - parts["clip"]
        print(
            f"  Ebb exact is {whole / (update['exact'] + norm):.2f} times as fast; "
            f"with no clipping on either side {unclipped / update['exact']:.2f} times"
        )


if __name__ == "__main__":
    main()
