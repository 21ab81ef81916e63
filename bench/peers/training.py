#!/usr/bin/env python3
"""How fast PyTorch trains the shapes of `ebb bench train`, on the same machine.

usage: training.py --model qwen2.5-3b [--mode resident|offload] [--recipe bf16|autocast] [--json]

transformers' Qwen2 with random weights, on made-up tokens that are the same at every step; decoder
layers and loss are compiled, attention is cuDNN's (or --attention flash). AdamW is fused and has
fp32 masters and moments; gradients are clipped at a global norm of 1.

--recipe bf16      computes with bf16 copies of the masters; gradients, also their sums, are bf16
--recipe autocast  has fp32 weights and gradients under torch.autocast; resident alone
--mode resident    everything is on the GPU
--mode offload     ZeRO-Offload's way: masters and moments are the CPU's. Gradients go down during
                   the step's last backward, weights come up while later ones are updated

The backward of head and loss follows slice by slice, so the logits of a micro-batch are never there
at once and none are made twice. A step lasts from the end of the one before to its own; the median
counts. Needs torch and transformers; offload also 14 bytes of host memory a parameter, some more
where pinned pieces are rounded up. Without a GPU it runs on the CPU: `--model tiny` shows that it
works there.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.pop(0)  # this folder has files with packages' names
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM, Qwen2Config

SHAPE = "hidden_size num_hidden_layers num_attention_heads num_key_value_heads".split()
SHAPE += "intermediate_size vocab_size tie_word_embeddings".split()
MODELS = {  # as Ebb's presets have them
    "tiny": [64, 2, 4, 2, 160, 512, True],
    "qwen2.5-1.5b": [1536, 28, 12, 2, 8960, 151936, True],
    "qwen2.5-3b": [2048, 36, 16, 2, 11008, 151936, True],
    "qwen2.5-7b": [3584, 28, 28, 4, 18944, 152064, False],
}
RATES = {"lr": 1e-5, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0
ATTENTION = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def make_model(name, recipe):
    rope = {"rope_type": "default", "rope_theta": 1e6}
    config = Qwen2Config(**dict(zip(SHAPE, MODELS[name])), rope_parameters=rope, use_cache=False)
    dtype = torch.bfloat16 if recipe == "bf16" else torch.float32
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    # All layers share what is compiled for the first; the whole model would take minutes.
    for part in [*model.model.layers, model.model.norm]:
        part.compile()
    return model.train()


def attention(config, sequence):
    """What PyTorch takes for these shapes."""
    dim = config.hidden_size // config.num_attention_heads
    heads = [config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads]
    inputs = [torch.empty(1, h, sequence, dim, dtype=torch.bfloat16, device=DEVICE) for h in heads]
    return SDPBackend(torch._fused_sdp_choice(*inputs, is_causal=True, enable_gqa=True)).name


class Resident:
    """Masters and moments on the GPU; fp32 weights are their own masters."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]  # of fp32: no copy
        self.optimizer = torch.optim.AdamW(self.masters, fused=True, **RATES)

    def update(self):
        for master, weight in zip(self.masters, self.weights):
            master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(self.masters, CLIP, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for master, weight in zip(self.masters, self.weights):
            if weight.dtype != master.dtype:
                weight.detach().copy_(master)

    def agree(self):
        return all(torch.equal(w, m.to(w.dtype)) for w, m in zip(self.weights, self.masters))


class Part:
    """A decoder layer's parameters, or all the others: one flat master, which the CPU updates."""

    def __init__(self, weights):
        self.weights = weights
        self.sizes = [weight.numel() for weight in weights]
        # Gradients on their way down, then weights on their way up.
        self.staged = torch.empty(sum(self.sizes), dtype=torch.bfloat16, pin_memory=GPU)
        self.pieces = [p.view_as(w) for p, w in zip(self.staged.split(self.sizes), weights)]
        for piece, weight in zip(self.pieces, weights):
            piece.copy_(weight.detach())
        self.master = self.staged.float()
        self.optimizer = torch.optim.AdamW([self.master], fused=True, **RATES)

    def update(self, widened, divisor):
        self.master.grad = widened[: len(self.master)].copy_(self.staged)
        self.optimizer.grad_scale = divisor  # the fused step divides by it, as for a GradScaler
        self.optimizer.step()
        self.staged.copy_(self.master)
        for weight, piece in zip(self.weights, self.pieces):
            weight.detach().copy_(piece, non_blocking=True)

    def agree(self):
        rounded = self.master.bfloat16().split(self.sizes)
        return all(torch.equal(w.cpu().flatten(), r) for w, r in zip(self.weights, rounded))


class Offload:
    """Masters and moments on the CPU; copies have a stream of their own."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        layers = [list(layer.parameters()) for layer in model.model.layers]
        inner = {weight for layer in layers for weight in layer}
        others = [weight for weight in self.weights if weight not in inner]
        self.parts = [Part(weights) for weights in [*layers, others]]
        self.widened = torch.empty(max(len(part.master) for part in self.parts))
        self.stream = torch.cuda.Stream() if GPU else None
        self.last = False  # micro-batch of the step
        for part in self.parts[:-1]:
            for pair in zip(part.weights, part.pieces):
                pair[0].register_post_accumulate_grad_hook(lambda _, p=pair: self.download(*p))

    def download(self, weight, piece):
        if not self.last:
            return
        if GPU:
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            piece.copy_(weight.grad, non_blocking=True)

    def update(self):
        for pair in zip(self.parts[-1].weights, self.parts[-1].pieces):
            self.download(*pair)  # embeddings gather gradients to the very end
        norms = [torch.linalg.vector_norm(w.grad, dtype=torch.float32) for w in self.weights]
        divisor = (torch.linalg.vector_norm(torch.stack(norms)) / CLIP).clamp(min=1).cpu()
        if GPU:
            self.stream.synchronize()
        for weight in self.weights:
            weight.grad = None
        with torch.cuda.stream(self.stream):
            for part in self.parts:
                part.update(self.widened, divisor)
        if GPU:
            torch.cuda.current_stream().wait_stream(self.stream)

    def agree(self):
        return all(part.agree() for part in self.parts)


@torch.compile
def slice_loss(hidden, head, targets):
    logits = functional.linear(hidden, head).float()
    return functional.cross_entropy(logits, targets, reduction="sum")


def micro_batch(model, tokens, options):
    """Adds to the gradients; the micro-batch's share of the step's mean loss."""
    autocast = torch.autocast(DEVICE, torch.bfloat16, enabled=options.recipe == "autocast")
    with autocast:
        hidden = model.model(tokens[:, :-1]).last_hidden_state
    rows = hidden.detach().flatten(0, 1).split(options.loss_tokens)
    targets = tokens[:, 1:].flatten().split(options.loss_tokens)
    total = 0
    for row, wanted in zip(rows, targets):
        row.requires_grad_()
        with autocast:
            loss = slice_loss(row, model.lm_head.weight, wanted) / options.tokens
        loss.backward()
        total += loss.detach()
    hidden.backward(torch.cat([row.grad for row in rows]).view_as(hidden))
    return total


def step(model, states, batches, options):
    loss = 0
    for number, tokens in enumerate(batches):
        states.last = number + 1 == len(batches)
        loss += micro_batch(model, tokens, options)
    states.update()
    return loss


def mark():
    """The end of all that the GPU was asked so far; nothing waits for it."""
    if not GPU:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def measure(options):
    began = time.perf_counter()
    torch.manual_seed(0)
    model = make_model(options.model, options.recipe)
    chosen = attention(model.config, options.sequence)
    states = Offload(model) if options.mode == "offload" else Resident(model)
    shape = (options.accumulate, options.micro_batch, options.sequence + 1)
    batches = torch.randint(model.config.vocab_size, shape, device=DEVICE)
    losses, marks = [], []
    for number in range(options.warm_up + options.steps):
        losses.append(step(model, states, batches, options))
        if number + 1 == options.warm_up:
            print(f"warm after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        if number + 1 >= options.warm_up:
            marks.append(mark())
    losses = [loss.item() for loss in losses]  # waits for the GPU
    if not states.agree():
        sys.exit("the weights are not what the masters round to: a broken run, its times say nothing")
    pairs = zip(marks, marks[1:])
    seconds = [a.elapsed_time(b) / 1000 if GPU else b - a for a, b in pairs]
    return {
        "model": options.model,
        "mode": options.mode,
        "recipe": options.recipe,
        "attention": chosen,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if GPU else "cpu",
        "parameters": sum(weight.numel() for weight in states.weights),
        "tokens_per_step": options.tokens,
        "tokens_per_second": options.tokens / statistics.median(seconds),
        "step_seconds": seconds,
        "losses": losses,
        "device_peak_bytes": torch.cuda.max_memory_allocated(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--mode", choices=["resident", "offload"], default="resident")
    parser.add_argument("--recipe", choices=["bf16", "autocast"], default="bf16")
    parser.add_argument("--attention", choices=ATTENTION, default="cudnn", help="flash where that cannot")
    parser.add_argument("--learning-rate", type=float, default=RATES["lr"])
    for flag, default, text in [
        ("--sequence", 2048, "tokens"),
        ("--micro-batch", 8, "sequences"),
        ("--accumulate", 2, "micro-batches a step"),
        ("--loss-tokens", 4096, "in a slice of head and loss"),
        ("--threads", len(os.sched_getaffinity(0)), "of the CPU"),
        ("--warm-up", 3, "steps before those that are measured"),
        ("--steps", 5, "that are measured"),
    ]:
        parser.add_argument(flag, type=int, default=default, help=text)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if min(options.warm_up, options.steps, options.threads, options.loss_tokens) < 1:
        parser.error("--warm-up, --steps, --threads and --loss-tokens are 1 or more")
    if options.mode == "offload" and options.recipe == "autocast":
        parser.error("--mode offload sends bf16 gradients and weights: --recipe bf16")
    options.tokens = options.accumulate * options.micro_batch * options.sequence
    RATES["lr"] = options.learning_rate
    torch.set_num_threads(options.threads)
    with sdpa_kernel([ATTENTION[options.attention], SDPBackend.FLASH_ATTENTION], set_priority=True):
        result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        print(
            "{model} {mode} {recipe}: {tokens_per_second:.0f} tokens/s with {tokens_per_step} a step "
            "({attention}, PyTorch {torch}, {device})".format(**result)
        )


if __name__ == "__main__":
    main()
