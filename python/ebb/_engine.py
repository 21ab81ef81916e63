"""The engine's shared library: JSON in, JSON out, as ebb/api_c.h declares it.

Calls release the interpreter's lock. While one runs in the main thread, Ctrl-C asks the library to
stop at once; KeyboardInterrupt comes when the call has ended, with what there was saved.
"""

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import signal
import threading
from ctypes import POINTER, c_char_p, c_int, c_longlong, c_void_p

from ebb._errors import Error, error_of

# Of the header this file was written for.
VERSION = 1

LISTENER = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p)
_HANDLE, _RESULT = c_void_p, POINTER(c_void_p)
# name: (what it returns, its arguments); a call that returns an int and takes a _RESULT gives JSON.
FUNCTIONS = {
    "version": (c_int, []),
    "error": (c_char_p, []),
    "free": (None, [c_void_p]),
    "stop_create": (_HANDLE, []),
    "stop_request": (None, [_HANDLE]),
    "stop_destroy": (None, [_HANDLE]),
    "plan": (c_int, [c_char_p, c_char_p, _RESULT]),
    "explain_generation": (c_int, [c_char_p, c_longlong, c_char_p, _RESULT]),
    "evaluate": (c_int, [c_char_p, LISTENER, c_void_p, _HANDLE, _RESULT]),
    "inspect": (c_int, [c_char_p, _RESULT]),
    "model_open": (_HANDLE, [c_char_p, c_char_p]),
    "model_destroy": (None, [_HANDLE]),
    "model_describe": (c_int, [_HANDLE, _RESULT]),
    "model_convert": (c_int, [_HANDLE, c_char_p, _RESULT]),
    "trainer_create": (_HANDLE, [c_char_p, LISTENER, c_void_p, _HANDLE]),
    "trainer_destroy": (None, [_HANDLE]),
    **{f"trainer_{verb}": (c_int, [_HANDLE, _RESULT])
       for verb in ("plan", "run", "step", "evaluate", "save", "finish")},
    "generator_create": (_HANDLE, [_HANDLE, c_char_p, _HANDLE]),
    "generator_destroy": (None, [_HANDLE]),
    "generator_positions": (c_longlong, [_HANDLE]),
    "generator_generate": (c_int, [_HANDLE, c_char_p, LISTENER, c_void_p, _HANDLE, _RESULT]),
}


def engine_path():
    """Where the engine's shared library lies, if the package was built with it."""
    return pathlib.Path(__file__).with_name("libebb_engine.so")


@functools.cache
def engine():
    """The shared library, loaded once, with the types of its functions."""
    path = engine_path()
    if not path.exists():
        raise Error(f"{path} is not there: this package was built where the engine's libraries were "
                    "missing, and has the optimizers alone. `make deps` at the root of Ebb's sources "
                    "gets them, then pip install . again")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}") from None
    for name, (returned, arguments) in FUNCTIONS.items():
        function = getattr(loaded, "ebb_api_" + name)
        function.restype, function.argtypes = returned, arguments
    if loaded.ebb_api_version() != VERSION:
        raise Error(f"{path} is of version {loaded.ebb_api_version()}, expected {VERSION}: install "
                    "the package anew")
    return loaded


def to_json(value):
    return json.dumps(value, default=_plain).encode()


def _plain(value):
    if hasattr(value, "tolist"):  # of NumPy's and PyTorch's
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{value!r} is of {type(value).__name__}, which no option takes")


def raise_error():
    raise error_of(json.loads(engine().ebb_api_error()))


def call(name, *arguments):
    """What a function of the library gives, from JSON."""
    result = c_void_p()
    if getattr(engine(), "ebb_api_" + name)(*arguments, ctypes.byref(result)) != 0:
        raise_error()
    try:
        return json.loads(ctypes.string_at(result.value))
    finally:
        engine().ebb_api_free(result)


def create(name, *arguments):
    """A handle that a function of the library makes."""
    handle = getattr(engine(), f"ebb_api_{name}")(*arguments)
    if not handle:
        raise_error()
    return handle


class Stop:
    """What ends a call from elsewhere."""

    def __init__(self):
        self.handle = create("stop_create")

    def request(self):
        engine().ebb_api_stop_request(self.handle)

    def __del__(self):
        if hasattr(self, "handle"):
            engine().ebb_api_stop_destroy(self.handle)

    @contextlib.contextmanager
    def at_interrupt(self):
        """While the body runs in the main thread, SIGINT requests the stop at once: Python's own
        handlers run when the library has returned, or calls back."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        seen = []

        def watch():
            while numbers := os.read(reader, 64):
                if before != -1:
                    with contextlib.suppress(OSError):
                        os.write(before, numbers)
                if signal.SIGINT in numbers:
                    seen.append(True)
                    self.request()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(writer)
            watcher.join()
            os.close(reader)
        # One that came as a listener was about to be called was told to nobody.
        if seen and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise KeyboardInterrupt


class Listener:
    """Functions of Python's that a call tells what happens. What one raises ends the call, which
    raises it again."""

    def __init__(self, told):
        self._told = told  # by kind: functions of the value
        self._raised = None
        self.function = LISTENER(self._tell)

    def _tell(self, _, kind, value):
        try:
            tell = self._told.get(kind.decode())
            if tell is not None and self._raised is None:
                if tell(*([json.loads(value)] if value else [])) is False:
                    return 1
            return int(self._raised is not None)
        except BaseException as error:
            self._raised = error
            return 1

    @contextlib.contextmanager
    def raising(self):
        """Raises at its end what a function raised within."""
        try:
            yield
        except Error:
            if self._raised is None:
                raise
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
