"""The Trainer of transformers: train, evaluate, resume."""

import tempfile
import unittest
import warnings

import torch

import ebb.torch
from models import same_weights

try:
    import accelerate  # noqa: F401
    import transformers
except ImportError:
    transformers = None


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 256, (32,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


@unittest.skipIf(transformers is None, "transformers and accelerate are not installed")
class InTrainer(unittest.TestCase):
    def train(self, folder, steps, dtype, resume=None):
        torch.manual_seed(0)
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
            hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=256, tie_word_embeddings=True)).to(dtype)
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            save_steps=3, report_to=[], use_cpu=True, lr_scheduler_type="constant",
            max_grad_norm=1.0, disable_tqdm=True)
        trainer = transformers.Trainer(
            model, arguments, train_dataset=Sentences(), eval_dataset=Sentences(),
            optimizer_cls_and_kwargs=(ebb.torch.AdamW, {"lr": 1e-3, "threads": 2}))
        trainer.train(resume_from_checkpoint=resume)
        return model, trainer

    def test_resumed_is_uninterrupted(self):
        for dtype in (torch.float32, torch.bfloat16):
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                through, trainer = self.train(f"{folder}/through", 6, dtype)
                self.assertLess(trainer.evaluate()["eval_loss"], 5.6)
                self.train(f"{folder}/resumed", 3, dtype)
                resumed, trainer = self.train(f"{folder}/resumed", 6, dtype,
                                              f"{folder}/resumed/checkpoint-3")
                self.assertTrue(same_weights(through, resumed))
                self.assertEqual(trainer.optimizer.optimizer.report.step, 6)


if __name__ == "__main__":
    unittest.main()
