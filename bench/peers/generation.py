#!/usr/bin/env python3
"""How fast transformers (PyTorch) and llama.cpp generate beside `ebb bench generate`, in one run.

usage: generation.py --ebb build/release/ebb --model preset:qwen2.5-1.5b|DIR|FILE.gguf
           [--prompt-tokens 512 2048] [--tokens 128] [--depth 0 8192] [--device cpu|cuda]
           [--llama-bench PATH --gguf FILE] [--json]

Every program makes the same tests one after the other, each alone on the machine: a prompt read at
once, and tokens one by one, behind `depth` tokens that are not timed. No tokenizer, no sampling;
each token is waited for, as whatever draws the next one would. Means and standard deviations of
--repetitions, after one that does not count.

transformers takes a preset's shape with random weights, or a folder with its own; a GGUF file it
does not take here. Attention is PyTorch's (sdpa), the cache grows (DynamicCache), nothing is
compiled. llama-bench takes the GGUF file: that of --gguf, or of --model. With --device cpu it keeps
all layers on the CPU, else all on the GPU. Needs torch and transformers; --no-transformers leaves
them out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.pop(0)  # this folder has files with packages' names

SHAPE = "hidden_size num_hidden_layers num_attention_heads num_key_value_heads".split()
SHAPE += "intermediate_size vocab_size tie_word_embeddings".split()
PRESETS = {  # as Ebb's have them, those of Qwen2
    "qwen2.5-0.5b": [896, 24, 14, 2, 4864, 151936, True],
    "qwen2.5-1.5b": [1536, 28, 12, 2, 8960, 151936, True],
    "qwen2.5-3b": [2048, 36, 16, 2, 11008, 151936, True],
    "qwen2.5-7b": [3584, 28, 28, 4, 18944, 152064, False],
    "qwen2.5-14b": [5120, 48, 40, 8, 13824, 152064, False],
}


def name_of(depth, prompt, tokens):
    name = f"pp{prompt}" if prompt else f"tg{tokens}"
    return f"{name} @ d{depth}" if depth else name


def tests_of(options):
    """(depth, prompt, tokens), in the order of `ebb bench generate`."""
    for depth in options.depth:
        yield from ((depth, prompt, 0) for prompt in options.prompt_tokens)
        yield from ((depth, 0, tokens) for tokens in options.tokens)


def row_of(program, test, samples, **more):
    """`samples`: tokens a second of each repetition."""
    deviation = statistics.stdev(samples) if len(samples) > 1 else 0.0
    return {
        "program": program,
        "test": name_of(*test),
        "tokens_per_second": statistics.mean(samples),
        "standard_deviation": deviation,
        "samples": samples,
        **more,
    }


def run_json(command):
    print("running " + " ".join(command), file=sys.stderr, flush=True)
    # Progress goes to stderr, which is this one's.
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return json.loads(done.stdout)


def words(flag, values):
    return [flag, *map(str, values)] if values else []


def ebb(options):
    command = [*options.ebb.split(), "bench", "generate", "--json", "--model", options.model]
    command += words("--prompt-tokens", options.prompt_tokens) + words("--tokens", options.tokens)
    command += words("--depth", options.depth) + ["--repetitions", str(options.repetitions)]
    command += ["--device", options.device, "--threads", str(options.threads)]
    command += ["--dtype", options.dtype]
    found = run_json(command)
    version = f"ebb {found['ebb']} ({found['commit']})"
    for row in found["rows"]:
        test = (row["depth"], row["prompt_tokens"], row["tokens"])
        if "samples" not in row:
            print(f"{name_of(*test)}: {row.get('does_not_fit', row.get('failed'))}", file=sys.stderr)
            continue
        keep = ["predicted_tokens_per_second", "ceiling_tokens_per_second", "share_of_ceiling"]
        yield row_of(version, test, row["samples"], **{key: row[key] for key in keep})


def llama_bench(options):
    gguf = options.gguf or options.model
    command = [options.llama_bench, "-m", gguf, "-o", "json", "-r", str(options.repetitions)]
    # 0 is no test: without it llama-bench makes its own.
    for flag, values in [("-p", options.prompt_tokens or [0]), ("-n", options.tokens or [0])]:
        command += [flag, ",".join(map(str, values))]
    command += ["-d", ",".join(map(str, options.depth)), "-t", str(options.threads)]
    command += ["-ngl", "0" if options.device == "cpu" else "999"]
    for row in run_json(command):
        version = f"llama.cpp {row['build_number']} ({row['build_commit']}), {row['model_type']}"
        yield row_of(version, (row["n_depth"], row["n_prompt"], row["n_gen"]), row["samples_ts"])


def make_model(options, torch):
    from transformers import AutoModelForCausalLM, Qwen2Config

    more = {"attn_implementation": "sdpa"}
    if options.dtype != "auto":
        more["dtype"] = {"bf16": torch.bfloat16, "fp32": torch.float32}[options.dtype]
    if not options.model.startswith("preset:"):
        more.setdefault("dtype", "auto")
        model = AutoModelForCausalLM.from_pretrained(options.model, **more)
        return model.to(options.device).eval()
    more.setdefault("dtype", torch.bfloat16)
    shape = dict(zip(SHAPE, PRESETS[options.model.removeprefix("preset:")]))
    rope = {"rope_type": "default", "rope_theta": 1e6}
    config = Qwen2Config(**shape, rope_parameters=rope, max_position_embeddings=32768)
    with torch.device(options.device):
        return AutoModelForCausalLM.from_config(config, **more).eval()


def transformers(options):
    import torch
    import transformers as library
    from transformers import DynamicCache

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = make_model(options, torch)
    version = f"transformers {library.__version__}, PyTorch {torch.__version__}"

    def wait():
        if options.device == "cuda":
            torch.cuda.synchronize()

    def advance(cache, ids):
        """The logits of what comes next, which are there when this returns."""
        out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        wait()
        return out.logits

    with torch.inference_mode():
        for depth, prompt, tokens in tests_of(options):
            ids = torch.randint(
                model.config.vocab_size, (1, depth + prompt + tokens), device=options.device
            )
            samples = []
            for _ in range(options.repetitions + 1):
                cache = DynamicCache()
                if depth:
                    advance(cache, ids[:, :depth])
                wait()
                start = time.perf_counter()
                if prompt:
                    advance(cache, ids[:, depth : depth + prompt])
                for at in range(depth + prompt, depth + prompt + tokens):
                    advance(cache, ids[:, at : at + 1])
                samples.append((prompt + tokens) / (time.perf_counter() - start))
            row = row_of(version, (depth, prompt, tokens), samples[1:])
            print("{program} {test}: {tokens_per_second:.2f}".format(**row), file=sys.stderr)
            yield row


def table(rows):
    def share(row):
        return f"{100 * row['share_of_ceiling']:.1f}%" if row.get("share_of_ceiling") else "-"

    yield "| test | program | t/s | of ceiling | by Ebb's |"
    yield "| --- | --- | ---: | ---: | ---: |"
    own = {row["test"]: row["tokens_per_second"] for row in rows if "share_of_ceiling" in row}
    for test in dict.fromkeys(row["test"] for row in rows):
        for row in (row for row in rows if row["test"] == test):
            by = f"{row['tokens_per_second'] / own[test]:.2f}" if test in own else "-"
            speed = "{tokens_per_second:.2f} ± {standard_deviation:.2f}".format(**row)
            yield f"| {test} | {row['program']} | {speed} | {share(row)} | {by} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ebb", required=True, help="the command, or several words that start it")
    parser.add_argument("--model", required=True, help="preset:NAME, a folder or a GGUF file")
    parser.add_argument("--prompt-tokens", type=int, nargs="*", default=[512])
    parser.add_argument("--tokens", type=int, nargs="*", default=[128])
    parser.add_argument("--depth", type=int, nargs="+", default=[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--llama-bench", help="its binary; needs a GGUF file")
    parser.add_argument("--gguf", help="the file for llama-bench (--model if that is one)")
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    is_gguf = options.model.endswith(".gguf")
    if options.llama_bench and not (options.gguf or is_gguf):
        parser.error("--llama-bench needs --gguf FILE where --model is none")
    if min(options.prompt_tokens + options.tokens + [options.repetitions, options.threads]) < 1:
        parser.error("tokens, --repetitions and --threads are 1 or more")
    preset = options.model.removeprefix("preset:")
    if preset != options.model and preset not in PRESETS and not options.no_transformers:
        parser.error(f"of the presets transformers is given {', '.join(PRESETS)} only")
    rows = list(ebb(options))
    if options.llama_bench:
        rows += llama_bench(options)
    if not options.no_transformers and not is_gguf:
        rows += transformers(options)
    print(json.dumps(rows) if options.json else "\n".join(table(rows)))


if __name__ == "__main__":
    main()
