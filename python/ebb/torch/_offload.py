"""Activations that wait for the backward pass elsewhere."""

import collections
import contextlib
import math
import threading
import warnings
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ebb._library import bytes_of
from ebb.torch._offload_places import DiskPlace, HostPlace
from ebb.torch._states import is_dense

# Ranges begin at multiples of it, so that tensors come back as aligned as they were.
_ALIGNMENT = 256


class _Entry:
    """A range of a storage's bytes, which one saved tensor or several lie in."""

    def __init__(self, alias, begin, end):
        storage = alias.untyped_storage()
        self.begin, self.end, self.size = begin, end, end - begin
        self.device, self.version = alias.device, alias._version
        self.storage = storage._cdata  # its key, which a weak reference keeps from being used again
        self.alias = alias  # shares the version's counter; until the copy is made
        self.source = _tensor_over(storage, torch.uint8, begin, (self.size,), (1,))  # likewise
        self.slot = None  # in the place; without one the entry stays where it is
        self.back = None  # bytes on the device again
        self.home = None  # the stream that this memory is of
        self.trip = None  # under way, or joined by every stream that reads what it brought
        self.uses = 0  # saved tensors that are there
        self.trips_back = 0
        self.unpacked = 0  # uses that were unpacked since the last of these
        self.done_in = None  # the backward pass that has unpacked every use
        self.is_ahead = False  # it came back, and nothing has read it yet
        self.is_wanted = False  # the backward pass is near: it is not let go of any more
        self.is_free = self.is_torn = False
        self.before = self.after = None  # in the order of the forward pass


class _Use:
    """What autograd keeps instead of a tensor."""

    def __init__(self, owner, entry, tensor):
        self.owner, self.entry = owner, entry
        self.state = _UseState(entry)
        self.original = weakref.ref(tensor)
        self.version = tensor._version
        self.dtype, self.shape, self.stride = tensor.dtype, tensor.shape, tensor.stride()
        self.offset = tensor.storage_offset()

    def __del__(self):
        # Anywhere and at any time, so no lock is waited for.
        self.owner._dead.append(self.state)
        self.owner._bury_if_unlocked()


class _UseState:
    """What outlives a use, for as long as it is counted."""

    def __init__(self, entry):
        self.entry, self.unpacked_in = entry, None

    @property
    def is_unpacked(self):
        return self.unpacked_in == self.entry.trips_back


class _Stays:
    """Of a tensor that is none to move. (A copy of the reference: an output that is kept itself
    would keep itself alive.)"""

    def __init__(self, tensor):
        self.tensor, self.version = tensor.detach(), tensor._version


def _tensor_over(storage, dtype, offset, shape, stride):
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, stride)


def _extent(tensor):
    """(first byte, last byte + 1) in its storage; all of it where the tensor has gaps, so that the
    parts that a tensor was split into are one range."""
    item = tensor.element_size()
    first = tensor.storage_offset() * item
    # What was expanded is there once.
    real = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if stride > 0]
    shape, strides = [size for size, _ in real], [stride for _, stride in real]
    if not is_dense(shape, strides):
        return 0, tensor.untyped_storage().nbytes()
    return first // _ALIGNMENT * _ALIGNMENT, first + math.prod(shape) * item


class offload_activations:
    """Tensors that autograd saves leave the device behind the forward pass, and come back ahead of
    the backward pass, with the same bits.

        offload = ebb.torch.offload_activations(limit="16GiB")
        for batch in data:
            with offload:
                loss = model(batch).loss
            loss.backward()

    limit      the most that may be held away from the device: bytes, or "16GiB". What comes first
               leaves, until it is reached; the rest stays
    to         "host", memory that is pinned, for tensors of a GPU; "disk", a file without a name,
               also for tensors of the CPU
    folder     of that file, on the drive that is to be used; the system's for temporary files
    window     bytes that may be on their way in each direction; four of the largest unless given
    smallest   a tensor of fewer bytes stays
    model      its parameters and buffers stay also where nothing else shows that they are some (a
               compiled module may save views of them)

    What is made anew every step takes its memory anew, so keep it. The backward pass may run within
    the with statement or after it, several times, or not at all. placement() and traffic() say what
    is held where, and what was moved.
    """

    def __init__(self, *, limit, to="host", folder=None, window=None, smallest="1MiB", model=None):
        limit = bytes_of(limit)
        if limit is None or limit < 0:
            raise ValueError(f"limit {limit!r}: expected bytes, or a text such as '16GiB'")
        if to not in ("host", "disk"):
            raise ValueError(f"to {to!r}: expected 'host' or 'disk'")
        if folder is not None and to != "disk":
            raise ValueError("folder: only for to='disk'")
        self.to = to
        self._place = HostPlace(limit) if to == "host" else DiskPlace(limit, folder)
        self._window = bytes_of(window)
        self._smallest = bytes_of(smallest)
        self._model = model
        self._of_model = set()  # keys of its storages
        self._has_warned = False
        self._kinds = ("cuda",) if to == "host" else ("cuda", "cpu")
        self._hooks = threading.local()
        self._lock = threading.Lock()  # of all below; the engine's threads unpack
        self._dead = collections.deque()  # uses that are gone, to be counted
        self._storages = {}  # by key: (weak reference, entries)
        self._leaving = collections.deque()  # entries, in the order of their trips
        self._last = None  # entry of the forward pass
        self._largest = 0
        self._leaving_bytes = self._ahead_bytes = self._away_bytes = self._peak_bytes = 0
        self._stayed_bytes = self._down_bytes = self._up_bytes = 0

    def __enter__(self):
        if self._model is not None:
            self._of_model = {tensor.untyped_storage()._cdata for tensor in
                              (*self._model.parameters(), *self._model.buffers())}
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._stack().append(hooks)
        return self

    def __exit__(self, *raised):
        self._stack().pop().__exit__(*raised)

    def _stack(self):
        if not hasattr(self._hooks, "stack"):
            self._hooks.stack = []
        return self._hooks.stack

    # -- packing --------------------------------------------------------------------------------

    def _pack(self, tensor):
        extent = self._extent_to_move(tensor)
        if extent is None:
            return _Stays(tensor)
        with self._locked():
            self._settle()
            entry = self._find(tensor, *extent) or self._send(tensor, *extent)
            entry.uses += 1
            return _Use(self, entry, tensor)

    def _extent_to_move(self, tensor):
        """Its bytes in its storage, or None if it stays."""
        # What a backward pass makes it needs at once.
        if torch._C._current_graph_task_id() != -1:
            return None
        if (type(tensor) is not torch.Tensor or tensor.layout != torch.strided
                or tensor.device.type not in ("cuda", "cpu") or tensor.is_conj() or tensor.is_neg()
                or tensor.numel() == 0):
            return None
        for one in (tensor, tensor._base):
            if isinstance(one, torch.nn.Parameter) or (
                    one is not None and one.is_leaf and one.requires_grad):
                return None
        begin, end = _extent(tensor)
        if end - begin < self._smallest or tensor.untyped_storage()._cdata in self._of_model:
            return None
        if tensor.device.type not in self._kinds:
            if not self._has_warned:
                warnings.warn("offload_activations(to='host'): tensors of the CPU are in host "
                              "memory already and stay where they are; to='disk' moves them",
                              RuntimeWarning, stacklevel=4)
            self._has_warned = True
            return None
        return begin, end

    def _find(self, tensor, begin, end):
        _, entries = self._storages.get(tensor.untyped_storage()._cdata, (None, ()))
        first = tensor.storage_offset() * tensor.element_size()
        for entry in entries:
            if (entry.version == tensor._version and entry.begin <= begin and end <= entry.end
                    and (first - entry.begin) % tensor.element_size() == 0):
                return entry
        return None

    def _send(self, tensor, begin, end):
        entry = _Entry(tensor.detach(), begin, end)
        self._largest = max(self._largest, entry.size)
        storage = tensor.untyped_storage()
        self._storages.setdefault(storage._cdata, (StorageWeakRef(storage), []))[1].append(entry)
        entry.before, self._last = self._last, entry
        if entry.before is not None:
            entry.before.after = entry
        entry.slot = self._place.take(entry.size)
        if entry.slot is None:
            self._stayed_bytes += entry.size
            return entry
        self._away_bytes += entry.size
        self._peak_bytes = max(self._peak_bytes, self._away_bytes)
        try:
            entry.trip = self._place.store(entry.slot, entry.source)
        except Exception:
            self._free(entry)
            raise
        self._leaving.append(entry)
        self._leaving_bytes += entry.size
        self._down_bytes += entry.size
        # Memory is free again when its copy is made and no sooner, whatever stream it was of.
        while len(self._leaving) > 1 and self._leaving_bytes > self._most_under_way():
            self._has_left(self._leaving.popleft())
        return entry

    def _most_under_way(self):
        return self._window or 4 * self._largest

    def _settle(self):
        while self._leaving and self._leaving[0].trip.is_done():
            self._has_left(self._leaving.popleft())

    def _has_left(self, entry):
        """Waits for its way out, and lets go of its memory."""
        self._leaving_bytes -= entry.size
        try:
            entry.trip.wait()
        except Exception:
            # What is not away stays, and the backward pass may still be made.
            self._give_back(entry)
            raise
        finally:
            entry.trip = None
        entry.is_torn = entry.alias._version != entry.version
        if not entry.is_wanted:
            entry.alias = entry.source = None
        if entry.is_free:
            self._give_back(entry)

    def _give_back(self, entry):
        self._place.give_back(entry.slot)
        self._away_bytes -= entry.size
        entry.slot = None

    # -- unpacking ------------------------------------------------------------------------------

    def _unpack(self, use):
        if isinstance(use, _Stays):
            if use.tensor._version != use.version:
                raise _changed(use.tensor.shape, use.version, use.tensor._version)
            return use.tensor
        original = use.original()
        if original is not None and original._version != use.version:
            raise _changed(use.shape, use.version, original._version)
        with self._locked():
            self._settle()
            entry = use.entry
            if entry.is_torn or (entry.alias is not None and entry.alias._version != use.version):
                raise _changed(use.shape, use.version, "a later one")
            if entry.source is not None:  # it never left, or is on its way
                self._prefetch(entry)
                return self._rebuilt(use, entry.source, 0)
            if entry.back is None:
                self._bring(entry)
            self._prefetch(entry)
            entry.trip.join()
            back = entry.back
            if back.is_cuda and torch.cuda.current_stream(back.device) != entry.home:
                back.record_stream(torch.cuda.current_stream(back.device))
            self._is_behind(entry)
            if not use.state.is_unpacked:
                use.state.unpacked_in = entry.trips_back
                entry.unpacked += 1
            made = self._rebuilt(use, back, entry.begin)
            self._drop_if_done(entry)
            return made

    @staticmethod
    def _rebuilt(use, data, begin):
        offset = use.offset - begin // use.dtype.itemsize
        return _tensor_over(data.untyped_storage(), use.dtype, offset, use.shape, use.stride)

    def _bring(self, entry):
        entry.back = torch.empty(entry.size, dtype=torch.uint8, device=entry.device)
        if entry.back.is_cuda:
            entry.home = torch.cuda.current_stream(entry.device)
        entry.trip = self._place.fetch(entry.slot, entry.back)
        entry.is_ahead = True
        entry.trips_back += 1
        entry.unpacked = 0
        self._ahead_bytes += entry.size
        self._up_bytes += entry.size

    def _is_behind(self, entry):
        if entry.is_ahead:
            entry.is_ahead = False
            self._ahead_bytes -= entry.size

    def _prefetch(self, entry):
        """Those that were saved right before are needed next, as far as there is room for them."""
        passed, coming, this_pass = 0, entry.before, torch._C._current_graph_task_id()
        while coming is not None and passed + coming.size <= self._most_under_way():
            passed += coming.size
            coming.is_wanted = True
            if coming.source is None and coming.back is None and coming.done_in != this_pass:
                if self._ahead_bytes + coming.size > self._most_under_way():
                    break
                self._bring(coming)
            coming = coming.before

    # -- the end of uses ------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self):
        with self._lock:
            self._bury()
            yield
        self._bury_if_unlocked()

    def _bury_if_unlocked(self):
        # Whoever has the lock looks again when it is free.
        while self._dead and self._lock.acquire(blocking=False):
            try:
                self._bury()
            finally:
                self._lock.release()

    def _bury(self):
        while self._dead:
            state = self._dead.popleft()
            state.entry.uses -= 1
            state.entry.unpacked -= state.is_unpacked
            if state.entry.uses == 0:
                self._free(state.entry)
            else:
                self._drop_if_done(state.entry)

    def _drop_if_done(self, entry):
        """Bytes that came back go when every saved tensor among them was used once; another
        backward pass fetches them again."""
        if entry.back is not None and entry.unpacked >= entry.uses:
            entry.done_in = torch._C._current_graph_task_id()
            self._drop(entry)

    def _drop(self, entry):
        if entry.is_ahead:  # no stream waits for what comes: its memory must not be used again yet
            with contextlib.suppress(Exception):  # nobody needs it
                entry.trip.wait()
        self._is_behind(entry)
        entry.back = entry.trip = None

    def _free(self, entry):
        _, entries = self._storages[entry.storage]
        entries.remove(entry)
        if not entries:
            del self._storages[entry.storage]
        if entry.before is not None:
            entry.before.after = entry.after
        if entry.after is not None:
            entry.after.before = entry.before
        else:
            self._last = entry.before
        entry.before = entry.after = None
        if entry.back is not None:
            self._drop(entry)
        entry.is_free = True
        if entry.trip is None and entry.slot is not None:
            self._give_back(entry)  # else when it has left

    # -- what was done --------------------------------------------------------------------------

    def synchronize(self):
        """What leaves has left on return."""
        with self._locked():
            while self._leaving:
                self._has_left(self._leaving.popleft())

    def placement(self):
        """Bytes: away now and at most, taken of the limit with what is kept for later, of buffers
        beside it, and what stayed as the limit was reached (the sum so far)."""
        with self._locked():
            self._settle()
            return {"away_bytes": self._away_bytes, "peak_bytes": self._peak_bytes,
                    "reserved_bytes": self._place.reserved, "limit_bytes": self._place.limit,
                    "staging_bytes": self._place.staging_bytes,
                    "stayed_bytes": self._stayed_bytes}

    def traffic(self):
        """Bytes that left and that came back so far."""
        return {"down_bytes": self._down_bytes, "up_bytes": self._up_bytes}


def _changed(shape, expected, found):
    return RuntimeError(
        f"a tensor of shape {tuple(shape)} that the backward pass needs was changed in place after "
        f"it was saved: it is of version {found}, expected {expected}. Change a copy of it instead")
