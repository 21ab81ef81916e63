#!/usr/bin/env python3
"""Makes the golden files of the learning test: tests/golden/training/<family>/.

For each family a tiny seeded fp32 model is written as a Hugging Face folder,
trained for a few AdamW steps with PyTorch on the CPU, and what happened is
written beside it. See README.md in this folder for how to run it and for what
each file holds.
"""

import argparse
import json
import math
import os
import platform
import shutil
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

STEPS = 20
ACCUMULATE = 2
ROWS = 3
LENGTH = 17  # positions with a loss; one more id is drawn for the last target
WARMUP = 5
PEAK_LR = 3e-3
FLOOR = 0.1  # the last learning rate as a share of the peak
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1
INIT_STD = 0.05
NORM_STD = 0.1
BIAS_STD = 0.1


def llama():
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        attention_bias=False,
        mlp_bias=False,
        attention_dropout=0.0,
        hidden_act="silu",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        use_cache=False,
        dtype="float32",
    )
    return LlamaForCausalLM, config


def qwen2():
    config = Qwen2Config(
        vocab_size=112,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-6,
        # Sequences are 17 tokens long. With the family's usual base of 1e6 most pairs would hardly
        # turn in that, a bias of the keys would hardly matter, and its gradient would be the
        # rounding noise of a sum that cancels, which AdamW blows up to full steps.
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        tie_word_embeddings=True,
        use_sliding_window=False,
        attention_dropout=0.0,
        hidden_act="silu",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        use_cache=False,
        dtype="float32",
    )
    return Qwen2ForCausalLM, config


# family: (maker, seed, gradient clip). The clip is chosen so that some steps
# are clipped and some are not; main() refuses to write anything else.
FAMILIES = {"llama": (llama, 1001, 1.5), "qwen2": (qwen2, 2002, 1.0)}


def is_norm(name):
    return name.endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"))


def is_bias(name):
    return name.endswith(".bias")


def decays(name):
    return not (is_norm(name) or is_bias(name))


def initialise(model, generator, std=INIT_STD, norm_mean=1.0):
    """Every parameter is drawn, in the order of their sorted names."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            normal = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if is_norm(name):
                parameter.copy_(norm_mean + NORM_STD * normal)
            elif is_bias(name):
                parameter.copy_(BIAS_STD * normal)
            else:
                parameter.copy_(std * normal)


def learning_rate(step):
    """The learning rate of a step, counted from 1."""
    if step <= WARMUP:
        return PEAK_LR * step / WARMUP
    progress = (step - 1 - WARMUP) / (STEPS - WARMUP)
    return PEAK_LR * (FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + math.cos(math.pi * progress)))


def copies(pairs):
    return {name: tensor.detach().clone().contiguous() for name, tensor in pairs}


def train(name, model, ids, clip):
    """Steps of AdamW over the micro-batches of ids. Returns what happened and the first gradients."""
    vocab = model.config.vocab_size
    named = list(model.named_parameters())  # a tied embedding appears once
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if decays(n)], "weight_decay": WEIGHT_DECAY},
            {"params": [p for n, p in named if not decays(n)], "weight_decay": 0.0},
        ],
        lr=PEAK_LR,
        betas=BETAS,
        eps=EPS,
        foreach=False,
        fused=False,
    )

    records = []
    for step in range(1, STEPS + 1):
        lr = learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad(set_to_none=True)
        losses = []
        for micro in range(ACCUMULATE):
            rows = ids[step - 1, micro]
            scores = model(input_ids=rows[:, :-1]).logits
            loss = functional.cross_entropy(scores.reshape(-1, vocab), rows[:, 1:].reshape(-1))
            (loss / ACCUMULATE).backward()
            losses.append(loss.item())
        if step == 1:
            gradients = copies((n, p.grad) for n, p in named)
            assert all(g.abs().max() > 0 for g in gradients.values())
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], clip, foreach=False).item()
        optimizer.step()
        records.append(
            {
                "step": step,
                "loss": sum(losses) / len(losses),
                "micro_losses": losses,
                "grad_norm": norm,
                "clipped": norm > clip,
                "lr": lr,
            }
        )

    for record in records:
        print(
            f"{name} {record['step']:3d}  loss {record['loss']:.6f}  "
            f"norm {record['grad_norm']:.6f}{'*' if record['clipped'] else ' '} lr {record['lr']:.3e}"
        )
    clipped = sum(r["clipped"] for r in records)
    if clipped in (0, STEPS):
        raise SystemExit(f"{name}: {clipped} of {STEPS} steps are clipped; choose another clip")
    return records, gradients


def settings(name, seed, clip):
    """What a test must know to do the same."""
    return {
        "family": name,
        "made_with": {
            "python": platform.python_version(),
            "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__,
        },
        "seed": seed,
        "steps": STEPS,
        "accumulate": ACCUMULATE,
        "rows": ROWS,
        "length": LENGTH,
        "optimizer": {
            "name": "adamw",
            "beta1": BETAS[0],
            "beta2": BETAS[1],
            "eps": EPS,
            "weight_decay": WEIGHT_DECAY,
            "clip_grad_norm": clip,
        },
        "schedule": {
            "name": "cosine",
            "peak_lr": PEAK_LR,
            "warmup_steps": WARMUP,
            "final_share": FLOOR,
        },
    }


def start_folder(model, ids, out):
    """The initial model and the tokens."""
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    save_file({"ids": ids.to(torch.int32).contiguous()}, out / "tokens.safetensors")


def save_logits(model, ids, out):
    with torch.no_grad():
        logits = model(input_ids=ids[0, 0, :1, :-1]).logits[0]
    assert logits.shape == (LENGTH, model.config.vocab_size) and logits.dtype == torch.float32
    save_file({"logits": logits.contiguous()}, out / "logits.safetensors")


def run(family, out):
    maker, seed, clip = FAMILIES[family]
    model_class, config = maker()
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(seed)
    model = model_class(config).to(torch.float32)
    model.train()  # no dropout in either family: the same as eval()
    initialise(model, generator)

    shape = (STEPS, ACCUMULATE, ROWS, LENGTH + 1)
    ids = torch.randint(0, config.vocab_size, shape, generator=generator)

    start_folder(model, ids, out)
    save_logits(model, ids, out)
    records, gradients = train(family, model, ids, clip)
    save_file(gradients, out / "first_gradients.safetensors")
    named = list(model.named_parameters())
    save_file(copies(named), out / "final.safetensors", metadata={"format": "pt"})

    golden = settings(family, seed, clip) | {
        "decayed": [n for n, _ in named if decays(n)],
        "not_decayed": [n for n, _ in named if not decays(n)],
        "records": records,
    }
    (out / "golden.json").write_text(json.dumps(golden, indent=2) + "\n")
    for path in out.iterdir():
        path.chmod(0o644)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=root / "tests" / "golden" / "training",
        help="folder that receives one folder per family (these are replaced)",
    )
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for family in FAMILIES:
        run(family, arguments.out / family)


if __name__ == "__main__":
    main()
