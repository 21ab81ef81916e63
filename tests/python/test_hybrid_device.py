"""HybridDeviceOptimizer around optimizers of torch.optim's."""

import copy
import unittest

import torch

import ebb
import ebb.torch
from ebb.torch._window import WindowedStates
from models import distance, loss_of, make_model, same_states, same_weights, train


class OfTheLibrary(unittest.TestCase):
    def test_takes_over_settings_and_states(self):
        kinds = {torch.optim.AdamW: {}, torch.optim.Adam: {}, torch.optim.Adagrad: {},
                 torch.optim.SGD: {"momentum": 0.9}}
        for kind, options in kinds.items():
            ours, theirs = make_model(), make_model()
            inner = kind(ours.parameters(), lr=1e-2, **options)
            its = kind(theirs.parameters(), lr=1e-2, **options)
            train(ours, inner, range(5))
            train(theirs, its, range(5))
            schedule = torch.optim.lr_scheduler.StepLR(inner, 5, 0.5)  # of the one that is there
            mine = ebb.torch.HybridDeviceOptimizer(inner, threads=2, offload_fraction=0.5)
            self.assertFalse(mine.is_windowed)
            self.assertEqual(len(inner.state), 0)
            its_schedule = torch.optim.lr_scheduler.StepLR(its, 5, 0.5)
            train(ours, mine, range(5, 25), schedule.step)
            train(theirs, its, range(5, 25), its_schedule.step)
            self.assertLess(distance(ours, theirs), 1e-4, kind.__name__)

    def test_words_of_megatron(self):
        for options, place in (({"use_cpu_offloading": True}, "host_parameters"),
                               ({"use_cpu_offloading": False}, "resident_parameters"),
                               ({"optimizer_offload_fraction": 1.0}, "streamed_parameters")):
            model = make_model()
            mine = ebb.torch.HybridDeviceOptimizer(torch.optim.AdamW(model.parameters()),
                                                   threads=2, **options)
            train(model, mine, range(1))
            self.assertEqual(mine.placement()[place], sum(p.numel() for p in model.parameters()))

    def test_attached_and_resumed(self):
        plain, model = make_model(torch.bfloat16), make_model(torch.bfloat16)

        def wrapped(m):
            return ebb.torch.HybridDeviceOptimizer(torch.optim.AdamW(m.parameters(), lr=1e-2),
                                                   threads=2, clip=1.0)

        one, other = wrapped(plain), wrapped(model)
        with other.attach(model):
            train(model, other, range(6))
        train(plain, one, range(6))
        self.assertTrue(same_weights(plain, model))
        again = wrapped(model)
        again.load_state_dict(other.state_dict())
        train(model, again, range(6, 9))
        train(plain, one, range(6, 9))
        self.assertTrue(same_weights(plain, model))


class Windowed(unittest.TestCase):
    KINDS = {torch.optim.RMSprop: {"momentum": 0.5}, torch.optim.NAdam: {},
             torch.optim.Adamax: {}, torch.optim.RAdam: {}, torch.optim.Rprop: {},
             torch.optim.AdamW: {"amsgrad": True}, torch.optim.ASGD: {}}

    def test_same_bits_as_the_optimizer_alone(self):
        for kind, options in self.KINDS.items():
            for copies in (None, True):
                ours, theirs = make_model(), make_model()
                inner = kind(ours.parameters(), lr=1e-3, foreach=False, **options)
                its = kind(theirs.parameters(), lr=1e-3, foreach=False, **options)
                train(ours, inner, range(3))
                train(theirs, its, range(3))
                mine = ebb.torch.HybridDeviceOptimizer(inner, window="16KiB")
                self.assertTrue(mine.is_windowed)
                mine._windowed.copies = copies
                train(ours, mine, range(3, 9))
                train(theirs, its, range(3, 9))
                self.assertTrue(same_weights(ours, theirs), kind.__name__)
                self.assertTrue(same_states(mine.state_dict(), its.state_dict()))
                self.assertEqual(mine.traffic()["up_bytes"] > 0, copies is True)

    def test_states_resume(self):
        model = make_model()
        mine = ebb.torch.HybridDeviceOptimizer(torch.optim.NAdam(model.parameters(), lr=1e-3))
        train(model, mine, range(4))
        other = copy.deepcopy(model)
        its = ebb.torch.HybridDeviceOptimizer(torch.optim.NAdam(other.parameters(), lr=9.0))
        its.load_state_dict(mine.state_dict())
        self.assertEqual(its.param_groups[0]["lr"], 1e-3)
        self.assertIs(its.optimizer.param_groups, its.param_groups)
        train(model, mine, range(4, 8))
        train(other, its, range(4, 8))
        self.assertTrue(same_weights(model, other))

    def test_counters_in_groups_count_steps(self):
        class Counting(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {"steps": 0})

            def step(self):
                for group in self.param_groups:
                    group["steps"] += 1
                    for p in group["params"]:
                        p.sub_(p.grad * 0.1 / group["steps"])

        model = make_model()
        mine = ebb.torch.HybridDeviceOptimizer(Counting(model.parameters()))
        train(model, mine, range(3))
        self.assertEqual(mine.param_groups[0]["steps"], 3)

    def test_share_that_stays(self):
        model = make_model()
        inner = torch.optim.NAdam(model.parameters())
        states = WindowedStates(inner, inner.param_groups, fraction=0.5)
        leaves = states._leaves(inner.param_groups)
        self.assertNotIn(model[0].weight, leaves)
        self.assertIn(model[5].weight, leaves)

    def test_refusals(self):
        model = make_model()
        with self.assertRaisesRegex(TypeError, "LBFGS"):
            ebb.torch.HybridDeviceOptimizer(torch.optim.LBFGS(model.parameters()))
        with self.assertRaisesRegex(ValueError, "state_format"):
            ebb.torch.HybridDeviceOptimizer(torch.optim.NAdam(model.parameters()),
                                            state_format="int8")
        with self.assertRaisesRegex(TypeError, "torch.optim.Optimizer"):
            ebb.torch.HybridDeviceOptimizer(model.parameters())
        mine = ebb.torch.HybridDeviceOptimizer(torch.optim.NAdam(model.parameters()))
        with self.assertRaisesRegex(ebb.Error, "attach"):
            mine.attach(model)
        loss_of(model, 0).backward()
        mine.step()


if __name__ == "__main__":
    unittest.main()
