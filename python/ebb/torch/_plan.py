"""What a model of PyTorch's would hold where, and how fast it would be."""

import contextlib
import dataclasses
import itertools
import math
import os
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from ebb._errors import OutOfBudget
from ebb._library import bytes_of

# Bytes of state a parameter: of bf16 weights, with the half of the master that they lack, and of
# fp32 ones, which are their own masters.
_STATE_BYTES = {"exact": (10, 8), "bf16": (6, 4), "int8": (4, 2)}
# What a link and the memory of a server do where nothing was measured; each is an argument.
_LINK_BYTES_PER_SECOND = 50e9
_HOST_PARAMETERS_PER_SECOND = 350e6  # that a core of the CPU updates


@dataclasses.dataclass(frozen=True)
class Choice:
    """One way to train."""

    states: str
    offload_fraction: float
    activations: int  # bytes that leave, 0: offload_activations() is not needed
    device_bytes: int
    host_bytes: int
    seconds: float  # of a step
    fits: bool

    def code(self):
        """What to write for it."""
        arguments = f'states="{self.states}"'
        if 0 < self.offload_fraction < 1:
            arguments += f", offload_fraction={self.offload_fraction:g}"
        lines = [f"optimizer = ebb.torch.AdamW(model.parameters(), {arguments}, clip=1.0)"]
        if self.activations:
            lines.append("offload = ebb.torch.offload_activations("
                         f'limit="{math.ceil(self.activations / 2**20)}MiB")')
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class TorchPlan:
    """The fastest way that fits, and the others. `print(plan)` shows all of it."""

    parameters: int
    weight_bytes: int
    gradient_bytes: int
    activation_bytes: int  # at the end of the forward pass
    flops: int  # of a step
    compute_seconds: float  # forward and backward alone
    device_memory: int | None
    host_memory: int | None
    choice: Choice
    choices: list  # by time, those that fit first

    def __str__(self):
        def mib(size):
            return f"{size / 2**20:,.0f}"

        lines = [
            f"{self.parameters / 1e6:,.1f} M parameters: weights {mib(self.weight_bytes)} MiB, "
            f"gradients {mib(self.gradient_bytes)}, activations {mib(self.activation_bytes)}; "
            f"{self.flops / 1e12:.3g} TFLOP a step, {self.compute_seconds:.3g} s",
            f"{'states':9}{'leaves':>8}{'activations':>13}{'device MiB':>12}{'host MiB':>10}"
            f"{'s a step':>10}"]
        for choice in self.choices:
            lines.append(
                f"{choice.states:9}{choice.offload_fraction:8.2f}{mib(choice.activations):>13}"
                f"{mib(choice.device_bytes):>12}{mib(choice.host_bytes):>10}"
                f"{choice.seconds:10.3g}{'' if choice.fits else '  does not fit'}")
        return "\n".join([*lines, self.choice.code()])


def plan(model, batch, *, device_memory=None, host_memory=None, loss=None, state_format="exact",
         link_bytes_per_second=None, flops_per_second=None, host_parameters_per_second=None):
    """What training `model` on batches like `batch` would hold, in every placement of AdamW's
    states, and which is the fastest within the limits (bytes, or "16GiB"; none: not looked at).

    `batch` is what the model takes: a tensor, a tuple or a dictionary. `loss(output)` makes a
    scalar of its output; unless given, output.loss, or the mean. The model is run once on tensors that
    have shapes and no memory, so it must not look at values. Speeds that are not given are measured
    (the device's products) or those of a server (link and CPU), so that times are no better than
    they. Memory for what operations need within themselves comes on top, and the allocator's.

        plan = ebb.torch.plan(model, {"input_ids": ids, "labels": ids}, device_memory="16GiB")
        print(plan)
    """
    device_limit, host_limit = bytes_of(device_memory), bytes_of(host_memory)
    learning = [p for p in model.parameters() if p.requires_grad]
    if not learning:
        raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
    activations, flops = _run(model, batch, loss)
    weights = sum(t.nbytes for t in itertools.chain(model.parameters(), model.buffers()))
    gradients = sum(p.nbytes for p in learning)
    device = learning[0].device
    dtype = learning[0].dtype
    flops_per_second = flops_per_second or _products_per_second(device, dtype)
    speeds = _Speeds(
        compute=flops / flops_per_second, link=link_bytes_per_second or _LINK_BYTES_PER_SECOND,
        cpu=(host_parameters_per_second
             or _HOST_PARAMETERS_PER_SECOND * len(os.sched_getaffinity(0))))
    sizes = _Sizes(weights + gradients, activations, sum(p.numel() for p in learning),
                   _STATE_BYTES[state_format][dtype == torch.float32])
    choices = []
    for states, fraction in [("resident", 0.0), *(("stream", f / 10) for f in range(1, 11)),
                             ("host", 1.0)]:
        for share in (0, 1):
            choices.append(
                _choice(sizes, speeds, states, fraction, share, device_limit, host_limit))
    choices = sorted(set(choices), key=lambda choice: (not choice.fits, choice.seconds,
                                                       choice.device_bytes))
    if not choices[0].fits:
        _refuse(choices, device_limit, host_limit)
    return TorchPlan(sizes.parameters, weights, gradients, activations, flops, speeds.compute,
                     device_limit, host_limit, choices[0], choices)


@dataclasses.dataclass(frozen=True)
class _Speeds:
    compute: float  # seconds
    link: float
    cpu: float


@dataclasses.dataclass(frozen=True)
class _Sizes:
    model: int  # weights and gradients
    activations: int
    parameters: int
    state: int  # bytes a parameter


def _choice(sizes, speeds, states, fraction, share, device_limit, host_limit):
    """`share` of the activations that must leave for the limit: none or as many as are missing."""
    away = round(sizes.parameters * fraction)
    chunk = min(max(sizes.parameters // 64, 16 << 10), 4 << 20)  # as the library cuts them
    window = 0 if fraction == 0 else min(4 * chunk, away) * (
        sizes.state if states == "stream" else 4)
    device = (sizes.model + sizes.activations + window
              + (sizes.parameters - away) * sizes.state)
    leaving = 0
    if share and device_limit is not None:
        leaving = min(max(0, device - device_limit), sizes.activations)
    host = away * (sizes.state + (2 if states == "host" else 0)) + leaving
    # Backward is about two thirds of the computing. States come up behind it and go home behind the
    # next forward pass; activations leave behind the forward pass and come back ahead of backward.
    forward, backward = speeds.compute / 3, speeds.compute * 2 / 3
    moved = away * sizes.state / speeds.link if states == "stream" else 0.0
    updated = away / speeds.cpu if states == "host" else 0.0
    seconds = (max(forward, moved + leaving / speeds.link, updated / 3)
               + max(backward, moved + leaving / speeds.link, updated * 2 / 3))
    fits = ((device_limit is None or device - leaving <= device_limit)
            and (host_limit is None or host <= host_limit))
    return Choice(states, fraction, leaving, device - leaving, host, seconds, fits)


def _refuse(choices, device_limit, host_limit):
    least = min(choices, key=lambda choice: choice.device_bytes)
    needs = [(tier, needed, limit) for tier, needed, limit in
             (("device", least.device_bytes, device_limit), ("host", least.host_bytes, host_limit))
             if limit is not None and needed > limit]
    needs = needs or [("host", min(choice.host_bytes for choice in choices if device_limit is None
                                   or choice.device_bytes <= device_limit), host_limit)]
    error = OutOfBudget("; ".join(
        f"the {tier} would hold {needed:,} bytes at least, its limit is {limit:,}"
        for tier, needed, limit in needs) + ": take a smaller batch, checkpoint layers "
        "(torch.utils.checkpoint), or give a larger limit")
    error.shortfalls = [{"tier": tier, "needed": needed, "limit": limit, "missing": needed - limit}
                        for tier, needed, limit in needs]
    error.remedies = ["a smaller batch", "torch.utils.checkpoint", "a larger limit"]
    raise error


def _run(model, batch, loss):
    """(bytes that autograd keeps at the end of the forward pass, FLOP of both passes), without
    memory or computing."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = {}

        def fake(value):
            if isinstance(value, torch.Tensor):
                if id(value) not in fakes:  # tied ones stay one
                    made = mode.from_tensor(value.detach()).requires_grad_(value.requires_grad)
                    fakes[id(value)] = made
                return fakes[id(value)]
            if isinstance(value, dict):
                return {key: fake(one) for key, one in value.items()}
            return type(value)(map(fake, value)) if isinstance(value, (list, tuple)) else value

        own = {name: fake(tensor) for name, tensor in itertools.chain(
            model.named_parameters(remove_duplicate=False),
            model.named_buffers(remove_duplicate=False))}
        batch = fake(batch)
        stay = {tensor.untyped_storage()._cdata for tensor in fakes.values()}
        saved = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage._cdata not in stay:
                saved[storage._cdata] = storage  # kept, so that its key is its own
            return tensor.detach() if tensor.grad_fn is not None else tensor

        arguments = () if isinstance(batch, dict) else (
            tuple(batch) if isinstance(batch, (list, tuple)) else (batch,))
        named = batch if isinstance(batch, dict) else {}
        with FlopCounterMode(display=False) as counter, contextlib.ExitStack() as hooks:
            hooks.enter_context(
                torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed))
            output = torch.func.functional_call(model, own, arguments, named)
            if loss is not None:
                output = loss(output)
            elif getattr(output, "loss", None) is not None:
                output = output.loss
            elif isinstance(output, torch.Tensor):
                output = output.float().mean()
            else:
                raise ValueError(f"the model gives a {type(output).__name__} without a loss: give "
                                 "loss=, a function that makes a scalar of it")
            hooks.close()
            kept = sum(storage.nbytes() for storage in saved.values())
            saved.clear()
            output.backward()
        return kept, counter.get_total_flops()


def _products_per_second(device, dtype):
    """FLOP a second of matrix products on the device, measured for some milliseconds."""
    size = 4096 if device.type == "cuda" else 512
    a = torch.ones(size, size, device=device, dtype=dtype)
    best = math.inf
    for _ in range(3):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
