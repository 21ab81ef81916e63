#!/usr/bin/env python3
"""Drives the optimizer library from PyTorch by pointers and compares it with torch.optim.AdamW.

usage: gpu_hybrid.py [LIBRARY] [--device cuda|cpu] [--parameters N] [--steps N]

LIBRARY is libebb_hybrid.so, by default the one beside this script (in a bundle: run.sh
gpu_hybrid.py); PyTorch must be there. bf16 weights and gradients of several tensors
are PyTorch's; every placement of the states makes the same steps with clipping. All placements of a
format must end with the same bits, and the masters of `exact` must be those of AdamW on fp32
masters, fed the same gradients, up to rounding. Exits with 1 where that does not hold.

Seconds a step are of the optimizer alone, from the first gradient that is ready to the last weight,
with nothing to hide it behind.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import sys
import time

import torch

RATE, CLIP = 1e-3, 1.0
RULE = dict(rule="adamw", beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1)
# By how much of a learning rate a master may differ from AdamW's: both round every step to fp32, in
# another order of operations.
BOUND = 1e-3

PLACEMENTS = {
    "resident": dict(states="resident"),
    "stream": dict(states="stream"),
    "host": dict(states="host"),
    "half stream": dict(states="stream", offload_fraction=0.5),
    "stream + host": dict(states="stream", host_fraction=0.3),
}
RUNS = [(placement, "exact") for placement in PLACEMENTS] + [
    (placement, fmt) for fmt in ("bf16", "int8") for placement in ("resident", "stream", "host")
]


VERSION = 1  # of ebb/hybrid_optimizer_c.h


class Sized(ctypes.Structure):
    """Starts with its size, which the library checks."""

    _fields_ = [("struct_size", ctypes.c_size_t)]

    def __init__(self, *fields):
        super().__init__(ctypes.sizeof(type(self)), *fields)


class Parameter(Sized):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("weight", ctypes.c_void_p),
        ("gradient", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("weight_type", ctypes.c_int32),
        ("gradient_type", ctypes.c_int32),
        ("decays", ctypes.c_int32),
    ]


class Report(Sized):
    _fields_ = [
        ("step", ctypes.c_int64),
        ("norm", ctypes.c_double),
        ("clip_factor", ctypes.c_double),
        ("first_bad", ctypes.c_int64),
        ("applied", ctypes.c_int32),
    ]


class Placement(Sized):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("device_bytes", "host_bytes", "resident", "streamed", "host")
    ]


class Optimizer:
    """ebb/hybrid_optimizer_c.h, as far as it is needed here."""

    def __init__(self, library, settings, tensors):
        self.library = library
        if library.ebb_hybrid_version() != VERSION:
            raise RuntimeError(f"the library is of version {library.ebb_hybrid_version()}, "
                               f"expected {VERSION}")
        library.ebb_hybrid_error.restype = ctypes.c_char_p
        library.ebb_hybrid_create.restype = ctypes.c_void_p
        array = (Parameter * len(tensors))(
            *(Parameter(t.name.encode(), t.weight.data_ptr(), t.gradient.data_ptr(),
                        t.weight.numel(), 0, 0, t.decays) for t in tensors))
        self.handle = library.ebb_hybrid_create(json.dumps(settings).encode(), array,
                                                ctypes.c_int64(len(tensors)), stream())
        if not self.handle:
            raise RuntimeError(library.ebb_hybrid_error().decode())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.library.ebb_hybrid_destroy(ctypes.c_void_p(self.handle))

    def call(self, name, *arguments):
        function = getattr(self.library, "ebb_hybrid_" + name)
        if function(ctypes.c_void_p(self.handle), *arguments) != 0:
            raise RuntimeError(self.library.ebb_hybrid_error().decode())

    def gradient_ready(self, index):
        self.call("gradient_ready", ctypes.c_int64(index), stream())

    def wait_for_weight(self, index):
        self.call("wait_for_weight", ctypes.c_int64(index), stream())

    def step(self):
        report = Report()
        self.call("step", ctypes.c_double(RATE), ctypes.c_double(CLIP), stream(),
                  ctypes.byref(report))
        if not report.applied:
            raise RuntimeError(f"the norm is {report.norm}")
        return report

    def master(self, index, count):
        master = torch.empty(count, dtype=torch.float32)
        self.call("read_master", ctypes.c_int64(index), ctypes.c_void_p(master.data_ptr()),
                  ctypes.c_int64(count))
        return master

    def digests(self):
        weights, moments = ctypes.create_string_buffer(33), ctypes.create_string_buffer(33)
        self.call("digests", weights, moments)
        return weights.value.decode(), moments.value.decode()

    def placement(self):
        placement = Placement()
        self.call("placement_of", ctypes.byref(placement))
        return placement

    def traffic(self):
        up, down = ctypes.c_int64(), ctypes.c_int64()
        self.call("traffic", ctypes.byref(up), ctypes.byref(down))
        return up.value, down.value


class Tensor:
    def __init__(self, name, count, decays, device, seed):
        self.name, self.decays = name, decays
        self.generator = torch.Generator(device).manual_seed(seed)
        self.seed = seed
        self.start = (torch.randn(count, device=device, generator=self.generator) * 0.02).bfloat16()
        self.weight = self.start.clone()
        self.gradient = torch.empty_like(self.weight)

    def make_gradient(self, step):
        self.generator.manual_seed(self.seed + 1_000_000 * step)
        self.gradient.normal_(0.0, 1e-3, generator=self.generator)


def stream():
    """PyTorch's current one."""
    handle = torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else 0
    return ctypes.c_void_p(handle)


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_tensors(parameters, device):
    """An embedding, matrices of several sizes and small tensors that do not decay."""
    shares = [0.3] + [0.1, 0.05, 0.05, 0.02, 0.01] * 3
    tensors = []
    for i, share in enumerate(shares):
        tensors.append(Tensor(f"matrix.{i}", max(1, int(share * parameters)), 1, device, 2 * i))
        tensors.append(Tensor(f"norm.{i}", 4096 + i, 0, device, 2 * i + 1))
    return tensors


def run(library, tensors, settings, steps):
    """The report of the last step, what it cost, and what the optimizer is afterwards."""
    for t in tensors:
        t.weight.copy_(t.start)
    with Optimizer(library, settings, tensors) as optimizer:
        seconds, reports = [], []
        for step in range(1, steps + 1):
            for index in range(len(tensors)):
                optimizer.wait_for_weight(index)
            if step % 2 == 0:  # timed: the gradients are there
                for t in tensors:
                    t.make_gradient(step)
                synchronize()
                start = time.perf_counter()
                for index in reversed(range(len(tensors))):
                    optimizer.gradient_ready(index)
            else:  # not timed: only the stream's order makes them right
                for index in reversed(range(len(tensors))):
                    tensors[index].make_gradient(step)
                    optimizer.gradient_ready(index)
            reports.append(optimizer.step())
            if step % 2 == 0:
                optimizer.call("wait")
                seconds.append(time.perf_counter() - start)
        digests = optimizer.digests()
        up, down = optimizer.traffic()
        parameters = sum(t.weight.numel() for t in tensors)
        placement = optimizer.placement()
        masters = [optimizer.master(i, t.weight.numel()) for i, t in enumerate(tensors)]
    return dict(digests=digests, reports=reports, masters=masters,
                device=placement.device_bytes / 2**30, host=placement.host_bytes / 2**30,
                up=up / steps / parameters, down=down / steps / parameters,
                seconds=statistics.median(seconds))


def torch_run(tensors, steps):
    """AdamW on fp32 masters; its gradients are the same bf16 ones, clipped in fp32."""
    masters = [t.start.float().requires_grad_() for t in tensors]
    groups = [dict(params=[m for m, t in zip(masters, tensors) if t.decays == decays],
                   weight_decay=RULE["weight_decay"] * decays) for decays in (0, 1)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(RULE["beta1"], RULE["beta2"]),
                                  eps=RULE["epsilon"])
    seconds, norms = [], []
    for step in range(1, steps + 1):
        for t in tensors:
            t.make_gradient(step)
        norm = sum(float(t.gradient.double().square().sum()) for t in tensors) ** 0.5
        factor = torch.tensor(min(1.0, CLIP / (norm + 1e-6)), dtype=torch.float32)
        for m, t in zip(masters, tensors):
            m.grad = t.gradient.float() * factor.to(m.device)
        synchronize()
        start = time.perf_counter()
        optimizer.step()
        synchronize()
        seconds.append(time.perf_counter() - start)
        norms.append(norm)
    return [m.detach().cpu() for m in masters], norms, statistics.median(seconds)


def distance(found, expected):
    """Largest and root-mean-square difference in learning rates, and the share within 4 ulps."""
    largest, squares, near, count = 0.0, 0.0, 0, 0
    for f, e in zip(found, expected):
        difference = (f.double() - e.double()).abs() / RATE
        largest = max(largest, float(difference.max()))
        squares += float(difference.square().sum())
        ulps = (f.view(torch.int32).long() - e.view(torch.int32).long()).abs()
        near += int((ulps <= 4).sum())
        count += f.numel()
    return largest, (squares / count) ** 0.5, near / count


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("library", nargs="?",
                           default=str(pathlib.Path(__file__).with_name("libebb_hybrid.so")))
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments.add_argument("--parameters", type=int, default=400_000_000)
    arguments.add_argument("--steps", type=int, default=20)
    options = arguments.parse_args()
    library = ctypes.CDLL(options.library)
    tensors = make_tensors(options.parameters, options.device)
    count = sum(t.weight.numel() for t in tensors)
    print(f"{count:,} parameters in {len(tensors)} tensors on {options.device}, {options.steps} "
          f"steps, torch {torch.__version__}", flush=True)

    expected, norms, seconds = torch_run(tensors, options.steps)
    print(f"torch.optim.AdamW on fp32 masters: {seconds:.4f} s a step, without norm, clipping and "
          "bf16 weights")
    print(f"{'placement':14} {'format':6} {'s a step':>9} {'device':>9} {'host':>9} {'up':>6} "
          f"{'down':>6}  {'from AdamW, in learning rates: most, rms':>40}  {'within 4 ulps':>13}")
    failures, digests = [], {}
    for placement, fmt in RUNS:
        settings = dict(RULE, device=options.device, state_format=fmt, seed=1,
                        **PLACEMENTS[placement])
        result = run(library, tensors, settings, options.steps)
        most, rms, near = distance(result["masters"], expected)
        print(f"{placement:14} {fmt:6} {result['seconds']:9.4f} {result['device']:5.2f} GiB "
              f"{result['host']:5.2f} GiB {result['up']:4.1f} B {result['down']:4.1f} B  "
              f"{most:28.2e}, {rms:10.2e}  {near:13.4%}", flush=True)
        for step, (report, norm) in enumerate(zip(result["reports"], norms), 1):
            if abs(report.norm - norm) > 1e-9 * norm:
                failures.append(f"{placement}: norm {report.norm} at step {step}, torch {norm}")
        if result["reports"][0].clip_factor >= 1:
            failures.append(f"{placement}: nothing was clipped")
        if fmt == "exact" and most > BOUND:
            failures.append(f"{placement}: a master is {most} learning rates from AdamW's")
        if digests.setdefault(fmt, result["digests"]) != result["digests"]:
            failures.append(f"{placement}: other bits than resident in {fmt}")
    for fmt, (weights, moments) in digests.items():
        print(f"digests of {fmt}: masters {weights}, moments {moments}")
    for failure in failures:
        print("FAILED:", failure)
    print("every placement of a format gave the same bits" if not failures else "not all is well")
    return 1 if failures else 0


if __name__ == "__main__":
    if torch.cuda.is_available():
        with torch.cuda.stream(torch.cuda.Stream()):
            sys.exit(main())
    sys.exit(main())
