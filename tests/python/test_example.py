"""The example keeps a limit that the plain optimizer exceeds; the table of peers runs."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


class Examples(unittest.TestCase):
    def test_finetune(self):
        text = run(ROOT / "examples/torch_finetune.py", "--device", "cpu", "--steps", 2, "--width",
                   512, "--layers", 6, "--batch", 2, "--sequence", 32)
        found = re.findall(r"(plain|ebb) +peak +(\d+) MiB +(.*)", text)
        self.assertEqual([row[0] for row in found], ["plain", "ebb"] * 2, text)
        limit = int(re.search(r"within (\d+) MiB", text)[1])
        self.assertGreater(int(found[2][1]), limit)
        self.assertLessEqual(int(found[3][1]), limit)
        self.assertIn("passed the limit", found[2][2])
        self.assertRegex(found[3][2], r"loss [\d.]+ to [\d.]+ in 2 steps")

    def test_table_of_peers(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rows.json")
            text = run(ROOT / "bench/peers/torch_optimizers.py", "--device", "cpu", "--model",
                       "tiny", "--tokens", 64, "--sequence", 32, "--steps", 2, "--warmup", 1,
                       "--eager", "--json", file, "--only", "none", "resident", "ebb")
            rows = json.loads(file.read_text())["rows"]
        losses = {row: found["losses"] for row, found in rows.items()}
        self.assertEqual(losses["ebb"][0], losses["resident"][0], text)
        # The same rule, rounded to bf16 weights in other ways.
        self.assertLess(abs(losses["ebb"][-1] - losses["resident"][-1]), 0.05, text)
        self.assertIn("of resident", text)


if __name__ == "__main__":
    unittest.main()
