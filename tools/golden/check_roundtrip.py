#!/usr/bin/env python3
"""Checks that what `ebb train` saves is what transformers loads, for every family.

For each family of make_families.py a tiny random model goes in as a Hugging Face
folder. Ebb trains it with a learning rate of 0: what it saves must load without a
missing or surplus tensor and give the same logits, bit for bit. Then Ebb trains it
for real: what transformers generates greedily from the result must be what
`ebb generate` says. Run by hand:

    python tools/golden/check_roundtrip.py --ebb build/release/ebb
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import make_families as families
import make_training as training
import torch
import transformers

VOCABULARY = 272  # Ebb's own tokenizer: bytes, and the end of a text
TEXT = "the tide rides in and the tide rides out, and what it carried stays behind. "
PROMPT = "the tide "
NEW_TOKENS = 12


def make_model(name, out):
    maker, seed, _ = families.FAMILIES[name]
    config = maker()
    config.vocab_size = VOCABULARY
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32)
    generator = torch.Generator().manual_seed(seed)
    mean = 0.0 if name == "gemma" else 1.0
    training.initialise(model, generator, families.INIT_STD, mean)
    model.save_pretrained(out)


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        raise SystemExit(f"{folder}: transformers found {wrong}")
    return model.eval()


def train(ebb, model, data, out, steps, rate):
    command = [ebb, "train", "--model", model, "--data", data, "--out", out]
    command += ["--steps", steps, "--learning-rate", rate, "--dtype", "fp32", "--device", "cpu"]
    command += ["--sequence", 16, "--micro-batch", 4, "--device-memory", "64MiB"]
    command += ["--host-memory", "256MiB"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return next(path.parent for path in sorted(out.rglob("config.json"), reverse=True))


def check(ebb, name, root):
    data = root / "data.txt"
    data.write_text(TEXT * 60)
    start = root / name / "start"
    make_model(name, start)
    ids = torch.randint(0, VOCABULARY, (2, 17), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        before = load(start)(input_ids=ids).logits
        saved = load(train(ebb, start, data, root / name / "still", 1, 0))
        after = saved(input_ids=ids).logits
    if not torch.equal(before, after):
        raise SystemExit(f"{name}: logits differ by up to {(before - after).abs().max()}")

    moved = train(ebb, start, data, root / name / "moved", 150, 0.01)
    model = load(moved)
    tokens = list(PROMPT.encode())
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            tokens.append(int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
    expected = bytes(t for t in tokens[len(PROMPT) :] if t < 256).decode()
    command = [ebb, "generate", "--model", moved, "--prompt", PROMPT, "--temperature", "0"]
    command += ["--max-tokens", NEW_TOKENS, "--dtype", "fp32", "--device", "cpu"]
    said = subprocess.run([str(part) for part in command], check=True, capture_output=True)
    found = said.stdout.decode()
    if expected not in found:
        raise SystemExit(f"{name}: transformers says {expected!r}, Ebb {found!r}")
    print(f"{name}: logits equal, bit for bit; both say {expected!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ebb", type=Path, required=True, help="the command, such as build/release/ebb")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        for name in families.FAMILIES:
            check(arguments.ebb.resolve(), name, Path(folder))


if __name__ == "__main__":
    main()
