#!/usr/bin/env python3
"""Makes the golden files of the tokenizer test: tests/golden/tokenizers/.

For each family a small tokenizer with the family's real settings is trained on
a seeded generated text, and what the tokenizers library makes of thousands of
hard strings is written beside it. README.md in this folder says what the files
hold.
"""

import argparse
import json
import os
import random
import shutil
import struct
import unicodedata
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import hard_strings

SEED = 20261115
STRINGS = 10_500
SHOWN = 300  # strings whose ids are written out

GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(regex, behavior="Isolated", invert=False):
    pattern = {"Regex": regex}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    flags = {"add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}
    return {"type": "ByteLevel", **flags}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def template(token, number, after=False):
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [text, special] if after else [special, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


FALLBACK_DECODERS = [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def train(corpus, size, pre_tokenizer, alphabet=()):
    """Tokens in the order they were learned, and merges."""
    tokenizer = Tokenizer(models.BPE())
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=list(alphabet), limit_alphabet=400, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return tokens, [list(merge) for merge in model["merges"]]


def train_bytes(corpus, size, regex):
    steps = [
        pre_tokenizers.Split(tokenizers.Regex(regex), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(corpus, size, pre_tokenizers.Sequence(steps), alphabet)


def train_characters(corpus, size, crossing):
    """Spaces are ▁ already. Without `crossing` no token reaches over a space."""
    cut = None if crossing else pre_tokenizers.Metaspace(prepend_scheme="never")
    tokens, merges = train([line.replace(" ", "▁") for line in corpus], size, cut)
    return [f"<0x{byte:02X}>" for byte in range(256)] + tokens, merges


def make(tokens, merges, added, *, normalizer=None, pre=None, post=None, decoder=None, **options):
    """A tokenizer.json. `added` are (content, flags); those that are not among `tokens` follow."""
    vocabulary = {token: number for number, token in enumerate(tokens)}
    number = len(vocabulary)
    entries = []
    for content, flags in added:
        entry = {
            "id": vocabulary.get(content, number),
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
            **flags,
        }
        number += content not in vocabulary
        entries.append(entry)
    if options.pop("merges_as_text", False):
        merges = [" ".join(merge) for merge in merges]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **options,
        "vocab": vocabulary,
        "merges": merges,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": entries,
        "normalizer": normalizer,
        "pre_tokenizer": pre,
        "post_processor": post(vocabulary, entries) if post else None,
        "decoder": decoder,
        "model": model,
    }


def number_of(entries, content):
    return next(entry["id"] for entry in entries if entry["content"] == content)


def gpt2(corpus):
    tokens, merges = train_bytes(corpus, 1000, GPT2_SPLIT)
    return make(
        tokens,
        merges,
        [("<|endoftext|>", {"normalized": True})],
        pre=byte_level(regex=True),
        post=lambda *_: byte_level(regex=True),
        decoder=byte_level(prefix=True, regex=True),
        merges_as_text=True,
        continuing_subword_prefix="",
        end_of_word_suffix="",
    )


def llama3(corpus):
    tokens, merges = train_bytes(corpus, 1000, LLAMA3_SPLIT)
    # Words that are tokens without merges that lead to them: what ignore_merges is for.
    tokens += ["Ġignorance", "ĠðŁĺĢðŁĺĢ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
    begin = "<|begin_of_text|>"
    names = [begin, "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return make(
        tokens,
        merges,
        [(name, {}) for name in names],
        pre=sequence("pretokenizers", split(LLAMA3_SPLIT), byte_level()),
        post=lambda _, entries: sequence(
            "processors", byte_level(prefix=True), template(begin, number_of(entries, begin))
        ),
        decoder=byte_level(prefix=True, regex=True),
        ignore_merges=True,
    )


def qwen2(corpus):
    tokens, merges = train_bytes(corpus, 1000, QWEN2_SPLIT)
    plain = {"special": False}
    return make(
        tokens,
        merges,
        [(name, {}) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
        + [(name, plain) for name in ("<tool_call>", "</tool_call>", "<think>", "</think>")],
        normalizer={"type": "NFC"},
        pre=sequence("pretokenizers", split(QWEN2_SPLIT), byte_level()),
        post=lambda *_: byte_level(),
        decoder=byte_level(),
        continuing_subword_prefix="",
        end_of_word_suffix="",
    )


def llama2(corpus):
    tokens, merges = train_characters(corpus, 900, crossing=False)
    return make(
        ["<unk>", "<s>", "</s>"] + tokens,
        merges,
        [(name, {}) for name in ("<unk>", "<s>", "</s>")],
        normalizer=sequence(
            "normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")
        ),
        post=lambda vocabulary, _: template("<s>", vocabulary["<s>"]),
        decoder=sequence("decoders", *FALLBACK_DECODERS, STRIP),
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
        merges_as_text=True,
    )


def mistral(corpus):
    tokens, merges = train_characters(corpus, 900, crossing=False)
    return make(
        ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"] + tokens,
        merges,
        [(name, {}) for name in ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")],
        pre={
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "first",
            "split": False,
        },
        post=lambda vocabulary, _: template("<s>", vocabulary["<s>"]),
        decoder=sequence("decoders", *FALLBACK_DECODERS, STRIP),
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )


def gemma(corpus):
    # Tokens that reach over spaces and lines: nothing may be cut at a space here.
    tokens, merges = train_characters(corpus, 900, crossing=True)
    plain = {"special": False}
    first = ["<pad>", "<eos>", "<bos>", "<unk>"]
    turns = ["<start_of_turn>", "<end_of_turn>"]
    runs = ["\n" * n for n in range(2, 6)] + ["▁" * n for n in range(2, 6)] + ["<table>", "</table>"]
    runs = [run for run in runs if run not in tokens]
    return make(
        first + turns + runs + tokens,
        merges,
        [(name, {}) for name in first + turns] + [(name, plain) for name in runs],
        normalizer=replace(" ", "▁"),
        pre={
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        post=lambda vocabulary, _: template("<bos>", vocabulary["<bos>"]),
        decoder=sequence("decoders", *FALLBACK_DECODERS),
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )


def tekken(corpus):
    """Mistral Nemo's way to split: by the case of letters, with marks."""
    tokens, merges = train_bytes(corpus, 800, TEKKEN_SPLIT)
    return make(
        tokens,
        merges,
        [(name, {}) for name in ("<s>", "</s>", "[INST]", "[/INST]")],
        pre=sequence("pretokenizers", split(TEKKEN_SPLIT), byte_level()),
        post=lambda _, entries: template("</s>", number_of(entries, "</s>"), after=True),
        decoder=byte_level(prefix=True, regex=True),
        ignore_merges=True,
    )


def pieces(corpus):
    """Every kind of step, and every flag of added tokens, that the families leave out."""
    tokens, merges = train_bytes(corpus, 700, GPT2_SPLIT)
    added = [
        ("<|endoftext|>", {}),
        ("[LEFT]", {"lstrip": True}),
        ("[RIGHT]", {"rstrip": True, "special": False}),
        ("[BOTH]", {"lstrip": True, "rstrip": True, "normalized": True}),
        ("word", {"single_word": True, "normalized": True, "special": False}),
        ("Straße", {"normalized": True, "special": False}),
        ("  ", {"rstrip": True, "special": False}),
        ("   ", {"special": False}),
        ("<s>", {"single_word": True}),
    ]
    return make(
        tokens,
        merges,
        added,
        normalizer=sequence(
            "normalizers",
            {"type": "NFKC"},
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": r"\d\d+x"}, "content": "<num>"},
        ),
        pre=sequence(
            "pretokenizers",
            split(r"[\r\n]"),
            split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+", "Contiguous"),
            split(r"\s+$", "MergedWithPrevious"),
            split(r"[一-龥ࠀ-一가-퟿]+|\p{Thai}+", "MergedWithNext"),
            {"type": "Digits", "individual_digits": True},
            split(r"\w+|[^\w\s]+", "MergedWithPrevious", invert=True),
            byte_level(prefix=True, regex=True),
        ),
        post=lambda *_: byte_level(),
        decoder=byte_level(),
    )


def unknown(corpus):
    """Characters that no token has, without byte fallback; tokens spelled before they are split."""
    tokens, merges = train([line.lower() for line in corpus], 500, pre_tokenizers.Metaspace())
    latin = [t for t in tokens if all(ord(c) < 0x180 or c == "▁" for c in t)]
    merges = [m for m in merges if all(t in latin for t in (*m, "".join(m)))]
    return make(
        ["<unk>", "</s>"] + latin,
        merges,
        [(name, {"normalized": True}) for name in ("<unk>", "</s>")],
        normalizer=sequence("normalizers", {"type": "NFD"}, {"type": "NFC"}),
        pre=sequence(
            "pretokenizers",
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            {"type": "WhitespaceSplit"},
            {"type": "Digits", "individual_digits": False},
        ),
        decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        unk_token="<unk>",
        fuse_unk=False,
    )


FAMILIES = [gpt2, llama3, qwen2, llama2, mistral, gemma, tekken, pieces, unknown]


def text_of(raw):
    return raw.decode("utf-8", errors="replace")


def write_family(family, corpus, strings, folder):
    definition = family(corpus)
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    tokenizer = Tokenizer.from_str(text)
    (folder / f"{family.__name__}.json").write_text(text + "\n", encoding="utf-8")

    hashes = bytearray()
    shown = []
    for raw in strings:
        ids = tokenizer.encode(text_of(raw), add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False).encode()
        packed = struct.pack(f"<{len(ids) + 1}I", len(ids), *ids)
        hashes += struct.pack("<I", hard_strings.fnv1a(packed + back))
        if len(shown) < SHOWN:
            shown.append(ids)
    (folder / f"{family.__name__}.hashes").write_bytes(hashes)

    bare = tokenizer.encode("x", add_special_tokens=False).ids
    framed = tokenizer.encode("x").ids
    at = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
    print(f"{family.__name__}: {tokenizer.get_vocab_size()} tokens")
    return {
        "vocabulary": max(tokenizer.get_vocab().values()) + 1,
        "prefix": framed[:at],
        "suffix": framed[at + len(bare) :],
        "ids": shown,
    }


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=root / "tests" / "golden" / "tokenizers")
    folder = parser.parse_args().out
    # The C++ side's libraries know this version of Unicode; newer characters would differ.
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version

    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    rng = random.Random(SEED)
    fragments = hard_strings.fragments(rng)
    strings = hard_strings.strings(fragments, SEED, STRINGS)
    corpus = hard_strings.corpus(rng)
    golden = {
        "made_with": {"tokenizers": tokenizers.__version__, "unicode": "14.0.0"},
        "seed": SEED,
        "strings": STRINGS,
        "strings_hash": hard_strings.fnv1a(b"".join(strings)),
        "fragments": [fragment.hex() for fragment in fragments],
        "families": {f.__name__: write_family(f, corpus, strings, folder) for f in FAMILIES},
    }
    text = json.dumps(golden, separators=(",", ":"))
    (folder / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
