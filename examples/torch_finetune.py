#!/usr/bin/env python3
"""Fine-tunes a language model of PyTorch's within a limit that the plain optimizer exceeds.

usage: torch_finetune.py [--device cuda] [--model FOLDER] [--limit 2GiB] [--steps 20]

Two programs run one after the other: torch.optim.AdamW, then Ebb's with its states off the device
and activations that leave it. Both print the loss and the peak of what they held; the first is
stopped as soon as it passes the limit. With transformers the model is a Qwen2 (of that folder, or
one of random weights), without it a small transformer of plain PyTorch.

On a GPU the peak is PyTorch's own count of its memory. On the CPU, which is no GPU, it is the
process's memory, with weights, gradients and activations in it as well, and Ebb's states go where
they are: there the limit is met by moments of 8 bits and by activations on a disk.
"""

import argparse
import json
import os
import resource
import subprocess
import sys

import torch

import ebb
import ebb.torch


def make_model(options):
    """A model that gives a loss for tokens."""
    torch.manual_seed(0)
    try:
        import transformers
    except ImportError:
        return Plain(options)
    if options.model:
        return FromTransformers(transformers.AutoModelForCausalLM.from_pretrained(options.model))
    return FromTransformers(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        hidden_size=options.width, intermediate_size=4 * options.width, vocab_size=1024,
        num_hidden_layers=options.layers, num_attention_heads=8, num_key_value_heads=8)))


class FromTransformers(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, labels=tokens).loss


class Plain(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.embedding = torch.nn.Embedding(1024, options.width)
        layer = torch.nn.TransformerEncoderLayer(options.width, 8, 4 * options.width, dropout=0.0,
                                                 batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(options.width, 1024)

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(
            tokens.shape[1], device=tokens.device, dtype=self.head.weight.dtype)
        logits = self.head(self.layers(self.embedding(tokens), mask, is_causal=True))
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                                 tokens[:, 1:].flatten())


def batches(options):
    """Sequences that count up, by a stride of their own: there is something to learn."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(options.steps):
        start, stride = (torch.randint(1, 50, (options.batch, 1), generator=generator)
                         for _ in range(2))
        yield (start + stride * torch.arange(options.sequence)) % 1024


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(options):
    """In this process: a line of JSON at the end."""
    limit, losses, passed = ebb.bytes_of(options.limit), [], None
    model = make_model(options).to(options.device, torch.bfloat16 if options.device == "cuda"
                                   else torch.float32)
    started = peak_bytes(options.device)
    if options.optimizer == "ebb":
        optimizer = ebb.torch.AdamW(model.parameters(), lr=1e-3, states="stream", clip=1.0,
                                    state_format="exact" if options.device == "cuda" else "int8")
        offload = ebb.torch.offload_activations(
            limit="64GiB", to="host" if options.device == "cuda" else "disk", model=model)
    else:
        # With fp32 masters on a GPU, as Ebb keeps them, it would hold more still.
        optimizer, offload = torch.optim.AdamW(model.parameters(), lr=1e-3), None
    for tokens in batches(options):
        tokens = tokens.to(options.device)
        if offload is not None:
            with offload:
                loss = model(tokens)
        else:
            loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        if offload is None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if limit is not None and peak_bytes(options.device) > limit:
            passed = len(losses)
            break
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()),
                      "losses": losses, "model_bytes": started,
                      "peak_bytes": peak_bytes(options.device), "passed_at_step": passed}))


def run(options, optimizer):
    """In a process of its own, whose peak is its own."""
    command = [sys.executable, os.path.abspath(__file__), "--optimizer", optimizer]
    for name in ("device", "limit", "steps", "width", "layers", "batch", "sequence", "model"):
        if getattr(options, name):
            command += [f"--{name}", str(getattr(options, name))]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                        .splitlines()[-1])
    ended = (f"passed the limit at step {result['passed_at_step']}" if result["passed_at_step"]
             else f"loss {result['losses'][0]:.3f} to {result['losses'][-1]:.3f} in "
                  f"{len(result['losses'])} steps")
    print(f"{optimizer:6} peak {result['peak_bytes'] / 2**20:8.0f} MiB   {ended}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"),
                        default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", help="a folder of Hugging Face's; needs transformers")
    parser.add_argument("--limit", help="of the peak; half-way between the two unless given")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--optimizer", choices=("plain", "ebb"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.optimizer:
        train(options)
        return
    if options.limit is None:
        steps, options.steps = options.steps, 2
        print("two steps of each, to find a limit between them:")
        peaks = [run(options, which)["peak_bytes"] for which in ("plain", "ebb")]
        options.steps, options.limit = steps, str(sum(peaks) // 2)
    print(f"within {ebb.bytes_of(options.limit) / 2**20:.0f} MiB:")
    plain, ours = run(options, "plain"), run(options, "ebb")
    if not plain["passed_at_step"]:
        sys.exit("the plain optimizer stays within the limit, too: give a smaller one")
    if ours["passed_at_step"]:
        sys.exit("Ebb's passes the limit, too: give a larger one")


if __name__ == "__main__":
    main()
