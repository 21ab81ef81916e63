#!/usr/bin/env python3
"""Training a Qwen2.5 shape in PyTorch with each optimizer that can leave the GPU, one table.

usage: torch_optimizers.py [--model qwen2.5-1.5b] [--tokens N] [--sequence N] [--only NAME...]

Every row is a process of its own with the same model (random weights, bf16, layers compiled), the
same tokens and clipping at 1.0; the step is timed from the end of one to the end of the next, the
median counts. Memory is the most that torch.cuda allocated, and that the driver saw the process
hold. "none" is the same loop without an optimizer: what the others hold beside it is theirs.

  none         forward and backward alone
  resident     torch.optim.AdamW, fused, with fp32 masters on the GPU
  ebb          ebb.torch.AdamW, states="stream", attached: updates behind the next forward pass
  ebb-plain    the same, not attached
  torchao      torchao's CPUOffloadOptimizer around AdamW (bf16 weights, no masters)
  deepspeed    ZeRO stage 2 with CPU Adam

What cannot be imported is left out and named. `--device cpu --tokens 64 --sequence 32 --model tiny`
tries the table without a GPU; the times mean nothing there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

SHAPES = {  # width, MLP's width, layers, heads, key-value heads, vocabulary
    "tiny": (64, 128, 2, 4, 2, 256),
    "qwen2.5-0.5b": (896, 4864, 24, 14, 2, 151936),
    "qwen2.5-1.5b": (1536, 8960, 28, 12, 2, 151936),
    "qwen2.5-3b": (2048, 11008, 36, 16, 2, 151936),
}
ROWS = ("none", "resident", "ebb", "ebb-plain", "torchao", "deepspeed")
RATES = {"lr": 1e-5, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def make_block(torch, shape):
    """A layer of Qwen2's, where transformers is missing."""
    functional = torch.nn.functional
    width, inner, _, heads, shared, _ = shape
    size = width // heads

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before = torch.nn.RMSNorm(width, eps=1e-6)
            self.qkv = torch.nn.Linear(width, (heads + 2 * shared) * size)
            self.out = torch.nn.Linear(width, width, bias=False)
            self.between = torch.nn.RMSNorm(width, eps=1e-6)
            self.up = torch.nn.Linear(width, 2 * inner, bias=False)
            self.down = torch.nn.Linear(inner, width, bias=False)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (-1, size)).transpose(1, 2) for part in
                       self.qkv(self.before(x)).split([heads * size, shared * size,
                                                       shared * size], -1))
            k, v = (part.repeat_interleave(heads // shared, 1) for part in (k, v))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            gate, up = self.up(self.between(x)).chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)

    return Block()


def make_model(options):
    """(the model, a function of tokens that gives the loss)"""
    import torch

    torch.manual_seed(0)
    shape = SHAPES[options.model]
    width, inner, layers, heads, shared, vocabulary = shape
    try:
        import transformers
    except ImportError:
        transformers = None
    with torch.device(options.device):
        torch.set_default_dtype(torch.bfloat16)
        if transformers is not None:
            model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
                hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=shared, vocab_size=vocabulary,
                tie_word_embeddings=True, max_position_embeddings=options.sequence))
            blocks = model.model.layers

            def loss_of(run, tokens):
                return run(input_ids=tokens, labels=tokens, use_cache=False).loss
        else:
            embedding = torch.nn.Embedding(vocabulary, width)
            head = torch.nn.Linear(width, vocabulary, bias=False)
            head.weight = embedding.weight
            blocks = [make_block(torch, shape) for _ in range(layers)]
            model = torch.nn.Sequential(embedding, *blocks, torch.nn.RMSNorm(width), head)

            def loss_of(run, tokens):
                return torch.nn.functional.cross_entropy(
                    run(tokens)[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        torch.set_default_dtype(torch.float32)
    if not options.eager:
        for block in blocks:
            block.compile()
    model.train()
    return model, loss_of


class WithMasters:
    """fp32 masters under an optimizer of torch.optim's, as bf16 training needs them."""

    def __init__(self, model, make):
        import torch

        self.weights = list(model.parameters())
        self.masters = [w.detach().float().requires_grad_() for w in self.weights]
        self.optimizer = make(self.masters)
        self.clip = torch.nn.utils.clip_grad_norm_
        self.copy = torch._foreach_copy_

    def step(self):
        import torch

        for weight, master in zip(self.weights, self.masters):
            master.grad, weight.grad = weight.grad.float(), None
        self.clip(self.masters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            self.copy(self.weights, self.masters)
        self.optimizer.zero_grad()


def make_step(options, model, loss_of):
    """A function of tokens that makes one step and returns the loss."""
    import torch

    def plain(step):
        def train(tokens):
            loss = loss_of(model, tokens)
            loss.backward()
            step()
            model.zero_grad()
            return loss.detach()

        return train

    def clipped(optimizer):
        def step():
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step

    fused = {"fused": True} if options.device == "cuda" else {}
    if options.row == "none":
        return plain(lambda: None)
    if options.row == "resident":
        return plain(WithMasters(model, lambda p: torch.optim.AdamW(p, **fused, **RATES)).step)
    if options.row in ("ebb", "ebb-plain"):
        import ebb.torch

        optimizer = ebb.torch.AdamW(model.parameters(), states="stream", clip=1.0, **RATES)
        if options.row == "ebb":
            optimizer.attach(model)
        return plain(optimizer.step)
    if options.row == "torchao":
        from torchao.optim import CPUOffloadOptimizer

        return plain(clipped(CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, **fused,
                                                 **RATES)))
    import deepspeed

    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": options.tokens // options.sequence,
        "bf16": {"enabled": True}, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
                                                                "pin_memory": True}},
        "optimizer": {"type": "AdamW", "params": {key: list(value) if key == "betas" else value
                                                  for key, value in RATES.items()}}})

    def train(tokens):
        loss = loss_of(engine, tokens)
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return train


class DriverWatch:
    """The most that the driver says is in use, less what was before this process came."""

    def __init__(self, device):
        self.most = self.before = 0
        self._end = threading.Event()
        if device != "cuda":
            return
        import torch

        free, total = torch.cuda.mem_get_info()
        self.before = total - free - torch.cuda.memory_reserved()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        import torch

        while not self._end.wait(0.01):
            free, total = torch.cuda.mem_get_info()
            self.most = max(self.most, total - free)

    def end(self):
        self._end.set()
        return self.most


def train(options):
    """One row, in this process: a line of JSON at the end."""
    import torch

    is_cuda = options.device == "cuda"
    if not is_cuda and options.row == "deepspeed":
        raise ImportError("its CPU run needs a launcher")
    watch = DriverWatch(options.device)
    model, loss_of = make_model(options)
    step = make_step(options, model, loss_of)
    generator = torch.Generator().manual_seed(1)
    vocabulary = SHAPES[options.model][-1]
    times, losses = [], []
    for number in range(options.warmup + options.steps):
        tokens = torch.randint(0, vocabulary, (options.tokens // options.sequence,
                                               options.sequence), generator=generator)
        tokens = tokens.to(options.device)
        losses.append(step(tokens))
        if is_cuda:
            torch.cuda.current_stream().synchronize()
            if number == options.warmup - 1:
                torch.cuda.synchronize()
        times.append(time.perf_counter())
    if is_cuda:
        torch.cuda.synchronize()
        # What is still under way belongs to the last step.
        times[-1] = max(times[-1], time.perf_counter())
    seconds = [b - a for a, b in zip(times[options.warmup - 1:], times[options.warmup:])]
    print(json.dumps({
        "torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
        "model": type(model).__name__, "step_seconds": statistics.median(seconds),
        "mean_seconds": (times[-1] - times[options.warmup - 1]) / options.steps,
        "losses": [float(loss) for loss in losses],
        "allocated": torch.cuda.max_memory_allocated() if is_cuda else 0,
        "driver": watch.end()}))


def run(options, row):
    """In a process of its own; a text where it cannot be had."""
    command = [sys.executable, os.path.abspath(__file__), "--row", row]
    for name in ("model", "tokens", "sequence", "steps", "warmup", "device"):
        command += [f"--{name}", str(getattr(options, name))]
    if options.eager:
        command.append("--eager")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if options.verbose:
            print(done.stderr, file=sys.stderr)
        return (done.stderr.strip().splitlines() or ["no word of why"])[-1][:200]
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--tokens", type=int, default=32768, help="of a step")
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--eager", action="store_true", help="layers are not compiled")
    parser.add_argument("--json", type=pathlib.Path, help="a file for all that was measured")
    parser.add_argument("--verbose", action="store_true", help="errors of what was left out, whole")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.steps, options.warmup) < 1 or options.tokens % options.sequence:
        parser.error("--steps and --warmup are 1 or more, --tokens a multiple of --sequence")
    if options.row:
        sys.path.pop(0)  # this folder has files with packages' names
        train(options)
        return
    found = {}
    for row in options.only:
        print(f"{row} ...", file=sys.stderr, flush=True)
        found[row] = run(options, row)
    report(options, found)
    if options.json:
        options.json.write_text(json.dumps({"options": {k: str(v) for k, v in
                                                        vars(options).items()}, "rows": found}))


def report(options, found):
    rows = {row: result for row, result in found.items() if isinstance(result, dict)}
    if rows:
        first = next(iter(rows.values()))
        print(f"{options.model} ({first['model']}, {first['parameters'] / 1e9:.2f} B parameters), "
              f"{options.tokens} tokens a step, sequence {options.sequence}, "
              f"{'eager' if options.eager else 'layers compiled'}, PyTorch {first['torch']}, "
              f"{options.device}")
    print(f"{'optimizer':12}{'tokens/s':>10}{'of resident':>13}{'allocated GiB':>15}"
          f"{'beside none':>13}{'driver GiB':>12}{'last loss':>11}")
    resident, none = rows.get("resident"), rows.get("none")
    for row, result in rows.items():
        speed = options.tokens / result["mean_seconds"]
        share = (f"{resident['mean_seconds'] / result['mean_seconds']:.2f}" if resident else "")
        beside = (f"{(result['allocated'] - none['allocated']) / 2**30:.2f}" if none else "")
        print(f"{row:12}{speed:10.0f}{share:>13}{result['allocated'] / 2**30:15.2f}{beside:>13}"
              f"{result['driver'] / 2**30:12.2f}{result['losses'][-1]:11.3f}")
    for row, reason in found.items():
        if not isinstance(reason, dict):
            print(f"{row:12}left out: {reason}")


if __name__ == "__main__":
    main()
