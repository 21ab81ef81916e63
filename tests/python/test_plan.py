"""ebb.torch.plan: its bytes are those that are there."""

import unittest

import torch

import ebb
import ebb.torch
from models import batch, make_model

# Times are none of these tests' business.
SPEEDS = {"flops_per_second": 1e12, "link_bytes_per_second": 1e9,
          "host_parameters_per_second": 1e8}


def planned(model=None, **options):
    return ebb.torch.plan(model or make_model(), batch(0)[0], **{**SPEEDS, **options})


class TorchPlan(unittest.TestCase):
    def test_bytes_are_those_that_autograd_keeps(self):
        model, inputs = make_model(), batch(0)[0]
        offload = ebb.torch.offload_activations(limit="1GiB", smallest=0, to="disk", model=model)
        with offload:
            loss = model(inputs).mean()
        offload.synchronize()
        # The input is the caller's: it is moved, and no activation.
        self.assertEqual(planned().activation_bytes,
                         offload.placement()["away_bytes"] - inputs.nbytes)
        loss.backward()
        made = planned()
        count = sum(p.numel() for p in model.parameters())
        self.assertEqual((made.parameters, made.weight_bytes, made.gradient_bytes),
                         (count, 4 * count, 4 * count))
        # Both products of each layer's backward pass but the first one's, and the forward one.
        self.assertEqual(made.flops, 2 * 16 * (40 * 96 * 2 + (96 * 48 + 48 * 8) * 3))
        self.assertIsNone(next(model.parameters()).grad_fn)

    def test_the_fastest_that_fits_is_chosen(self):
        free = planned()
        self.assertEqual((free.choice.states, free.choice.activations), ("resident", 0))
        all_bytes = free.choice.device_bytes
        for limit in (all_bytes, all_bytes * 9 // 10, all_bytes * 3 // 4):
            made = planned(device_memory=limit)
            self.assertTrue(made.choice.fits)
            self.assertLessEqual(made.choice.device_bytes, limit)
            self.assertEqual(made.choice.seconds, min(c.seconds for c in made.choices if c.fits))
            self.assertIn(made.choice.states, str(made))
        self.assertNotEqual(made.choice.states, "resident")

    def test_its_code_runs(self):
        model = make_model()
        made = planned(model, device_memory=planned().choice.device_bytes * 3 // 4)
        names = {"ebb": ebb, "model": model}
        exec(made.choice.code().replace("clip=1.0", "clip=1.0, threads=1"), names)
        model(batch(0)[0]).mean().backward()
        names["optimizer"].step()

    def test_what_cannot_fit_is_refused(self):
        for limits, tier in (({"device_memory": 1000}, "device"),
                             ({"device_memory": planned().choice.device_bytes // 2,
                               "host_memory": 10}, "host")):
            with self.assertRaisesRegex(ebb.OutOfBudget, "smaller batch") as caught:
                planned(**limits)
            self.assertIn(tier, [s["tier"] for s in caught.exception.shortfalls])
            self.assertTrue(all(s["missing"] > 0 for s in caught.exception.shortfalls))
        with self.assertRaisesRegex(ValueError, "nothing to train"):
            planned(make_model().requires_grad_(False))

    def test_formats_dictionaries_and_tied_weights(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(100, 32)
                self.head = torch.nn.Linear(32, 100, bias=False)
                self.head.weight = self.embedding.weight

            def forward(self, ids, scale=1):
                return {"logits": self.head(self.embedding(ids)) * scale}

        inputs = {"ids": torch.zeros(2, 5, dtype=torch.long), "scale": 2}
        model = Tied().bfloat16()
        with self.assertRaisesRegex(ValueError, "give loss="):
            ebb.torch.plan(model, inputs, **SPEEDS)
        sizes = []
        for state_format, state in (("exact", 10), ("bf16", 6), ("int8", 4)):
            made = ebb.torch.plan(model, inputs, loss=lambda out: out["logits"].sum(),
                                  state_format=state_format, **SPEEDS)
            self.assertEqual((made.parameters, made.weight_bytes), (3200, 6400))
            sizes.append(made.choice.device_bytes)
            self.assertEqual(sizes[-1] - sizes[0], 3200 * (state - 10))

    def test_states_are_as_large_as_the_library_s(self):
        for dtype in (torch.float32, torch.bfloat16):
            for state_format in ("exact", "bf16", "int8"):
                model = make_model(dtype)
                inputs = batch(0, dtype)[0]
                made = ebb.torch.plan(model, inputs, state_format=state_format, **SPEEDS)
                optimizer = ebb.torch.AdamW(model.parameters(), states="resident", threads=1,
                                            state_format=state_format)
                model(inputs).float().mean().backward()
                optimizer.step()
                states = made.choice.device_bytes - made.weight_bytes - made.gradient_bytes \
                    - made.activation_bytes
                held = optimizer.placement()["device_bytes"]
                self.assertLess(abs(held - states), 0.25 * states + 16384, (dtype, state_format))


if __name__ == "__main__":
    unittest.main()
