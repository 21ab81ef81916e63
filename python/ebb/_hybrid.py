"""ebb::HybridOptimizer as an object: pointers and numbers in, pointers and numbers out."""

import ctypes
import json
import weakref

from ebb._library import Error, Group, Parameter, Placement, Report, library


class Hybrid:
    """Calls come from one thread at a time; what each does is its contract in
    ebb/hybrid_optimizer.h. Memory behind the pointers is the caller's, who keeps it."""

    def __init__(self, settings, parameters, stream):
        self._library = library()
        settings = {name: value for name, value in settings.items() if value is not None}
        array = (Parameter * len(parameters))(*parameters)
        handle = self._library.ebb_hybrid_create(json.dumps(settings).encode(), array,
                                                 len(parameters), stream)
        if not handle:
            raise Error(self._library.ebb_hybrid_error().decode())
        self._handle = handle
        # Also at the interpreter's end, before what the library needs is taken apart.
        self.close = weakref.finalize(self, self._library.ebb_hybrid_destroy, handle)

    def _call(self, name, *arguments):
        if not self.close.alive:
            raise Error(f"{name}: this optimizer is closed")
        if getattr(self._library, "ebb_hybrid_" + name)(self._handle, *arguments) != 0:
            raise Error(self._library.ebb_hybrid_error().decode())

    def set_gradient(self, index, pointer):
        self._call("set_gradient", index, pointer)

    def gradient_ready(self, index, stream):
        self._call("gradient_ready", index, stream)

    def leave_out(self, index):
        self._call("leave_out", index)

    def discard(self):
        self._call("discard")

    def step(self, groups, clip, gradient_scale, stream):
        """The Report of a step; `groups` are dictionaries of Group's fields."""
        report = Report()
        array = (Group * len(groups))(*(Group(**group) for group in groups))
        self._call("step_groups", array, len(groups), clip, gradient_scale, stream,
                   ctypes.byref(report))
        return report

    def wait_for_weight(self, index, stream):
        self._call("wait_for_weight", index, stream)

    def wait(self):
        self._call("wait")

    def weights_changed(self, stream):
        self._call("weights_changed", stream)

    def read_master(self, index, pointer, count):
        self._call("read_master", index, pointer, count)

    def write_master(self, index, pointer, count, stream):
        self._call("write_master", index, pointer, count, stream)

    def steps_of(self, index):
        steps = ctypes.c_int64()
        self._call("steps_of", index, ctypes.byref(steps))
        return steps.value

    def set_steps(self, index, steps):
        self._call("set_steps", index, steps)

    def read_moments(self, index, first, second, count):
        self._call("read_moments", index, first, second, count)

    def write_moments(self, index, first, second, count):
        self._call("write_moments", index, first, second, count)

    def stored_moments(self, index):
        size = ctypes.c_int64()
        self._call("stored_moments", index, ctypes.byref(size))
        return size.value

    def read_stored_moments(self, index, pointer, size):
        self._call("read_stored_moments", index, pointer, size)

    def write_stored_moments(self, index, pointer, size):
        self._call("write_stored_moments", index, pointer, size)

    def placement(self):
        placement = Placement()
        self._call("placement_of", ctypes.byref(placement))
        return {name: getattr(placement, name) for name, _ in Placement._fields_}

    def traffic(self):
        up, down = ctypes.c_int64(), ctypes.c_int64()
        self._call("traffic", ctypes.byref(up), ctypes.byref(down))
        return {"up_bytes": up.value, "down_bytes": down.value}

    def digests(self):
        """Of all masters and of all moments: equal bits, equal digests."""
        weights, moments = ctypes.create_string_buffer(33), ctypes.create_string_buffer(33)
        self._call("digests", weights, moments)
        return weights.value.decode(), moments.value.decode()
