"""What holds without PyTorch."""

import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

import ebb
from ebb import _hybrid, _library

HEADER = pathlib.Path(__file__).parents[2] / "include/ebb/hybrid_optimizer_c.h"
TYPES = {"size_t": ctypes.c_size_t, "const char*": ctypes.c_char_p, "void*": ctypes.c_void_p,
         "const void*": ctypes.c_void_p, "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32,
         "double": ctypes.c_double}


class Package(unittest.TestCase):
    def test_version_is_the_header_s(self):
        text = HEADER.with_name("version.h").read_text()
        self.assertEqual(ebb.__version__, re.search(r'kVersion = "([^"]+)"', text)[1])
        text = HEADER.read_text()
        self.assertEqual(_library.VERSION,
                         int(re.search(r"#define EBB_HYBRID_VERSION (\d+)", text)[1]))

    def test_structs_are_the_header_s(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        structs = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S)
        ours = {"ebb_hybrid_parameter": _library.Parameter, "ebb_hybrid_group": _library.Group,
                "ebb_hybrid_report": _library.Report, "ebb_hybrid_placement": _library.Placement}
        self.assertEqual({name for name, _ in structs}, set(ours))
        for name, body in structs:
            fields = [field.strip().rsplit(" ", 1) for field in body.split(";") if field.strip()]
            declared = [(field, TYPES[kind]) for kind, field in fields]
            self.assertEqual([("struct_size", ctypes.c_size_t), *ours[name]._fields_], declared,
                             name)

    def test_functions_are_the_header_s(self):
        declared = set(re.findall(r"\bebb_hybrid_(\w+)\(", HEADER.read_text()))
        self.assertEqual(declared, {*_library._CALLS, "version", "error", "create", "destroy"})
        for name in declared:
            self.assertTrue(hasattr(_library.library(), "ebb_hybrid_" + name), name)

    def test_a_step_without_pytorch(self):
        weight = (ctypes.c_float * 4)(1, 2, 3, 4)
        gradient = (ctypes.c_float * 4)(1, -1, 1, -1)
        made = _hybrid.Hybrid(
            {"rule": "sgd", "momentum": 0.0, "threads": 1},
            [_library.Parameter(name=b"w", weight=ctypes.addressof(weight),
                                gradient=ctypes.addressof(gradient), count=4, weight_type=1,
                                gradient_type=1, decays=1)], None)
        made.gradient_ready(0, None)
        report = made.step([{"learning_rate": 0.5}], 0, 2.0, None)
        made.wait()
        self.assertEqual(list(weight), [0.75, 2.25, 2.75, 4.25])  # gradients were 2 times too large
        self.assertEqual((report.norm, report.applied, made.steps_of(0)), (1.0, 1, 1))
        with self.assertRaisesRegex(ebb.Error, "there are 1"):
            made.leave_out(7)
        made.close()
        with self.assertRaisesRegex(ebb.Error, "closed"):
            made.wait()

    def test_errors_are_texts(self):
        with self.assertRaisesRegex(ebb.Error, "empty"):
            _hybrid.Hybrid({}, [], None)
        with self.assertRaisesRegex(ValueError, "no size"):
            ebb.bytes_of("many")
        self.assertEqual([ebb.bytes_of(size) for size in (None, 7, "4KiB", "1.5 GiB", "3B", "9")],
                         [None, 7, 4096, 3 << 29, 3, 9])

    def test_import_needs_no_pytorch(self):
        code = ("import sys; sys.modules['torch'] = None; import ebb; ebb.library_path()\n"
                "try:\n  import ebb.torch\n"
                "except ImportError as error:\n  assert 'PyTorch 2.4' in str(error), error\n"
                "else:\n  raise SystemExit('ebb.torch came without PyTorch')")
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
