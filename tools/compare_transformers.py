#!/usr/bin/env python3
"""usage: compare_transformers.py FOLDER... [--prompt TEXT] [--tokens N] [--ebb COMMAND]

Loads each model folder (one that Ebb saved, or any other) with transformers and lets both continue a
prompt greedily in fp32. Prints both lists of ids and exits 1 where they differ. Needs the packages of
tools/golden/requirements.txt.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch
import transformers


def of_ebb(command, folder, prompt, tokens):
    line = [command, "generate", "--model", folder, "--prompt", prompt, "--max-tokens", str(tokens),
            "--temperature", "0", "--dtype", "fp32", "--device", "cpu", "--json"]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def of_transformers(folder, prompt, expected, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if (pathlib.Path(folder) / "tokenizer.json").exists():
        prompt_ids = transformers.AutoTokenizer.from_pretrained(folder)(prompt)["input_ids"]
    else:
        prompt_ids = expected["prompt_ids"]  # bytes: transformers has no tokenizer to compare
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt_ids]), max_new_tokens=tokens, do_sample=False,
                             eos_token_id=expected["stop_ids"], pad_token_id=0)
    return prompt_ids, out[0, len(prompt_ids):].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--prompt", default="The tide comes in, and")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--ebb", default="build/release/ebb")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    different = False
    for folder in options.folders:
        ebb = of_ebb(options.ebb, folder, options.prompt, options.tokens)
        prompt_ids, ids = of_transformers(folder, options.prompt, ebb, options.tokens)
        equal = ebb["prompt_ids"] == prompt_ids and ebb["ids"] == ids
        different |= not equal
        print(f"{folder}: {'equal' if equal else 'DIFFERENT'}")
        print("  prompt, Ebb         ", ebb["prompt_ids"])
        print("  prompt, transformers", prompt_ids)
        print("  ids, Ebb            ", ebb["ids"])
        print("  ids, transformers   ", ids)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
