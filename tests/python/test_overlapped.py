"""attach(): gradients are taken as they are made, modules wait for their weights."""

import copy
import unittest
import warnings

import torch

import ebb
import ebb.torch
from models import adamw, loss_of, make_model, same_states, same_weights, train


class Attention(torch.nn.Module):
    """MultiheadAttention reads weights of a module of its own that never runs."""

    def __init__(self):
        super().__init__()
        self.into = torch.nn.Linear(40, 32)
        self.attention = torch.nn.MultiheadAttention(32, 4)
        self.out = torch.nn.Linear(32, 8)

    def forward(self, x):
        x = self.into(x)
        return self.out(x + self.attention(x, x, x)[0])


class Overlapped(unittest.TestCase):
    def compare(self, make, steps=20, **options):
        """The same bits as in a plain loop."""
        torch.manual_seed(4)
        plain = make()
        attached = copy.deepcopy(plain)
        one, other = adamw(plain, clip=0.5, **options), adamw(attached, clip=0.5, **options)
        losses = train(plain, one, range(steps))
        with other.attach(attached):
            self.assertEqual(train(attached, other, range(steps)), losses)
            self.assertEqual(other.report, one.report)
            other.wait()
            self.assertTrue(same_weights(plain, attached))
        self.assertTrue(same_states(one.state_dict(), other.state_dict()))
        # Detached, it goes on as any other.
        train(plain, one, range(3))
        train(attached, other, range(3))
        self.assertTrue(same_weights(plain, attached))
        return attached, other

    def test_same_bits_as_plain(self):
        for dtype in (torch.float32, torch.bfloat16):
            for states in ("resident", "stream", "host"):
                self.compare(lambda: make_model(dtype), states=states, chunk_parameters=4096)

    def test_200_steps(self):
        self.compare(lambda: make_model(torch.bfloat16), steps=200, host_fraction=0.5)

    def test_modules_that_read_the_weights_of_others(self):
        for dtype in (torch.float32, torch.bfloat16):
            self.compare(lambda: Attention().to(dtype), chunk_parameters=4096)

    def test_parameters_without_gradient(self):
        model, plain = make_model(), make_model()
        optimizer, other = adamw(model), adamw(plain)
        optimizer.attach(model)
        for step in range(6):
            for m, o in ((model, optimizer), (plain, other)):
                m[0].requires_grad_(step % 2 == 0)
                o.zero_grad()
                loss_of(m, step).backward()
                o.step()
        optimizer.detach()
        self.assertTrue(same_weights(model, plain))

    def test_accumulation(self):
        model, plain = make_model(), make_model()
        optimizer, other = adamw(model), adamw(plain)
        optimizer.attach(model)
        for step in range(5):
            optimizer.zero_grad()
            with optimizer.accumulate():
                loss_of(model, 2 * step).backward()
            loss_of(model, 2 * step + 1).backward()
            optimizer.step()
            other.zero_grad()
            for micro in (0, 1):
                loss_of(plain, 2 * step + micro).backward()
            other.step()
        # Without it a second gradient is an error, and the step can be given up.
        optimizer.zero_grad()
        loss_of(model, 0).backward()
        with self.assertRaisesRegex(ebb.Error, "accumulate"):
            loss_of(model, 1).backward()
        optimizer.zero_grad()
        train(model, optimizer, range(3))
        train(plain, other, range(3))
        optimizer.detach()
        self.assertTrue(same_weights(model, plain))

    def test_gradients_that_are_changed_after_they_were_taken(self):
        model = make_model()
        optimizer = adamw(model)
        optimizer.attach(model)
        train(model, optimizer, range(2))
        optimizer.zero_grad()
        loss_of(model, 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        with self.assertRaisesRegex(ebb.Error, "clip="):
            optimizer.step()
        train(model, optimizer, range(2))
        self.assertEqual(optimizer.report.step, 4)

    def test_steps_that_are_not_made(self):
        model, plain = make_model(), make_model()
        optimizer, other = adamw(model), adamw(plain)
        optimizer.attach(model)
        for m, o in ((model, optimizer), (plain, other)):
            train(m, o, range(3))
            o.zero_grad()
            (loss_of(m, 3) * float("nan")).backward()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                o.step()
            self.assertFalse(o.report.applied)
            o.zero_grad()
            loss_of(m, 4).backward()
            o.zero_grad()  # given up
            train(m, o, range(5, 8))
        optimizer.detach()
        self.assertTrue(same_weights(model, plain))

    def test_weights_that_nobody_waited_for(self):
        model = make_model()
        optimizer = adamw(model)
        optimizer.attach(model)
        train(model, optimizer, range(2))
        optimizer.zero_grad()
        # No module runs: the weight is read behind their backs.
        loss = (model[0].weight ** 2).sum()
        with self.assertRaisesRegex(ebb.Error, "wait()"):
            loss.backward()
        optimizer.wait()
        optimizer.zero_grad()
        train(model, optimizer, range(2))

    def test_states_in_the_middle(self):
        """state_dict() of model and optimizer wait; loading goes on with the same bits."""
        plain, model = make_model(torch.bfloat16), make_model(torch.bfloat16)
        other, optimizer = adamw(plain), adamw(model)
        optimizer.attach(model)
        train(plain, other, range(5))
        train(model, optimizer, range(5))
        saved = copy.deepcopy(model.state_dict())
        state = optimizer.state_dict()
        train(model, optimizer, range(2))
        model.load_state_dict(saved)
        optimizer.load_state_dict(state)
        train(plain, other, range(5, 9))
        train(model, optimizer, range(5, 9))
        optimizer.detach()
        self.assertTrue(same_weights(plain, model))

    def test_compiled_layers(self):
        def compiled():
            model = make_model()
            for layer in (model[0], model[3]):
                layer.compile(backend="eager")
            model[2] = torch.compile(model[2], backend="eager")
            return model

        plain, attached = make_model(), compiled()
        one, other = adamw(plain), adamw(attached)
        other.attach(attached)
        self.assertEqual(train(plain, one, range(6)), train(attached, other, range(6)))
        other.detach()
        self.assertTrue(same_weights(plain, attached))

    def test_checkpointing(self):
        class Checkpointed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = make_model()

            def forward(self, x):
                for layer in self.layers:
                    x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
                return x

        self.compare(Checkpointed, steps=6)

    def test_a_second_time_and_copies(self):
        model = make_model()
        optimizer = adamw(model)
        optimizer.attach(model)
        with self.assertRaisesRegex(ebb.Error, "attached already"):
            optimizer.attach(model)
        train(model, optimizer, range(2))
        optimizer.wait()
        average = copy.deepcopy(model)
        average(torch.zeros(1, 40))
        optimizer.detach()
        with optimizer.attach(model):
            train(model, optimizer, range(2))
        self.assertEqual(optimizer.report.step, 4)


if __name__ == "__main__":
    unittest.main()
