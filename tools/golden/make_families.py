#!/usr/bin/env python3
"""Makes the golden files of the families: tests/golden/families/<name>/.

Each is as small as its features allow: a seeded fp32 model as transformers saves
it, its logits, every gradient of one batch in which some targets are ignored,
and the losses of 20 AdamW steps. See README.md in this folder.
"""

import argparse
import json
from pathlib import Path

import make_training as training
import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional

INIT_STD = 0.15
IGNORED = 0.3  # the share of targets that count for nothing in the batch of the gradients

SHAPES = dict(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
COMMON = dict(
    bos_token_id=None, eos_token_id=None, pad_token_id=None, use_cache=False, dtype="float32"
)
# Sequences are short: a small base turns all pairs enough to matter.
ROPE = {"rope_type": "default", "rope_theta": 100.0}


def llama_scaled():
    # Wavelengths of 6 to 290 positions: two short, two between, two long.
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 100.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    return transformers.LlamaConfig(
        **SHAPES
        | {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256},
        **COMMON,
        head_dim=12,
        rope_parameters=scaling,
        tie_word_embeddings=True,
    )


def llama_biases():
    return transformers.LlamaConfig(
        **SHAPES,
        **COMMON,
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        hidden_act="gelu",
        attention_bias=True,
        mlp_bias=True,
    )


def mistral():
    return transformers.MistralConfig(**SHAPES, **COMMON, rope_parameters=ROPE, sliding_window=5)


def qwen2():
    return transformers.Qwen2Config(
        **SHAPES,
        **COMMON,
        rope_parameters=ROPE,
        use_sliding_window=True,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
    )


def qwen3():
    return transformers.Qwen3Config(
        **SHAPES, **COMMON, rope_parameters=ROPE, head_dim=8, tie_word_embeddings=True
    )


def gpt2():
    return transformers.GPT2Config(
        **COMMON,
        vocab_size=32,
        n_positions=24,
        n_embd=18,
        n_layer=2,
        n_head=3,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )


def gemma():
    return transformers.GemmaConfig(
        **SHAPES | {"num_attention_heads": 2, "num_key_value_heads": 1},
        **COMMON,
        rope_parameters=ROPE,
        head_dim=16,
    )


# name: (maker, seed, gradient clip)
FAMILIES = {
    "llama_scaled": (llama_scaled, 1, 0.92),
    "llama_biases": (llama_biases, 2, 1.05),
    "mistral": (mistral, 3, 0.93),
    "qwen2": (qwen2, 4, 0.97),
    "qwen3": (qwen3, 5, 0.95),
    "gpt2": (gpt2, 6, 0.8),
    "gemma": (gemma, 7, 0.72),
}


def masked_gradients(model, rows, generator):
    """The targets, -1 where ignored; the mean loss over the others; its gradients."""
    targets = rows[:, 1:].clone()
    targets[torch.rand(targets.shape, generator=generator) < IGNORED] = -100
    scores = model(input_ids=rows[:, :-1]).logits
    loss = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
    model.zero_grad(set_to_none=True)
    loss.backward()
    gradients = training.copies((n, p.grad) for n, p in model.named_parameters())
    return torch.where(targets == -100, -1, targets), loss.item(), gradients


def run(name, out):
    maker, seed, clip = FAMILIES[name]
    config = maker()
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32)
    model.train()
    norm_mean = 0.0 if name == "gemma" else 1.0  # Gemma's norms store the distance from 1
    training.initialise(model, generator, INIT_STD, norm_mean)
    shape = (training.STEPS, training.ACCUMULATE, training.ROWS, training.LENGTH + 1)
    ids = torch.randint(0, config.vocab_size, shape, generator=generator)

    training.start_folder(model, ids, out)
    training.save_logits(model, ids, out)
    targets, loss, gradients = masked_gradients(model, ids[0, 0], generator)
    save_file(
        gradients | {"targets": targets.to(torch.int32).contiguous()},
        out / "gradients.safetensors",
    )
    records, _ = training.train(name, model, ids, clip)
    golden = training.settings(name, seed, clip) | {"masked_loss": loss, "records": records}
    (out / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    for path in out.iterdir():
        path.chmod(0o644)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=root / "tests" / "golden" / "families",
        help="folder that receives one folder per family (these are replaced)",
    )
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in FAMILIES:
        run(name, arguments.out / name)


if __name__ == "__main__":
    main()
