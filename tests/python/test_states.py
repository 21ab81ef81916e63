"""States leave and come back: ours, and torch.optim's."""

import copy
import io
import unittest

import torch

import ebb.torch
from models import adamw, distance, make_model, same_states, same_weights, train


def through_a_file(state):
    """As it is saved and loaded, with nothing but tensors and numbers in it."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class States(unittest.TestCase):
    def test_resumed_is_uninterrupted(self):
        for dtype in (torch.float32, torch.bfloat16):
            for state_format in ("exact", "bf16", "int8"):
                through, first = make_model(dtype), make_model(dtype)
                options = {"state_format": state_format, "seed": 5, "clip": 0.5}
                optimizer = adamw(through, **options)
                train(through, optimizer, range(12))
                before = adamw(first, **options)
                train(first, before, range(6))
                state = through_a_file({"model": first.state_dict(),
                                        "optimizer": before.state_dict()})
                second = make_model(dtype, seed=99)
                second.load_state_dict(state["model"])
                # Elsewhere than it was saved.
                after = adamw(second, states="host", **options)
                after.load_state_dict(state["optimizer"])
                train(second, after, range(6, 12))
                self.assertTrue(same_weights(through, second), f"{dtype} {state_format}")
                self.assertTrue(same_states(optimizer.state_dict(), after.state_dict()))
                self.assertEqual(after.report.step, 12)

    def test_tensors_are_neither_cast_nor_moved(self):
        model = make_model(torch.bfloat16)
        optimizer = adamw(model)
        train(model, optimizer, range(2))
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        again = optimizer.state_dict()
        self.assertTrue(same_states(state, again))
        for value in again["state"][0].values():
            self.assertEqual((value.dtype, value.device.type), (torch.float32, "cpu"))
        # What was given is a copy: it stays as it is.
        kept = copy.deepcopy(state)
        train(model, optimizer, range(2))
        self.assertTrue(same_states(state, kept))

    def test_state_of_torch_is_taken_and_given(self):
        reference, ours = make_model(), make_model()
        theirs = torch.optim.AdamW(reference.parameters(), lr=1e-2)
        train(reference, theirs, range(10))
        ours.load_state_dict(reference.state_dict())
        mine = adamw(ours, lr=7.0)
        mine.load_state_dict(through_a_file(theirs.state_dict()))
        self.assertEqual(mine.param_groups[0]["lr"], 1e-2)
        train(ours, mine, range(10, 20))
        train(reference, theirs, range(10, 20))
        self.assertLess(distance(ours, reference), 1e-4)
        # And back.
        back = torch.optim.AdamW(reference.parameters(), lr=9.0)
        back.load_state_dict(through_a_file(mine.torch_state_dict()))
        reference.load_state_dict(ours.state_dict())
        train(ours, mine, range(20, 30))
        train(reference, back, range(20, 30))
        self.assertLess(distance(ours, reference), 1e-4)

    def test_int8_goes_to_other_formats_through_torch(self):
        model = make_model()
        optimizer = adamw(model, state_format="int8")
        train(model, optimizer, range(5))
        exact = adamw(model)
        with self.assertRaisesRegex(ValueError, "int8"):
            exact.load_state_dict(optimizer.state_dict())
        exact.load_state_dict(optimizer.torch_state_dict())
        train(model, exact, range(5, 7))
        self.assertEqual(float(exact.state_dict()["state"][0]["step"]), 7)

    def test_hooks_see_what_is_saved_and_loaded(self):
        model = make_model()
        optimizer = adamw(model)
        train(model, optimizer, range(2))
        seen = []
        optimizer.register_state_dict_post_hook(lambda o, state: seen.append(len(state["state"])))
        optimizer.register_load_state_dict_pre_hook(
            lambda o, state: seen.append(state["state"][0]["exp_avg"].shape))
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
        optimizer.load_state_dict(optimizer.state_dict())
        self.assertEqual(seen, [8, model[0].weight.shape, "loaded"])

    def test_states_before_a_step_and_of_schedulers(self):
        model = make_model()
        optimizer = adamw(model)
        self.assertEqual(optimizer.state_dict()["state"], {})
        optimizer.load_state_dict(optimizer.state_dict())
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        train(model, optimizer, range(3), scheduler.step)
        state = optimizer.state_dict()
        self.assertEqual(state["param_groups"][0]["lr"], 1e-2 / 4)
        self.assertEqual(state["param_groups"][0]["initial_lr"], 1e-2)

    def test_wrong_states_are_refused_and_change_nothing(self):
        model = make_model()
        optimizer = adamw(model)
        train(model, optimizer, range(2))
        good = optimizer.state_dict()

        def refused(words, change):
            bad = copy.deepcopy(good)
            change(bad)
            with self.assertRaisesRegex(ValueError, words):
                optimizer.load_state_dict(bad)
            self.assertTrue(same_states(optimizer.state_dict(), good))

        refused("shape", lambda s: s["state"][0].update(exp_avg=torch.ones(3)))
        refused("another rule", lambda s: s["state"][0].pop("exp_avg_sq"))
        refused("amsgrad", lambda s: s["param_groups"][0].update(amsgrad=True))
        refused("none of the groups", lambda s: s["param_groups"][0]["params"].pop())
        refused("none of the groups", lambda s: s["state"].update({99: s["state"].pop(0)}))

    def test_every_rule(self):
        for kind in (ebb.torch.Adam, ebb.torch.Lion, ebb.torch.SGD, ebb.torch.Adagrad):
            through, first = make_model(torch.bfloat16), make_model(torch.bfloat16)
            optimizer = kind(through.parameters(), lr=1e-3, threads=2)
            train(through, optimizer, range(8))
            before = kind(first.parameters(), lr=1e-3, threads=2)
            train(first, before, range(4))
            after = kind(first.parameters(), threads=2)
            after.load_state_dict(through_a_file(before.state_dict()))
            train(first, after, range(4, 8))
            self.assertTrue(same_weights(through, first), kind.__name__)


if __name__ == "__main__":
    unittest.main()
