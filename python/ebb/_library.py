"""The optimizer's shared library: what ebb/hybrid_optimizer_c.h declares.

Nothing here knows PyTorch. Calls release the interpreter's lock while they run.
"""

import ctypes
import functools
import pathlib
import re
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

from ebb._errors import Error

# Of the header this file was written for.
VERSION = 1


class Sized(ctypes.Structure):
    """Starts with its size, which the library checks."""

    _fields_ = [("struct_size", c_size_t)]

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Parameter(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("weight", c_void_p),
        ("gradient", c_void_p),
        ("count", c_int64),
        ("weight_type", c_int32),
        ("gradient_type", c_int32),
        ("decays", c_int32),
        ("group", c_int64),
    ]


class Group(Sized):
    _fields_ = [
        *((name, c_double) for name in ("learning_rate", "beta1", "beta2", "epsilon",
                                        "weight_decay", "momentum")),
        ("nesterov", c_int64),
    ]

    def __init__(self, **fields):
        # What is not given is as in the settings.
        unset = dict.fromkeys(("beta1", "beta2", "epsilon", "weight_decay", "momentum"),
                              float("nan"))
        super().__init__(**{**unset, "nesterov": -1, **fields})


class Report(Sized):
    _fields_ = [
        ("step", c_int64),
        ("norm", c_double),
        ("clip_factor", c_double),
        ("first_bad", c_int64),
        ("applied", c_int32),
    ]


class Placement(Sized):
    _fields_ = [
        (name, c_int64)
        for name in ("device_bytes", "host_bytes", "resident_parameters", "streamed_parameters",
                     "host_parameters")
    ]


_HANDLE, _INDEX, _STREAM = c_void_p, c_int64, c_void_p
# Arguments of the functions that return 0, or 1 for a failure.
_CALLS = {
    "set_gradient": [_HANDLE, _INDEX, c_void_p],
    "gradient_ready": [_HANDLE, _INDEX, _STREAM],
    "leave_out": [_HANDLE, _INDEX],
    "discard": [_HANDLE],
    "step": [_HANDLE, c_double, c_double, _STREAM, POINTER(Report)],
    "step_groups": [_HANDLE, POINTER(Group), c_int64, c_double, c_double, _STREAM,
                    POINTER(Report)],
    "wait_for_weight": [_HANDLE, _INDEX, _STREAM],
    "wait": [_HANDLE],
    "weights_changed": [_HANDLE, _STREAM],
    "save": [_HANDLE, c_char_p],
    "load": [_HANDLE, c_char_p, _STREAM],
    "read_master": [_HANDLE, _INDEX, c_void_p, c_int64],
    "write_master": [_HANDLE, _INDEX, c_void_p, c_int64, _STREAM],
    "steps_of": [_HANDLE, _INDEX, POINTER(c_int64)],
    "set_steps": [_HANDLE, _INDEX, c_int64],
    "read_moments": [_HANDLE, _INDEX, c_void_p, c_void_p, c_int64],
    "write_moments": [_HANDLE, _INDEX, c_void_p, c_void_p, c_int64],
    "stored_moments": [_HANDLE, _INDEX, POINTER(c_int64)],
    "read_stored_moments": [_HANDLE, _INDEX, c_void_p, c_int64],
    "write_stored_moments": [_HANDLE, _INDEX, c_void_p, c_int64],
    "placement_of": [_HANDLE, POINTER(Placement)],
    "traffic": [_HANDLE, POINTER(c_int64), POINTER(c_int64)],
    "digests": [_HANDLE, c_char_p, c_char_p],
}


def library_path():
    """Where the package's shared library lies."""
    return pathlib.Path(__file__).with_name("libebb_hybrid.so")


@functools.cache
def library():
    """The shared library, loaded once, with the types of its functions."""
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}. It is built and installed with the "
                    "package: pip install . at the root of Ebb's sources") from None
    if loaded.ebb_hybrid_version() != VERSION:
        raise Error(f"{path} is of version {loaded.ebb_hybrid_version()}, expected {VERSION}: "
                    "install the package anew")
    loaded.ebb_hybrid_error.restype = c_char_p
    loaded.ebb_hybrid_create.restype = c_void_p
    loaded.ebb_hybrid_create.argtypes = [c_char_p, POINTER(Parameter), c_int64, _STREAM]
    loaded.ebb_hybrid_destroy.restype = None
    loaded.ebb_hybrid_destroy.argtypes = [_HANDLE]
    for name, types in _CALLS.items():
        function = getattr(loaded, "ebb_hybrid_" + name)
        function.argtypes = types
        function.restype = c_int
    return loaded


def bytes_of(size):
    """A number of bytes: 3, "512MiB", "1.5 GiB", or None for None.

    >>> bytes_of("4KiB")
    4096
    """
    if size is None or isinstance(size, int):
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]iB|B)?\s*", str(size))
    if found is None:
        raise ValueError(f"{size!r} is no size: expected bytes, or a text such as '4GiB'")
    return int(float(found[1]) * 1024 ** "BKMGT".index((found[2] or "B")[0]))
