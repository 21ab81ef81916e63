#!/usr/bin/env python3
"""Ebb's tokenizers beside the tokenizers library, one thread each, on the same text.

usage: tokenizers.py --bench build/release/bench/tokenizer_bench [--text FILE...] [--code FILE...]

Trains tokenizers of real size with each family's settings on the text (not
timed), encodes it with both in turns, checks that the ids agree, and prints the
best of several repetitions of each in one run, in processor time (others may
use the machine too). The library is timed twice: with
encode(), and with encode_batch_fast(), which leaves out offsets. Needs the
Python package tokenizers; the text defaults to what lies under /usr/share/doc
and the code to Python's own library.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.pop(0)  # this file has the package's name
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "golden"))

from tokenizers import Tokenizer

import make_tokenizers as families

SEPARATOR = "\x1e"


def read(paths, bytes_wanted):
    """Documents of at most 64 KiB, in the order of the paths."""
    documents, size = [], 0
    for path in paths:
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rb") as file:
                text = file.read(1 << 16).decode("utf-8", errors="ignore")
        except OSError:
            continue
        text = text.replace(SEPARATOR, "")
        if len(text) > 500:
            documents.append(text)
            size += len(text)
        if size > bytes_wanted:
            break
    return documents


def pieces_for_training(documents):
    return [line for document in documents for line in document.splitlines(keepends=True)]


def build(name, corpus, size):
    """A tokenizer.json with the family's settings and a vocabulary of real size."""
    train_bytes, train_characters = families.train_bytes, families.train_characters
    families.train_bytes = lambda c, _, regex: train_bytes(c, size, regex)
    families.train_characters = lambda c, _, crossing: train_characters(c, size, False)
    try:
        return json.dumps(getattr(families, name)(corpus))
    finally:
        families.train_bytes, families.train_characters = train_bytes, train_characters


def fnv(value, ids):
    for number in ids:
        value = ((value ^ number) * 0x01000193) & 0xFFFFFFFF
    return value


def peer_pass(tokenizer, documents, fast):
    """Seconds in the library; lists of Python ints are made outside."""
    seconds, encodings = 0.0, []
    for document in documents:
        start = time.process_time()
        if fast:
            encoding = tokenizer.encode_batch_fast([document], add_special_tokens=False)[0]
        else:
            encoding = tokenizer.encode(document, add_special_tokens=False)
        seconds += time.process_time() - start
        encodings.append(encoding)
    return seconds, encodings


def compare(name, label, definition, documents, bench, repeats):
    with tempfile.TemporaryDirectory() as folder:
        model, text = Path(folder, "tokenizer.json"), Path(folder, "text")
        model.write_text(definition)
        text.write_bytes(SEPARATOR.join(documents).encode())
        start = time.process_time()
        tokenizer = Tokenizer.from_file(str(model))
        load = time.process_time() - start
        ours, theirs, fast, value = None, float("inf"), float("inf"), None
        for _ in range(repeats):  # in turns: the machine may be busy with other things
            answer = json.loads(subprocess.check_output([bench, model, text, "2"]))
            ours = min(ours or answer, answer, key=lambda a: a["seconds"])
            seconds, encodings = peer_pass(tokenizer, documents, False)
            theirs = min(theirs, seconds)
            fast = min(fast, peer_pass(tokenizer, documents, True)[0])
            if value is None:
                value = 0x811C9DC5
                for encoding in encodings:
                    value = fnv(value, encoding.ids)
    megabytes = ours["bytes"] / 1e6
    print(
        f"{name:8} {label:5} {megabytes:6.1f} {ours['tokens']:9d} "
        f"{megabytes / ours['seconds']:7.1f} {megabytes / theirs:8.1f} {megabytes / fast:8.1f} "
        f"{theirs / ours['seconds']:6.1f}x {fast / ours['seconds']:6.1f}x "
        f"{load / ours['load']:6.1f}x  {'equal' if ours['hash'] == value else 'DIFFERENT'}",
        flush=True,
    )
    return ours["hash"] == value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--text", type=Path, nargs="*")
    parser.add_argument("--code", type=Path, nargs="*")
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--families", nargs="*", default="gpt2 llama3 qwen2 llama2 mistral gemma".split())
    options = parser.parse_args()

    text = options.text or sorted(Path("/usr/share/doc").rglob("*.gz")) + sorted(
        Path("/usr/share/doc").rglob("copyright")
    )
    code = options.code or sorted(Path(os.__file__).parent.glob("**/*.py"))
    sets = {"text": read(text, options.megabytes * 1e6), "code": read(code, options.megabytes * 1e6)}
    corpus = pieces_for_training([d for documents in sets.values() for d in documents[::2]])
    print("family   what      MB    tokens    Ebb   encode     fast   (MB/s)  speedups: encode, fast, load; ids")
    good = True
    for name in options.families:
        definition = build(name, corpus, options.vocabulary)
        for label, documents in sets.items():
            good &= compare(name, label, definition, documents, options.bench, options.repeats)
    sys.exit(0 if good else "the ids differ")


if __name__ == "__main__":
    main()
