"""Activations that leave and come back: the same bits, once each, within the limit."""

import gc
import os
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import torch
import torch.utils.checkpoint

import ebb
import ebb.torch
from models import batch, loss_of, make_model

KIB = 1024


def to_host(**options):
    """CPU tensors make trips to host memory too, so that its blocks are tested without a GPU."""
    offload = ebb.torch.offload_activations(**{"limit": "64MiB", "smallest": 0, **options})
    offload._kinds = ("cuda", "cpu")
    return offload


def to_disk(**options):
    return ebb.torch.offload_activations(**{"limit": "64MiB", "smallest": 0, "to": "disk",
                                            **options})


class Attention(torch.nn.Module):
    """Splits one tensor into three, reads its input twice, and expands."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2)
                   for part in self.qkv(torch.nn.functional.layer_norm(x, (64,))).split(64, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        scale = x.mean(-1, keepdim=True).expand_as(x)
        return x + self.out(mixed.transpose(1, 2).flatten(2)) * scale.sigmoid()


class Layers(torch.nn.Module):
    def __init__(self, around=lambda layer, x: layer(x)):
        super().__init__()
        torch.manual_seed(7)
        self.layers = torch.nn.ModuleList(Attention() for _ in range(4))
        self.around = around

    def forward(self, x):
        for layer in self.layers:
            x = self.around(layer, x)
        return (x * x).mean()


def inputs():
    return torch.randn(2, 32, 64, generator=torch.Generator().manual_seed(3))


def gradients(model, offload=None, inside=False):
    model.zero_grad()
    if offload is None:
        model(inputs()).backward()
    elif inside:
        with offload:
            model(inputs()).backward()
    else:
        with offload:
            loss = model(inputs())
        loss.backward()
    return [p.grad.clone() for p in model.parameters()]


class Exact(unittest.TestCase):
    def check(self, make_offload, make_model=Layers, steps=2, **how):
        expected = gradients(make_model())
        model, offload = make_model(), make_offload()
        for step in range(steps):
            found = gradients(model, offload, **how)
            for index, (one, other) in enumerate(zip(found, expected)):
                self.assertTrue(torch.equal(one, other), f"step {step}, parameter {index}")
        return offload

    def test_same_bits_and_nothing_is_left(self):
        for make_offload in (to_host, to_disk):
            for inside in (False, True):
                # In windows of nothing and of everything, and one in between.
                for window in (1, None, "64MiB"):
                    offload = self.check(lambda: make_offload(window=window), inside=inside)
                    offload.synchronize()
                    moved = offload.traffic()
                    self.assertGreater(moved["down_bytes"], 0)
                    self.assertLessEqual(moved["up_bytes"], moved["down_bytes"])
                    self.assertEqual(offload.placement()["away_bytes"], 0)
                    self.assertGreater(offload.placement()["peak_bytes"], 0)
                    self.assertIsNone(offload._last)
                    self.assertEqual((offload._storages, offload._ahead_bytes), ({}, 0))

    def test_limit_is_held_and_the_rest_stays(self):
        whole = self.check(to_host).placement()["peak_bytes"]
        for make_offload in (to_host, to_disk):
            limit = whole // 3 // 4096 * 4096
            offload = self.check(lambda: make_offload(limit=limit))
            placement = offload.placement()
            self.assertLessEqual(placement["reserved_bytes"], limit)
            self.assertLessEqual(placement["peak_bytes"], limit)
            self.assertGreater(placement["peak_bytes"], limit // 2)
            self.assertGreater(placement["stayed_bytes"], 0)

    def test_blocks_are_kept_and_given_to_other_sizes(self):
        offload = to_host(limit=4 * 4096)
        for size in (2, 4, 1, 3, 4):
            block = offload._place.take(size * 4096 - 5)
            self.assertEqual(block.numel(), size * 4096)
            offload._place.give_back(block)
            self.assertLessEqual(offload._place.reserved, 4 * 4096)
        self.assertIsNone(offload._place.take(5 * 4096))

    def test_ranges_of_the_file_are_joined_again(self):
        place = to_disk(limit=8 * 4096)._place
        slots = [place.take(4096) for _ in range(8)]
        self.assertIsNone(place.take(1))
        for slot in slots[1::2] + slots[::2]:
            place.give_back(slot)
        self.assertEqual((place.take(8 * 4096), place.reserved), ((0, 8 * 4096), 8 * 4096))

    def test_checkpointing(self):
        def checkpointed(layer, x):
            return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)

        def reentrant(layer, x):
            return torch.utils.checkpoint.checkpoint(layer, x.requires_grad_(), use_reentrant=True)

        for around in (checkpointed, reentrant):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                offload = self.check(to_disk, lambda: Layers(around))
            # The layers' inputs alone, and none that a backward pass made again.
            self.assertGreater(offload.placement()["peak_bytes"], 0)
            self.assertLessEqual(offload.placement()["peak_bytes"], 8 * inputs().nbytes)

    def test_compiled_layers(self):
        def compiled():
            model = Layers()
            for layer in model.layers:
                layer.compile(backend="aot_eager")
            return model

        # The compiled code's own bits.
        expected = gradients(compiled())
        model = compiled()
        for offload in (to_disk(model=model), to_host(model=model)):
            found = gradients(model, offload)
            self.assertTrue(all(map(torch.equal, found, expected)))
            self.assertGreater(offload.traffic()["down_bytes"], 0)

    def test_types_and_shapes(self):
        shapes = ((3, 5, 7), (1000,), (1, 1), (64, 3))
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16,
                      torch.complex64):
            for shape in shapes:
                for view in (lambda x: x, lambda x: x.transpose(0, -1), lambda x: x[..., 1:],
                             lambda x: x[1:], lambda x: x.expand(2, *x.shape)):
                    base = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
                    if view(base).numel() == 0:
                        continue
                    found = []
                    for offload in (None, to_disk(), to_host()):
                        leaf = base.clone().requires_grad_()
                        with offload or warnings.catch_warnings():
                            part = view(leaf * 1)
                            made = (part * part).sum().abs()
                        made.backward()
                        found.append(leaf.grad)
                    self.assertTrue(torch.equal(found[0], found[1]), (dtype, shape))
                    self.assertTrue(torch.equal(found[0], found[2]), (dtype, shape))


class Once(unittest.TestCase):
    def test_views_and_repeats_are_one(self):
        x = torch.randn(1000, requires_grad=True)
        offload = to_disk()
        with offload:
            y = x * 1
            loss = (y * y + y.view(10, 100).t().reshape(-1).sin() + y.sigmoid() * y.exp()).sum()
        self.assertGreater(offload.traffic()["down_bytes"], y.nbytes)
        offload.synchronize()
        saved = [entry for _, entries in offload._storages.values() for entry in entries
                 if entry.storage == y.untyped_storage()._cdata]
        self.assertEqual(len(saved), 1)
        loss.backward()

    def test_parts_of_a_split_are_one(self):
        x = torch.randn(8, 300, requires_grad=True)
        offload = to_host()
        with offload:
            a, b, c = (x * 1).split(100, -1)
            loss = (a * b * c).sum()
        entries = [entry for _, entries in offload._storages.values() for entry in entries]
        # Beside them the product of two.
        self.assertEqual(sorted(entry.size for entry in entries), [x.nbytes // 3, x.nbytes])
        loss.backward()

    def test_parameters_and_small_tensors_stay(self):
        layer = torch.nn.Linear(64, 64)
        tied = torch.nn.Linear(64, 64)
        tied.weight = layer.weight
        frozen = torch.nn.Linear(64, 64).requires_grad_(False)
        x = torch.randn(2, 64, requires_grad=True)
        offload = to_disk(smallest=x.nbytes + 1)
        with offload:
            loss = (frozen(tied(layer(x))) @ layer.weight.t().t()).sum()
        self.assertEqual(offload.traffic()["down_bytes"], 0)
        loss.backward()

    def test_tensors_of_the_model_stay_whatever_they_look_like(self):
        layer = torch.nn.Linear(64, 64)
        x = torch.randn(2, 64, requires_grad=True)
        for model, moved in ((None, layer.weight.nbytes), (layer, 0)):
            offload = to_disk(model=model, smallest=x.nbytes + 1)
            with offload:
                (x @ layer.weight.data.t()).sum()
            self.assertEqual(offload.traffic()["down_bytes"], moved)

    def test_to_host_moves_nothing_of_the_cpu_and_says_so(self):
        offload = ebb.torch.offload_activations(limit="1GiB", smallest=0)
        with self.assertWarnsRegex(RuntimeWarning, "in host memory already"), offload:
            loss = Layers()(inputs())
        loss.backward()
        self.assertEqual(offload.traffic(), {"down_bytes": 0, "up_bytes": 0})


class Graphs(unittest.TestCase):
    def test_backward_twice(self):
        model, expected = Layers(), gradients(Layers())
        for make_offload in (to_host, to_disk):
            offload = make_offload()
            with offload:
                loss = model(inputs())
            offload.synchronize()
            for _ in range(3):
                model.zero_grad()
                loss.backward(retain_graph=True)
                self.assertTrue(all(torch.equal(p.grad, g)
                                    for p, g in zip(model.parameters(), expected)))
                # What came back is gone again.
                self.assertEqual(offload._ahead_bytes, 0)
                self.assertFalse([e for _, entries in offload._storages.values() for e in entries
                                  if e.back is not None])
            self.assertGreater(offload.placement()["away_bytes"], 0)
            del loss
            gc.collect()
            self.assertEqual(offload.placement()["away_bytes"], 0)

    def test_gradient_of_a_gradient(self):
        found = []
        for offload in (None, to_disk(), to_host()):
            x = torch.linspace(-1, 1, 500, requires_grad=True)
            with offload or warnings.catch_warnings():
                y = (x.sin() * x.exp() * x).sum()
                first, = torch.autograd.grad(y, x, create_graph=True)
            second, = torch.autograd.grad((first * first).sum(), x)
            found.append(second)
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertTrue(torch.equal(found[0], found[2]))

    def test_micro_batches_in_any_order(self):
        for order in ((0, 1, 2), (2, 1, 0)):
            sums = []
            for offload in (None, to_disk(window="8KiB")):
                model = make_model()
                losses = []
                for step in range(3):
                    with offload or warnings.catch_warnings():
                        losses.append(loss_of(model, step))
                for index in order:
                    losses[index].backward()
                sums.append([p.grad for p in model.parameters()])
            self.assertTrue(all(map(torch.equal, *sums)))

    def test_nested(self):
        outer, inner = to_disk(), to_host()
        x = torch.randn(100, requires_grad=True)
        with outer:
            a = (x * 1).sin()
            with inner, inner:
                b = a.exp()
            c = b.sigmoid()
        self.assertEqual([o.traffic()["down_bytes"] for o in (outer, inner)], [800, 400])
        c.sum().backward()
        y = x.detach().clone().requires_grad_()
        (y * 1).sin().exp().sigmoid().sum().backward()
        self.assertTrue(torch.equal(x.grad, y.grad))

    def test_an_exception_in_the_forward_pass(self):
        for offload in (to_host(), to_disk()):
            with self.assertRaisesRegex(RuntimeError, "in the middle"):
                with offload:
                    loss_of(make_model(), 0).sin()
                    raise RuntimeError("in the middle")
            gc.collect()
            offload.synchronize()
            self.assertEqual(offload.placement()["away_bytes"], 0)
            x = torch.randn(10, requires_grad=True)
            (x * x).sum().backward()  # nothing of it is in force any more
            self.assertEqual(offload.placement()["away_bytes"], 0)

    def test_a_graph_that_is_dropped_half_way(self):
        offload = to_disk(window="64MiB")
        x = torch.randn(1000, requires_grad=True)
        with offload:
            y = x
            for _ in range(20):
                y = (y * 1).sin()
        offload.synchronize()
        with self.assertRaisesRegex(RuntimeError, "enough"):
            y.register_hook(lambda gradient: (_ for _ in ()).throw(RuntimeError("enough")))
            y.sum().backward()
        del y
        gc.collect()
        self.assertEqual(offload.placement()["away_bytes"], 0)
        self.assertEqual(offload._ahead_bytes, 0)

    def test_threads(self):
        offload, expected, failures = to_disk(window="16KiB"), gradients(Layers()), []

        def work(model):
            for _ in range(3):
                if not all(map(torch.equal, gradients(model, offload), expected)):
                    failures.append(threading.get_ident())

        # Made one after the other: their weights come from PyTorch's one generator.
        threads = [threading.Thread(target=work, args=(Layers(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(offload.placement()["away_bytes"], 0)


class Changes(unittest.TestCase):
    def test_what_was_changed_in_place_is_refused(self):
        for make_offload in (to_host, to_disk):
            for options in ({}, {"limit": 0}, {"smallest": "1GiB"}):
                offload = make_offload(**options)
                x = torch.randn(100, requires_grad=True)
                with offload:
                    y = x * 1
                    z = (y * y).sum()
                    y.add_(1)
                with self.assertRaisesRegex(RuntimeError, "in place"):
                    z.backward()

    def test_values_are_those_of_their_version(self):
        offload = to_disk()
        x = torch.randn(100, requires_grad=True)
        with offload:
            y = x * 1
            a = y.sin()  # saves y as it is
            y.relu_()  # saves y as it is then
            b = y * 3
        self.assertEqual(len({entry.version for _, entries in offload._storages.values()
                              for entry in entries}), 2)
        with self.assertRaisesRegex(RuntimeError, "in place"):
            a.sum().backward()
        b.sum().backward()
        self.assertTrue(torch.equal(x.grad, 3.0 * (x > 0)))


class Disk(unittest.TestCase):
    def test_the_file_has_no_name(self):
        with tempfile.TemporaryDirectory() as folder:
            offload = to_disk(folder=folder)
            with offload:
                loss = Layers()(inputs())
            offload.synchronize()
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(offload.placement()["staging_bytes"] % (8 << 20), 0)
            loss.backward()

    def test_a_drive_that_cannot_write_is_told_and_loses_nothing(self):
        may_fail = threading.Event()

        def full(*unused):
            may_fail.wait()
            raise OSError(28, "No space left on device")

        offload = to_disk()
        x = torch.randn(1000, requires_grad=True)
        with unittest.mock.patch("os.pwrite", full):
            with offload:
                y = x * 1
                z = (y * y).sum()
            may_fail.set()
            with self.assertRaisesRegex(ebb.Error, "No space left.*smaller limit"):
                offload.synchronize()
        self.assertEqual(offload.placement()["away_bytes"], 0)
        z.backward()
        self.assertTrue(torch.allclose(x.grad, 2 * x))

    def test_a_drive_that_cannot_read_ends_the_backward_pass(self):
        for read in (lambda *unused: 0, unittest.mock.Mock(side_effect=OSError(5, "I/O error"))):
            offload = to_disk()
            x = torch.randn(1000, requires_grad=True)
            with offload:
                loss = ((x * 1) ** 3).sum()
            offload.synchronize()
            with unittest.mock.patch("os.preadv", read):
                with self.assertRaisesRegex(ebb.Error, "could not be read"):
                    loss.backward()

    def test_short_transfers_go_on(self):
        write, read = os.pwrite, os.preadv
        with unittest.mock.patch("os.pwrite", lambda f, m, o: write(f, m[:4096], o)), \
                unittest.mock.patch("os.preadv", lambda f, m, o: read(f, [m[0][:4096]], o)):
            offload = to_disk()
            x = torch.randn(20000, requires_grad=True)
            with offload:
                loss = ((x * 1) ** 3).sum()
            offload.synchronize()
            loss.backward()
        y = x.detach().clone().requires_grad_()
        ((y * 1) ** 3).sum().backward()
        self.assertTrue(torch.equal(x.grad, y.grad))

    def test_larger_than_a_thread_s_buffer(self):
        x = torch.arange(3_000_001, dtype=torch.float64, requires_grad=True)
        offload = to_disk()
        with offload:
            loss = ((x * 1) * (x * 1)).sum()
        offload.synchronize()
        loss.backward()
        self.assertTrue(torch.equal(x.grad, 2 * x))

    def test_refusals(self):
        with self.assertRaisesRegex(ebb.Error, "no file for activations"):
            to_disk(folder="/no/such/folder")
        with self.assertRaisesRegex(ValueError, "expected 'host' or 'disk'"):
            ebb.torch.offload_activations(limit=1, to="moon")
        with self.assertRaisesRegex(ValueError, "limit None"):
            ebb.torch.offload_activations(limit=None)
        with self.assertRaisesRegex(ValueError, "folder"):
            ebb.torch.offload_activations(limit=1, folder=".")


class WithTheOptimizer(unittest.TestCase):
    def test_attached(self):
        losses = []
        for offload in (None, to_disk()):
            model = make_model()
            optimizer = ebb.torch.AdamW(model.parameters(), lr=1e-2, threads=2, clip=1.0)
            with optimizer.attach(model):
                for step in range(4):
                    optimizer.zero_grad()
                    with offload or warnings.catch_warnings():
                        loss = loss_of(model, step)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
        self.assertEqual(losses[:4], losses[4:])
        self.assertEqual(batch(0)[0].shape, (16, 40))


if __name__ == "__main__":
    unittest.main()
