"""What a new user does, from a Hugging Face folder to transformers and back.

usage: check_journey.py EBB

Makes a small random Qwen2-like folder with a tokenizer and a chat template, and a JSONL file of prompts;
fine-tunes the folder with Ebb under a memory limit that its training does not fit in, evaluates, saves; loads
the result in transformers and compares greedy generations of both, token by token. Prints what it finds and
ends with status 1 if something differs.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
WORDS = "the sea ebbs and flows twice a day because moon pulls water toward itself high low tide boat sand wind".split()


def make_tokenizer(folder, lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = CHAT
    fast.save_pretrained(folder)
    return fast


def make_data(chats, prompts):
    draw = random.Random(1)
    lines = []
    with open(chats, "w") as chat_file, open(prompts, "w") as prompt_file:
        for i in range(600):
            question = f"What does word {i % 40} say?"
            answer = " ".join(WORDS[(i % 40 + k) % len(WORDS)] for k in range(4 + i % 5))
            lines += [question, answer]
            if draw.random() < 0.7:
                row = {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
                chat_file.write(json.dumps(row) + "\n")
            else:
                prompt_file.write(json.dumps({"prompt": question + "\n", "completion": answer}) + "\n")
    return lines


def run(*command):
    print("$", " ".join(map(str, command)), flush=True)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def main():
    ebb = sys.argv[1]
    folder = pathlib.Path(tempfile.mkdtemp())
    model, out = folder / "model", folder / "run"
    data = [folder / "chats.jsonl", folder / "prompts.jsonl"]
    lines = make_data(*data)
    tokenizer = make_tokenizer(model, lines)
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2,
        vocab_size=len(tokenizer), max_position_embeddings=256, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
    )
    transformers.Qwen2ForCausalLM(config).to(torch.float32).save_pretrained(model, max_shard_size="1MB")
    print(run(ebb, "inspect", model).stdout.split("\nmodel-0")[0])
    for file in data:
        print(run(ebb, "inspect", file).stdout)
    train = [
        ebb, "train", "--model", model, "--data", *data, "--out", out, "--sequence", 64, "--micro-batch", 8, "--steps", 120,
        "--learning-rate", "3e-3", "--warmup", 10, "--eval-share", "0.05", "--eval-every", 40, "--dtype", "fp32", "--device", "cpu",
    ]
    limit = ["--device-memory", "24MiB"]
    resident = subprocess.run([*map(str, train), *limit, "--states", "resident", "--recompute", "none"], capture_output=True)
    if resident.returncode == 0:
        sys.exit("everything fits on the device: the limit shows nothing")
    done = run(*train, *limit)
    print("\n".join((done.stdout + done.stderr).splitlines()[-8:]))
    checkpoint = max(path for path in out.iterdir() if path.is_dir() and (path / "config.json").exists())

    theirs = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    names = transformers.AutoTokenizer.from_pretrained(checkpoint)
    wrong = 0
    for number in range(12):
        question = f"What does word {number} say?"
        chat = [{"role": "user", "content": question}]
        ids = names.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        with torch.no_grad():
            expected = theirs.generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=names.pad_token_id)[0, ids.shape[1]:]
        expected = [i for i in expected.tolist() if i != names.eos_token_id]
        ours = json.loads(
            run(ebb, "generate", "--model", out, "--chat", "--prompt", question, "--max-tokens", 24, "--temperature", 0,
                "--dtype", "fp32", "--device", "cpu", "--json").stdout
        )
        same = ours["prompt_ids"] == ids[0].tolist() and ours["ids"] == expected
        wrong += not same
        print("same" if same else "DIFFERENT", repr(ours["text"]), repr(names.decode(expected)))
    print("all the same" if wrong == 0 else f"{wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
