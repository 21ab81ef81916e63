"""PyTorch's own list of optimizers' settings, right and wrong ones, given to ours."""

import copy
import sys
import types
import unittest
import warnings

import torch

import ebb.torch
from models import distance, loss_of, make_model, same_states, same_weights, train


def listed():
    """{name: (settings, wrong settings)} as torch.testing has them, or None."""
    absent = {}
    try:
        # Imported there for tests that compile or compare texts, which these are not.
        for name in ("setuptools.command.build_ext", "expecttest"):
            try:
                __import__(name)
            except ImportError:
                for part in (name.rsplit(".", i)[0] for i in range(name.count("."), -1, -1)):
                    absent[part] = sys.modules.get(part)
                    sys.modules[part] = types.ModuleType(part)
                    sys.modules[part].__path__ = []
        sys.modules["setuptools.command.build_ext"].build_ext = object
        sys.modules["expecttest"].TestCase = unittest.TestCase
        from torch.testing._internal.common_optimizers import optim_db
    except ImportError:
        return None
    finally:
        for part, module in absent.items():
            if module is None:
                del sys.modules[part]
            else:
                sys.modules[part] = module
    found = {}
    for info in optim_db:
        if info.optim_cls.__module__.startswith("torch.optim"):
            found[info.optim_cls.__name__] = (
                info.optim_inputs_func(device="cpu", dtype=torch.float32),
                info.optim_error_inputs_func(device="cpu", dtype=torch.float32))
    return found


LISTED = listed()
KINDS = (ebb.torch.AdamW, ebb.torch.Adam, ebb.torch.SGD, ebb.torch.Adagrad)
# Settings that these refuse, whatever the value.
REFUSED = {"amsgrad", "maximize", "dampening", "lr_decay", "foreach", "fused", "differentiable",
           "capturable"}


@unittest.skipIf(LISTED is None, "torch.testing's list cannot be imported")
class Listed(unittest.TestCase):
    def accepted(self):
        """(class, torch.optim's, settings) that are ours to follow."""
        for kind in KINDS:
            for given in LISTED[kind.__name__][0]:
                if not REFUSED & set(given.kwargs):
                    yield kind, getattr(torch.optim, kind.__name__), dict(given.kwargs)

    def test_every_setting_is_followed_or_refused(self):
        followed = refused = 0
        for kind in KINDS:
            for given in LISTED[kind.__name__][0]:
                with self.subTest(kind=kind.__name__, settings=given.desc):
                    if REFUSED & set(given.kwargs):
                        refused += 1
                        with self.assertRaises((TypeError, ValueError)):
                            kind(make_model().parameters(), **given.kwargs)
                    else:
                        followed += 1
                        kind(make_model().parameters(), **given.kwargs)
        self.assertGreaterEqual((followed, refused), (12, 7))

    def test_wrong_settings(self):
        for kind in KINDS:
            for wrong in LISTED[kind.__name__][1]:
                given = wrong.optimizer_error_input
                # Names of parameters are not in every version of the base class.
                if "names" in given.desc or wrong.error_on.name != "CONSTRUCTION_ERROR":
                    continue
                if any(isinstance(beta, torch.Tensor) for beta in given.kwargs.get("betas", ())):
                    continue  # tensors of one element are numbers to ours
                parameters = given.params if given.params is not None else make_model().parameters()
                with self.subTest(kind=kind.__name__, settings=given.desc):
                    if wrong.error_type is UserWarning:
                        with self.assertWarns(UserWarning):
                            kind(parameters, **given.kwargs)
                        continue
                    # What it does not know at all is another type of error.
                    with self.assertRaises((wrong.error_type, TypeError)):
                        kind(parameters, **given.kwargs)

    def test_same_weights_as_pytorch_s(self):
        for kind, its_kind, settings in self.accepted():
            with self.subTest(kind=kind.__name__, settings=settings):
                ours, theirs = make_model(), make_model()
                mine = kind(ours.parameters(), threads=1, **copy.deepcopy(settings))
                its = its_kind(theirs.parameters(), **copy.deepcopy(settings))
                for step in range(7):
                    theirs.zero_grad()
                    loss_of(theirs, step).backward()
                    for a, b in zip(ours.parameters(), theirs.parameters()):
                        with torch.no_grad():
                            a.copy_(b)
                        a.grad = b.grad.clone()
                    mine.step()
                    its.step()
                    self.assertLess(distance(ours, theirs), 1e-6, step)

    def test_states_go_both_ways(self):
        for kind, its_kind, settings in self.accepted():
            with self.subTest(kind=kind.__name__, settings=settings):
                model = make_model()
                mine = kind(model.parameters(), threads=1, **settings)
                train(model, mine, range(2))
                state = copy.deepcopy(mine.state_dict())
                other = kind(model.parameters(), threads=1)
                other.load_state_dict(state)
                self.assertTrue(same_states(other.state_dict(), state))
                group, = other.state_dict()["param_groups"]
                self.assertEqual({**group, **state["param_groups"][0]}, group)
                its = its_kind(model.parameters())
                its.load_state_dict(mine.torch_state_dict())
                train(model, its, range(2, 3))
                back = kind(model.parameters(), threads=1)
                back.load_state_dict(its.state_dict())
                train(model, back, range(3, 4))

    def test_a_schedule_and_a_group_of_its_own(self):
        for kind, its_kind, settings in self.accepted():
            with self.subTest(kind=kind.__name__, settings=settings):
                models = make_model(), make_model()
                for model, make, more in ((models[0], kind, {"threads": 1}),
                                          (models[1], its_kind, {})):
                    groups = [{"params": model[0].parameters(), "lr": 1e-3},
                              {"params": model[2:].parameters()}]
                    optimizer = make(groups, **copy.deepcopy(settings), **more)
                    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
                    train(model, optimizer, range(4), schedule.step)
                self.assertLess(distance(*models), 1e-4)

    def test_hooks_run_in_their_order(self):
        for kind in KINDS:
            model, seen = make_model(), []
            optimizer = kind(model.parameters(), threads=1)
            optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
            optimizer.register_step_post_hook(lambda *_: seen.append("after"))
            train(model, optimizer, range(2), lambda: seen.append("step"))
            self.assertEqual(seen, ["before", "after", "step"] * 2)

    def test_nothing_is_done_without_gradients(self):
        for kind, _, settings in self.accepted():
            model, before = make_model(), make_model()
            optimizer = kind(model.parameters(), threads=1, **settings)
            optimizer.step()
            optimizer.zero_grad()
            optimizer.step()
            self.assertTrue(same_weights(model, before))

    def test_a_closure_is_called_once(self):
        for kind in KINDS:
            model, calls = make_model(), []
            optimizer = kind(model.parameters(), threads=1)

            def closure():
                optimizer.zero_grad()
                loss = loss_of(model, 0)
                loss.backward()
                calls.append(loss.item())
                return loss

            self.assertEqual(optimizer.step(closure).item(), calls[0])
            self.assertEqual(len(calls), 1)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer.step(closure)


if __name__ == "__main__":
    unittest.main()
