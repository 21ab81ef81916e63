"""Plans, training, evaluation and generation over the engine's library."""

import ctypes
import doctest
import inspect as python_inspect
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import ebb
from ebb import _api, _engine, _library

ROOT = pathlib.Path(__file__).parents[2]
SMALL = {"sequence": 32, "micro_batch": 2, "threads": 1, "device": "cpu", "seed": 3}


def setUpModule():
    if not _engine.engine_path().exists():
        raise unittest.SkipTest("the package was built without the engine")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "text.txt"
        self.data.write_text("The tide comes in, and the tide goes out again. " * 100)

    def trainer(self, out="run", **options):
        return ebb.Trainer("preset:tiny", data=self.data, out=self.folder / out,
                           **{**SMALL, "steps": 4, **options})


class Binding(unittest.TestCase):
    def test_functions_are_the_header_s(self):
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/ebb/api_c.h").read_text(), flags=re.S)
        self.assertEqual(_engine.VERSION, int(re.search(r"define EBB_API_VERSION (\d+)", text)[1]))
        types = {"int": ctypes.c_int, "long long": ctypes.c_longlong, "void": None,
                 "const char*": ctypes.c_char_p, "char*": ctypes.c_void_p,
                 "char**": _engine._RESULT, "void*": ctypes.c_void_p,
                 "ebb_api_listener": _engine.LISTENER}
        found = {}
        for kind, name, arguments in re.findall(
                r"^([a-z_ ]+\*?) ?ebb_api_(\w+)\(([^)]*)\);", text, flags=re.M):
            if kind.startswith("typedef"):
                continue
            taken = [] if arguments.strip() == "void" else [
                re.sub(r"\s+", " ", one.strip()).rsplit(" ", 1)[0] for one in arguments.split(",")]
            found[name] = (types.get(kind.strip(), ctypes.c_void_p),
                           [types.get(one, ctypes.c_void_p) for one in taken])
        self.assertEqual(found, _engine.FUNCTIONS)
        for name in found:
            self.assertTrue(hasattr(_engine.engine(), "ebb_api_" + name), name)

    def test_import_loads_no_library(self):
        code = ("import ebb, sys\n"
                "maps = open('/proc/self/maps').read()\n"
                "assert 'libebb' not in maps, maps\n"
                "assert 'torch' not in sys.modules and 'numpy' not in sys.modules")
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_examples_in_docstrings(self):
        found = doctest.testmod(_api)
        self.assertEqual(found.failed, 0)
        self.assertGreater(found.attempted, 20)
        self.assertEqual(doctest.testmod(_library).failed, 0)
        for name in ebb.__all__:
            self.assertTrue(python_inspect.getdoc(getattr(ebb, name)), name)

    def test_every_option_has_a_type(self):
        """The stub lists the fields that the library takes."""
        stub = pathlib.Path(_api.__file__).with_name("__init__.pyi").read_text()
        for name, call in {
                "_TrainOptions": lambda: ebb.plan("preset:tiny", moon=1),
                "_GeneratorOptions": lambda: ebb.Generator("preset:tiny", moon=1),
                "_EvaluateOptions": lambda: ebb.evaluate("preset:tiny", "x", moon=1),
                "_SamplingOptions": lambda: ebb.Generator("preset:tiny", positions=32,
                                                          threads=1).generate("a", moon=1)}.items():
            with self.assertRaises(ebb.ConfigError) as caught:
                call()
            known = set(str(caught.exception).split("expected one of ")[1].split())
            body = re.search(rf"class {name}\(.*?\):\n(.*?)\n\n", stub, flags=re.S)[1]
            listed = set(re.findall(r"^    (\w+):", body, flags=re.M))
            # What is an argument of the call's own.
            self.assertEqual(known - {"model", "data", "out", "prompt", "ids", "messages"}, listed,
                             name)


class Plans(unittest.TestCase):
    def test_limits_are_met_or_refused(self):
        plan = ebb.plan("preset:tiny", **SMALL)
        self.assertGreater(plan.tokens_per_second, 0)
        self.assertTrue(plan.flags[0].startswith("--"))
        self.assertIn("device", str(plan))
        less = plan["device"].peak * 3 // 4
        self.assertLessEqual(ebb.plan("preset:tiny", device_memory=less, **SMALL)["device"].peak,
                             less)
        with self.assertRaises(ebb.OutOfBudget) as caught:
            ebb.plan("preset:tiny", device_memory="1KiB", **SMALL)
        self.assertEqual(caught.exception.shortfalls[0]["tier"], "device")
        self.assertGreater(caught.exception.shortfalls[0]["missing"], 0)
        self.assertTrue(caught.exception.remedies)
        self.assertIsInstance(caught.exception, ebb.Error)

    def test_options_are_those_of_the_command_line(self):
        for options, flag in (({"states": "moon"}, "--states"), ({"recompute": "some"},
                                                                 "--recompute"),
                              ({"device_memory": "much"}, "--device-memory"),
                              ({"save_every": "10"}, None), ({"disk": 3}, None)):
            if flag is None:
                continue
            with self.assertRaises(ebb.ConfigError) as caught:
                ebb.plan("preset:tiny", **{**SMALL, **options})
            self.assertEqual(caught.exception.flag, flag)
        for wrong in ({"steps": 1.5}, {"sequence": "long"}, {"disk": 3}, {"nesterov": 1}):
            with self.assertRaisesRegex(ValueError, "of the wrong kind"):
                ebb.plan("preset:tiny", **{**SMALL, **wrong})
        with self.assertRaises(ebb.ConfigError):
            ebb.plan("preset:moon")
        with self.assertRaisesRegex(TypeError, "no option takes"):
            ebb.plan("preset:tiny", steps=object())

    def test_a_machine_that_is_elsewhere(self):
        try:
            ebb.plan("preset:tiny", machine="moon", **SMALL)
        except ebb.Error as error:
            known = re.findall(r"[a-z]+\d+\w*", str(error))
        plan = ebb.plan("preset:tiny", machine=next(n for n in known if n.startswith("h")),
                        **{**SMALL, "device": "auto"})
        self.assertGreater(plan["device"].limit, 8 << 30)


class Training(Folder):
    def test_steps_and_a_run_give_the_same(self):
        with self.trainer("a") as trainer:
            self.assertGreater(trainer.plan()["device"].peak, 0)
            losses = [report.loss for report in trainer]
            summary = trainer.finish()
        self.assertEqual((len(losses), summary.steps, summary.stopped), (4, 4, False))
        self.assertTrue(pathlib.Path(summary.checkpoint).is_dir())
        seen, notes = [], []
        with self.trainer("b", on_step=seen.append, on_note=notes.append) as trainer:
            other = trainer.run()
        self.assertEqual([report.loss for report in seen], losses)
        self.assertEqual([report.step for report in seen], [1, 2, 3, 4])
        self.assertEqual(other.measured["steps"], 4)
        self.assertTrue(all(isinstance(note, str) for note in notes))

    def test_resumed_goes_on(self):
        with self.trainer() as trainer:
            losses = [report.loss for report in trainer]
        with self.trainer("half", steps=4) as trainer:
            first = [trainer.step().loss, trainer.step().loss]
            trainer.save()
        with self.trainer("half", resume=True) as trainer:
            second = [report.loss for report in trainer]
        self.assertEqual(first + second, losses)

    def test_a_listener_ends_a_run(self):
        with self.trainer(on_step=lambda report: report.step < 2) as trainer:
            summary = trainer.run()
        self.assertEqual((summary.steps, summary.stopped), (2, True))

    def test_what_a_listener_raises_comes_back(self):
        def fail(report):
            raise KeyError("mine")

        with self.trainer(on_step=fail) as trainer:
            with self.assertRaisesRegex(KeyError, "mine"):
                trainer.run()

    def test_stopped_from_elsewhere(self):
        trainer = self.trainer(steps=100000, save_every="end", schedule="constant")
        with trainer:
            trainer.step()
            threading.Timer(0.2, trainer.stop).start()
            self.assertLess(len(list(trainer)), 100000)
            self.assertTrue(trainer.finish().stopped)

    def test_the_lock_is_released(self):
        counted = []
        with self.trainer(steps=20) as trainer:
            thread = threading.Thread(target=trainer.run)
            thread.start()
            while thread.is_alive():
                counted.append(1)
                time.sleep(0)
        self.assertGreater(len(counted), 10)

    def test_closed_and_wrong(self):
        trainer = self.trainer()
        trainer.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            trainer.step()
        with self.assertRaises(ebb.IoError) as caught:
            self.trainer("c", model=None) if False else ebb.Trainer(
                "preset:tiny", data=self.folder / "none.txt", out=self.folder / "c", **SMALL)
        self.assertIn("none.txt", str(caught.exception))

    def test_interrupt(self):
        """SIGINT in a step that Python knows nothing of: saved, and KeyboardInterrupt."""
        code = (
            "import ebb, os, signal, sys, threading\n"
            "listening = threading.Event()\n"
            "def interrupt():\n"
            "    listening.wait()\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "threading.Thread(target=interrupt).start()\n"
            "trainer = ebb.Trainer('preset:tiny', data=sys.argv[1], out=sys.argv[2],\n"
            "    steps=1000000, sequence=32, micro_batch=2, threads=1, device='cpu',\n"
            "    schedule='constant', on_step=lambda r: listening.set())\n"
            "try:\n"
            "    trainer.run()\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n")
        out = self.folder / "interrupted"
        done = subprocess.run([sys.executable, "-c", code, str(self.data), str(out)], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.stdout, "interrupted\n")
        with self.trainer("interrupted", resume=True, steps=1000001, schedule="constant",
                          on_step=lambda report: False) as trainer:
            self.assertGreater(trainer.run().steps, 1)

    def test_signals_of_others_are_theirs(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer)
        try:
            with self.trainer() as trainer:
                trainer.step()
                self.assertEqual(signal.set_wakeup_fd(writer), writer)
        finally:
            signal.set_wakeup_fd(before)
            os.close(reader)
            os.close(writer)


class Texts(Folder):
    @classmethod
    def setUpClass(cls):
        cls.generator = ebb.Generator("preset:tiny", positions=64, threads=1, device="cpu")

    def test_pieces_make_the_text(self):
        pieces = []
        text = self.generator.generate("The tide", max_tokens=8, seed=4, on_text=pieces.append)
        self.assertEqual("".join(pieces), text.text)
        self.assertEqual((text.tokens, len(text.ids), str(text)), (8, 8, text.text))
        ended = self.generator.generate("The tide", max_tokens=8, seed=4,
                                        on_text=lambda piece: False)
        self.assertLess(ended.tokens, 8)
        self.assertEqual(ended.ended_by, "caller")

    def test_ids_of_arrays(self):
        class Array:  # as NumPy's and PyTorch's
            def tolist(self):
                return ids

        ids = self.generator.model.encode("The tide")
        one = self.generator.generate(Array(), max_tokens=3, temperature=0, log_probs=2)
        other = self.generator.generate(ids, max_tokens=3, temperature=0)
        self.assertEqual(one.ids, other.ids)
        self.assertEqual(len(one.log_probabilities), 3)
        self.assertEqual(len(one.log_probabilities[0]["likeliest"]), 2)
        self.assertEqual(self.generator.model.decode(Array()), "The tide")

    def test_refusals(self):
        with self.assertRaises(ebb.ConfigError):
            self.generator.generate([-1])
        with self.assertRaises(ebb.ConfigError):
            self.generator.generate("x", temperature=-1)
        with self.assertRaises(ebb.Error):
            self.generator.answer([{"role": "user", "content": "Hello"}])
        with self.assertRaises(ebb.OutOfBudget):
            ebb.Generator("preset:tiny", device_memory="1KiB", threads=1, device="cpu")

    def test_what_a_listener_raises_comes_back(self):
        def fail(piece):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.generator.generate("The tide", on_text=fail)

    def test_a_run_is_evaluated_and_continues(self):
        with self.trainer() as trainer:
            trainer.run()
        seen = []
        found = ebb.evaluate(self.folder / "run", self.data, on_batch=seen.append, sequence=32,
                             threads=1, device="cpu")
        self.assertTrue(found.whole)
        self.assertEqual(seen[-1].batches, found.batches)
        self.assertLess(abs(seen[-1].loss - found.loss), 1e-9)
        self.assertGreater(ebb.Generator(self.folder / "run", positions=32, threads=1,
                                         device="cpu").generate("The", max_tokens=2).tokens, 0)
        self.assertIsInstance(ebb.inspect(self.folder / "run"), dict)
        with self.assertRaises(ebb.FormatError):
            ebb.inspect(self.data.with_name("run") / "none")


if __name__ == "__main__":
    unittest.main()
