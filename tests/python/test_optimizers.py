"""Optimizers in a plain loop: the same curves as torch.optim's, and what else people rely on."""

import unittest
import warnings

import torch

import ebb
import ebb.torch
from models import adamw, distance, loss_of, make_model, same_states, same_weights, train


class Curves(unittest.TestCase):
    def follow(self, ours, theirs, steps=200, bound=1e-6):
        """Weights stay together within so much a step, on the same gradients."""
        one, other = make_model(), make_model()
        mine, its = ours(one.parameters()), theirs(other.parameters())
        for step in range(steps):
            other.zero_grad()
            loss_of(other, step).backward()
            for a, b in zip(one.parameters(), other.parameters()):
                with torch.no_grad():
                    a.copy_(b)  # so that a step's difference is its own
                a.grad = b.grad.clone()
            mine.step()
            its.step()
            self.assertLess(distance(one, other), bound, f"step {step}")

    def test_adamw(self):
        self.follow(lambda p: ebb.torch.AdamW(p, lr=1e-2, threads=2),
                    lambda p: torch.optim.AdamW(p, lr=1e-2))

    def test_adam(self):
        self.follow(lambda p: ebb.torch.Adam(p, lr=1e-2, weight_decay=0.1, threads=2),
                    lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1), steps=50)

    def test_sgd(self):
        for options in ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True,
                                                "weight_decay": 0.1}):
            self.follow(lambda p: ebb.torch.SGD(p, lr=1e-2, threads=2, **options),
                        lambda p: torch.optim.SGD(p, lr=1e-2, **options), steps=30)

    def test_adagrad(self):
        options = {"lr": 1e-2, "initial_accumulator_value": 0.1, "weight_decay": 0.01}
        self.follow(lambda p: ebb.torch.Adagrad(p, threads=2, **options),
                    lambda p: torch.optim.Adagrad(p, **options), steps=30)

    def test_lion_steps_by_its_learning_rate(self):
        model = make_model()
        before = [p.detach().clone() for p in model.parameters()]
        train(model, ebb.torch.Lion(model.parameters(), lr=1e-3, threads=2), range(1))
        for old, new in zip(before, model.parameters()):
            moved = (new - old).abs()
            self.assertTrue(torch.allclose(moved[moved > 0], torch.tensor(1e-3), atol=1e-6))

    def test_bf16_weights_have_fp32_masters(self):
        """The curve of fp32 weights that are rounded to bf16 for every pass."""
        model, shadow = make_model(torch.bfloat16), make_model(torch.bfloat16)
        masters = [p.detach().float().requires_grad_() for p in shadow.parameters()]
        ours, theirs = adamw(model), torch.optim.AdamW(masters, lr=1e-2)
        for step in range(200):
            loss = train(model, ours, [step])[0]
            with torch.no_grad():
                for p, master in zip(shadow.parameters(), masters):
                    p.copy_(master)
            shadow.zero_grad()
            other = loss_of(shadow, step)
            other.backward()
            for p, master in zip(shadow.parameters(), masters):
                master.grad = p.grad.float()
            theirs.step()
            self.assertLess(abs(loss - other.item()), 2e-2 * (1 + other.item()), f"step {step}")
        self.assertLess(loss, 0.1)

    def test_placements_give_the_same_bits(self):
        runs = {}
        for options in ({"states": "resident"}, {"states": "stream"}, {"states": "host"},
                        {"states": "stream", "offload_fraction": 0.5},
                        {"states": "stream", "host_fraction": 0.4}, {"threads": 1}):
            for state_format in ("exact", "bf16", "int8"):
                model = make_model(torch.bfloat16)
                optimizer = adamw(model, state_format=state_format, clip=0.5, seed=3,
                                  chunk_parameters=4096, **options)
                losses = train(model, optimizer, range(25))
                first = runs.setdefault(state_format, (losses, model, optimizer.state_dict()))
                self.assertEqual(losses, first[0], f"{options} {state_format}")
                self.assertTrue(same_weights(model, first[1]))
                self.assertTrue(same_states(optimizer.state_dict(), first[2]))
        self.assertFalse(same_weights(runs["exact"][1], runs["int8"][1]))


class Contract(unittest.TestCase):
    def test_groups_have_their_own_settings(self):
        ours, theirs = make_model(), make_model()

        def groups(model):
            matrices = [p for p in model.parameters() if p.dim() > 1]
            others = [p for p in model.parameters() if p.dim() < 2]
            return [{"params": matrices, "lr": 3e-3, "weight_decay": 0.2},
                    {"params": others, "betas": (0.8, 0.9), "eps": 1e-6}]

        mine = ebb.torch.AdamW(groups(ours), lr=1e-2, weight_decay=0.0, threads=2)
        its = torch.optim.AdamW(groups(theirs), lr=1e-2, weight_decay=0.0)
        schedulers = [torch.optim.lr_scheduler.OneCycleLR(o, [2e-3, 2e-2], total_steps=40)
                      for o in (mine, its)]
        train(ours, mine, range(20), schedulers[0].step)
        train(theirs, its, range(20), schedulers[1].step)
        self.assertEqual(mine.param_groups[0]["betas"], its.param_groups[0]["betas"])
        self.assertLess(distance(ours, theirs), 1e-4)

    def test_groups_can_come_later(self):
        ours, theirs = make_model(), make_model()
        mine = ebb.torch.AdamW(ours[0].parameters(), lr=1e-2, threads=2)
        its = torch.optim.AdamW(theirs[0].parameters(), lr=1e-2)
        for model, optimizer in ((ours, mine), (theirs, its)):
            train(model, optimizer, range(5))
            optimizer.add_param_group({"params": list(model[2:].parameters()), "lr": 2e-2})
            train(model, optimizer, range(5, 15))
        self.assertLess(distance(ours, theirs), 1e-4)
        steps = [float(state["step"]) for state in mine.state_dict()["state"].values()]
        self.assertEqual(steps, [15, 15, 10, 10, 10, 10, 10, 10])

    def test_parameters_without_gradient_stay_as_they_are(self):
        ours, theirs = make_model(), make_model()
        mine, its = adamw(ours), torch.optim.AdamW(theirs.parameters(), lr=1e-2)
        for step in range(12):
            for model, optimizer in ((ours, mine), (theirs, its)):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                if step % 3 == 0:
                    model[0].weight.grad = None
                optimizer.step()
        self.assertLess(distance(ours, theirs), 1e-4)
        self.assertEqual(float(mine.state_dict()["state"][0]["step"]), 8)
        mine.zero_grad()
        mine.step()  # none at all
        self.assertEqual(mine.report.step, 12)

    def test_frozen_parameters_take_no_memory_until_they_learn(self):
        model = make_model()
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)
        optimizer = adamw(model)
        train(model, optimizer, range(3))
        placed = optimizer.placement()
        learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.assertEqual(placed["streamed_parameters"], learning)
        model[0].weight.requires_grad_(True)
        before = model[0].weight.detach().clone()
        train(model, optimizer, range(3))
        self.assertFalse(torch.equal(before, model[0].weight))

    def test_tied_parameters(self):
        def tied():
            model = make_model()
            model[3] = torch.nn.Linear(96, 96)
            model[5] = torch.nn.Linear(96, 8)
            model[3].weight = torch.nn.Parameter(torch.eye(96))
            model.append(torch.nn.Linear(8, 8))
            model.append(torch.nn.Linear(8, 8))
            model[7].weight = model[6].weight
            return model

        torch.manual_seed(0)
        ours = tied()
        theirs = tied()
        theirs.load_state_dict(ours.state_dict())
        train(ours, adamw(ours), range(10))
        train(theirs, torch.optim.AdamW(theirs.parameters(), lr=1e-2), range(10))
        self.assertLess(distance(ours, theirs), 1e-4)
        # Two parameters in the same memory would be updated twice.
        other = torch.nn.Parameter(torch.empty(0))
        other.data = ours[0].weight.data
        other.grad = torch.zeros_like(other)
        ours[0].weight.grad = torch.zeros_like(other)
        with self.assertRaisesRegex(ebb.Error, "share memory"):
            ebb.torch.AdamW([ours[0].weight, other]).step()

    def test_accumulation_closures_and_hooks(self):
        ours, theirs = make_model(), make_model()
        mine, its = adamw(ours), torch.optim.AdamW(theirs.parameters(), lr=1e-2)
        calls = []
        mine.register_step_pre_hook(lambda *_: calls.append("before"))
        mine.register_step_post_hook(lambda *_: calls.append("after"))
        for model, optimizer in ((ours, mine), (theirs, its)):
            for step in range(5):
                def closure():
                    optimizer.zero_grad()
                    for micro in (0, 1):
                        (loss_of(model, 2 * step + micro) / 2).backward()
                    return loss_of(model, step)

                loss = optimizer.step(closure)
                self.assertGreater(loss.item(), 0)
        self.assertEqual(calls, ["before", "after"] * 5)
        self.assertLess(distance(ours, theirs), 1e-4)

    def test_zero_grad(self):
        model = make_model()
        optimizer = adamw(model)
        train(model, optimizer, range(1))
        optimizer.zero_grad(set_to_none=False)
        self.assertEqual(float(model[0].weight.grad.abs().sum()), 0)
        optimizer.zero_grad()
        self.assertIsNone(model[0].weight.grad)

    def test_clipping(self):
        """clip= is exact; clip_grad_norm_ rounds bf16 gradients."""
        for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
            own, by_torch = make_model(dtype), make_model(dtype)
            one, other = adamw(own, lr=1e-3, clip=0.1), adamw(by_torch, lr=1e-3)
            for step in range(10):
                for model, optimizer in ((own, one), (by_torch, other)):
                    optimizer.zero_grad()
                    loss_of(model, step).backward()
                    if optimizer is other:
                        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
                self.assertLess(abs(one.report.norm - float(norm)), 1e-2 * float(norm))
                self.assertLess(one.report.clip_factor, 1)
            self.assertLess(distance(own, by_torch), bound)

    def test_gradients_that_are_not_finite(self):
        model = make_model()
        optimizer = adamw(model)
        train(model, optimizer, range(2))
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        loss_of(model, 2).backward()
        model[2].weight.grad[0] = float("nan")
        with self.assertWarnsRegex(RuntimeWarning, "parameter 2"):
            optimizer.step()
        self.assertFalse(optimizer.report.applied)
        self.assertEqual(optimizer.report.first_bad, 2)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, model.parameters())))
        train(model, optimizer, range(3, 5))
        self.assertEqual(optimizer.report.step, 4)

    def scaled(self, make, attach=False):
        model = make_model()
        optimizer = make(model)
        if attach:
            optimizer.attach(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=3)
        for step in range(12):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            if step == 5:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if attach:
            optimizer.detach()
        return model, scaler.get_scale()

    def test_grad_scaler(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours, scale = self.scaled(adamw)
            attached, _ = self.scaled(adamw, attach=True)
        theirs, its = self.scaled(lambda m: torch.optim.AdamW(m.parameters(), lr=1e-2))
        self.assertEqual(scale, its)
        self.assertLess(distance(ours, theirs), 1e-4)
        self.assertTrue(same_weights(ours, attached))

    def test_weights_that_somebody_writes(self):
        for dtype in (torch.float32, torch.bfloat16):
            for states in ("stream", "host"):
                model = make_model(dtype)
                optimizer = adamw(model, lr=0.0, weight_decay=0.0, states=states)
                train(model, optimizer, range(2))
                loaded = make_model(dtype, seed=9)
                model.load_state_dict(loaded.state_dict())
                train(model, optimizer, range(2))
                self.assertTrue(same_weights(model, loaded))
                model[0].weight.data.zero_()
                optimizer.weights_changed()
                train(model, optimizer, range(2))
                self.assertEqual(int(model[0].weight.count_nonzero()), 0)

    def test_parameters_that_are_replaced_or_move(self):
        ours, theirs = make_model(torch.bfloat16), make_model(torch.bfloat16)
        mine, its = adamw(ours), adamw(theirs)
        for step in range(8):
            if step == 3:
                for p in ours.parameters():
                    p.data = p.data.clone()
            if step == 6:
                ours[0].weight.data = ours[0].weight.data.t().clone().t()  # other strides
            train(ours, mine, [step])
            train(theirs, its, [step])
        self.assertTrue(same_weights(ours, theirs))
        self.assertTrue(same_states(mine.state_dict(), its.state_dict()))

    def test_gradients_of_other_strides(self):
        ours, theirs = make_model(), make_model()
        mine, its = adamw(ours), adamw(theirs)
        for step in range(3):
            for model, optimizer in ((ours, mine), (theirs, its)):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                if model is ours:
                    ours[0].weight.grad = ours[0].weight.grad.t().contiguous().t()
                optimizer.step()
        self.assertTrue(same_weights(ours, theirs))

    def test_refusals(self):
        weight = torch.nn.Parameter(torch.ones(4))
        with self.assertRaisesRegex(TypeError, "float16"):
            ebb.torch.AdamW([torch.nn.Parameter(torch.ones(4).half())])
        with self.assertRaisesRegex(ValueError, "clip"):
            ebb.torch.AdamW([weight], clip=-1)
        with self.assertRaisesRegex(ValueError, "empty"):
            ebb.torch.AdamW([])
        for options, words in (({"states": "moon"}, "resident, stream or host"),
                               ({"state_format": "int3"}, "state-format"),
                               ({"offload_fraction": 2.0}, "offload_fraction"),
                               ({"host_memory": 16}, "host")):
            weight.grad = torch.ones(4)
            with self.assertRaisesRegex(ebb.Error, words):
                ebb.torch.AdamW([weight], **options).step()
        for options, words, later in (({"lr": -1.0}, "lr=-1", "learning rate"),
                                      ({"betas": (2.0, 0.9)}, "betas", "beta1")):
            with self.assertRaisesRegex(ValueError, words):
                ebb.torch.AdamW([weight], **options)
            changed = ebb.torch.AdamW([weight])
            changed.param_groups[0].update(options)  # as a schedule may
            with self.assertRaisesRegex(ebb.Error, later):
                changed.step()
        sparse = torch.nn.Embedding(8, 4, sparse=True)
        sparse(torch.tensor([1])).sum().backward()
        with self.assertRaisesRegex(ebb.Error, "sparse"):
            ebb.torch.AdamW(sparse.parameters()).step()
        gaps = torch.nn.Parameter(torch.ones(4, 4)[:, :2])
        gaps.grad = torch.ones(4, 2)
        with self.assertRaisesRegex(ebb.Error, "gaps"):
            ebb.torch.AdamW([gaps]).step()
        with self.assertRaisesRegex(TypeError, "state_dict"):
            __import__("copy").deepcopy(ebb.torch.AdamW([weight]))


if __name__ == "__main__":
    unittest.main()
