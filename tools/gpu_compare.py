#!/usr/bin/env python3
"""Trains small random models in PyTorch and in Ebb on the same data and compares the loss curves.

usage: gpu_compare.py EBB     (the command; PyTorch and transformers must be there)

The text holds exactly one batch, so every step of both sees the same sequences.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SEQUENCE, ROWS, STEPS, PEAK = 256, 8, 50, 3e-4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPE = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=704, vocab_size=272, max_position_embeddings=512)


def make_model(family):
    torch.manual_seed(7)
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=False))
    return Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True))


def batch_of(text):
    """Sample i is tokens [i * S, i * S + S + 1) of the bytes and the end of text (256)."""
    tokens = torch.tensor(list(text) + [256])
    rows = [tokens[i * SEQUENCE:i * SEQUENCE + SEQUENCE + 1] for i in range(ROWS)]
    rows = torch.stack(rows).to(DEVICE)
    return rows[:, :-1], rows[:, 1:]


def torch_curve(model, text, dtype):
    """fp32 masters; the model computes with copies of them in `dtype`."""
    ids, targets = batch_of(text)
    masters = [p.detach().clone().float().to(DEVICE).requires_grad_() for p in model.parameters()]
    model = model.to(DEVICE, dtype)
    decay = [m for m in masters if m.dim() > 1]
    rest = [m for m in masters if m.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                                   {"params": rest, "weight_decay": 0.0}],
                                  lr=PEAK, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        with torch.no_grad():
            for parameter, master in zip(model.parameters(), masters):
                parameter.copy_(master)
        logits = model(input_ids=ids).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        model.zero_grad()
        loss.backward()
        for parameter, master in zip(model.parameters(), masters):
            master.grad = parameter.grad.float()
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def ebb_curve(ebb, folder, data, dtype, out, extra):
    subprocess.run([ebb, "train", "--model", folder, "--data", data, "--out", out, "--sequence",
                    str(SEQUENCE), "--micro-batch", str(ROWS), "--steps", str(STEPS), "--schedule",
                    "constant", "--learning-rate", str(PEAK), "--dtype", dtype, "--keep", "0", *extra],
                   check=True, stdout=subprocess.DEVNULL)
    with open(pathlib.Path(out) / "log.jsonl") as log:
        return [json.loads(line)["loss"] for line in log]


def main():
    ebb = sys.argv[1]
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = False
    print(f"{'':24}{'loss 1':>10}{'10':>10}{'25':>10}{'50':>10}{'largest difference':>22}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        random.seed(1)
        words = ["tide", "ebb", "flow", "moon", "shore", "sand", "wave", "salt"]
        # One byte short of a batch: the end of text is its last target.
        text = " ".join(random.choice(words) for _ in range(ROWS * SEQUENCE)).encode()
        text = text[:ROWS * SEQUENCE]
        (folder / "text").write_bytes(text)
        for family in ("llama", "qwen2"):
            make_model(family).save_pretrained(folder / family)
            for dtype, name, allowed in ((torch.float32, "fp32", 2e-3), (torch.bfloat16, "bf16", 8e-2)):
                theirs = torch_curve(make_model(family), text, dtype)
                ours = ebb_curve(ebb, folder / family, folder / "text", name,
                                 folder / f"{family}-{name}", ["--states", "stream"])
                worst = max(abs(a - b) for a, b in zip(theirs, ours))
                failed |= not worst < allowed
                for who, curve in (("PyTorch", theirs), ("Ebb", ours)):
                    at = "".join(f"{curve[i - 1]:10.4f}" for i in (1, 10, 25, 50))
                    print(f"{family + ' ' + name + ' ' + who:24}{at}" + (f"{worst:22.5f}" if who == "Ebb" else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
