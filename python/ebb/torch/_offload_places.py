"""Where activations wait for the backward pass: blocks of host memory, or a file without a name.

A place hands out slots within its limit, and moves bytes between them and tensors. What moves them
is a trip: is_done() asks, wait() blocks until it is and raises what went wrong, join() makes what
the current stream does next wait for it.
"""

import concurrent.futures
import contextlib
import errno
import fcntl
import mmap
import os
import tempfile
import threading

import torch

from ebb._library import Error

PAGE = mmap.PAGESIZE
CHUNK = 8 << 20  # of what a thread moves to or from a disk at once, and of its buffer
THREADS = 2


def in_pages(size):
    return -(-size // PAGE) * PAGE


def _pin(block):
    # PyTorch's own pinned memory is rounded up to powers of two.
    code = int(torch.cuda.cudart().cudaHostRegister(block.data_ptr(), block.numel(), 0))
    if code != 0:
        raise Error(f"{block.numel()} bytes of host memory cannot be pinned (CUDA's error {code}): "
                    "give offload_activations() a smaller limit")


class Arrived:
    """A trip that was made when it was asked for."""

    def is_done(self):
        return True

    def wait(self):
        pass

    join = wait


class Queued:
    """A trip on a stream of a GPU."""

    def __init__(self, event, device):
        self._event, self._device = event, device

    def is_done(self):
        return self._event.query()

    def wait(self):
        self._event.synchronize()

    def join(self):
        torch.cuda.current_stream(self._device).wait_event(self._event)


class Submitted:
    """A trip that a thread makes from start to end."""

    def __init__(self, future):
        self._future = future

    def is_done(self):
        return self._future.done()

    def wait(self):
        self._future.result()

    join = wait


class _Streams:
    """Streams of one's own, by device and name."""

    def __init__(self):
        self._made = {}

    def of(self, device, name):
        if (device, name) not in self._made:
            self._made[device, name] = torch.cuda.Stream(device)
        return self._made[device, name]


class HostPlace:
    """Blocks of whole pages, kept for the next tensors of their size, as pinning takes long. They
    are pinned once, when a GPU's tensor goes there first."""

    staging_bytes = 0

    def __init__(self, limit):
        self.limit = limit
        self.reserved = 0  # bytes of all blocks, those that are kept included
        self._kept = {}  # blocks by size
        self._pinned = set()  # their addresses
        self._last_copies = {}  # events by address
        self._streams = _Streams()

    def take(self, size):
        """A slot for so many bytes, or None where the limit leaves no room."""
        size = in_pages(size)
        if self._kept.get(size):
            return self._kept[size].pop()
        others = [blocks for blocks in self._kept.values() if blocks]
        while self.reserved + size > self.limit and others:
            self._release(others[-1].pop())
            others = [blocks for blocks in others if blocks]
        if self.reserved + size > self.limit:
            return None
        self.reserved += size
        return torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)

    def give_back(self, block):
        self._kept.setdefault(block.numel(), []).append(block)

    def _release(self, block):
        self.reserved -= block.numel()
        if block.data_ptr() in self._pinned:
            self._pinned.remove(block.data_ptr())
            self._last_copies.pop(block.data_ptr()).synchronize()
            torch.cuda.cudart().cudaHostUnregister(block.data_ptr())

    def store(self, block, source):
        if source.is_cuda and block.data_ptr() not in self._pinned:
            _pin(block)
            self._pinned.add(block.data_ptr())
        return self._copy(block[:source.numel()], source, block, source.device, "out")

    def fetch(self, block, target):
        return self._copy(target, block[:target.numel()], block, target.device, "in")

    def _copy(self, to, source, block, device, way):
        if device.type != "cuda":
            to.copy_(source)
            return Arrived()
        stream = self._streams.of(device, way)
        # Behind what makes the source, or what used the target's memory before.
        stream.wait_stream(torch.cuda.current_stream(device))
        # The block may have been another tensor's, which some other stream waited for.
        if block.data_ptr() in self._last_copies:
            stream.wait_event(self._last_copies[block.data_ptr()])
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            event = torch.cuda.Event()
            event.record(stream)
        self._last_copies[block.data_ptr()] = event
        return Queued(event, device)

    def __del__(self):
        with contextlib.suppress(Exception):  # CUDA may be gone before
            for address in self._pinned:
                torch.cuda.cudart().cudaHostUnregister(address)


class DiskPlace:
    """Ranges of a file that no folder lists: it is gone with its process, however that ends.
    Threads move the bytes through a buffer of CHUNK each, past the system's cache where the file
    system can, so that a write that returned was made; elsewhere each one is synced."""

    def __init__(self, limit, folder):
        folder = folder or tempfile.gettempdir()
        self.limit = limit
        self.reserved = 0
        self._folder = folder
        self._free = [(0, limit // PAGE * PAGE)]  # (start, end), by start
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
            self._is_direct = self._go_direct()
        except OSError as error:
            raise Error(self._explain("no file for activations can be made there", error)
                        ) from error
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, "ebb_offload")
        self._own = threading.local()
        self.staging_bytes = 0
        self._streams = _Streams()

    def _explain(self, what, error):
        return (f"{self._folder}: {what}: {error.strerror or error}. Give offload_activations() "
                "the folder of a drive with room, folder=..., or a smaller limit")

    def _go_direct(self):
        """Whether the file's bytes pass by the system's cache from now on."""
        file, page = self._file.fileno(), mmap.mmap(-1, PAGE)
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        try:
            fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_DIRECT)
            os.pwrite(file, page, 0)
            return True
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            fcntl.fcntl(file, fcntl.F_SETFL, flags)
            return False

    def take(self, size):
        size = in_pages(size)
        for index, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[index:index + 1] = [(start + size, end)] if end - start > size else []
                self.reserved += size
                return start, size
        return None

    def give_back(self, slot):
        start, size = slot
        self.reserved -= size
        merged = []
        for start, end in sorted([*self._free, (start, start + size)]):
            if merged and merged[-1][1] == start:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        self._free = merged

    def store(self, slot, source):
        return self._submit(self._write, slot, source)

    def fetch(self, slot, target):
        return self._submit(self._read, slot, target)

    def _submit(self, job, slot, tensor):
        ready = None
        if tensor.is_cuda:  # behind what makes it, or what used its memory before
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(tensor.device))
        return Submitted(self._threads.submit(job, slot[0], tensor, ready))

    def _buffer(self, tensor):
        """The calling thread's: the memory, and a tensor over it."""
        if not hasattr(self._own, "memory"):
            memory = mmap.mmap(-1, CHUNK)
            self._own.tensor = torch.frombuffer(memory, dtype=torch.uint8)
            self._own.memory = memory
            self.staging_bytes += CHUNK
        if tensor.is_cuda and not hasattr(self._own, "is_pinned"):
            _pin(self._own.tensor)  # until the process ends, as are the threads
            self._own.is_pinned = True
        return memoryview(self._own.memory), self._own.tensor

    def _write(self, start, source, ready):
        memory, buffer = self._buffer(source)
        for at in range(0, source.numel(), CHUNK):
            part = min(CHUNK, source.numel() - at)
            self._move(buffer[:part], source[at:at + part], source.device, ready)
            self._transfer(os.pwrite, "written", memory[:in_pages(part)], start + at)
        if not self._is_direct:
            os.fdatasync(self._file.fileno())

    def _read(self, start, target, ready):
        memory, buffer = self._buffer(target)
        for at in range(0, target.numel(), CHUNK):
            part = min(CHUNK, target.numel() - at)
            self._transfer(lambda file, to, offset: os.preadv(file, [to], offset), "read",
                           memory[:in_pages(part)], start + at)
            self._move(target[at:at + part], buffer[:part], target.device, ready)

    def _transfer(self, call, done_to, memory, offset):
        """All of it, also where the system does it by parts."""
        try:
            while memory:
                moved = call(self._file.fileno(), memory, offset)
                if moved == 0:
                    raise OSError(errno.EIO, f"nothing is {done_to} at byte {offset}")
                memory, offset = memory[moved:], offset + moved
        except OSError as error:
            raise Error(self._explain(f"activations could not be {done_to}", error)) from error

    def _move(self, to, source, device, ready):
        """The bytes are there on return."""
        if device.type != "cuda":
            to.copy_(source)
            return
        stream = self._streams.of(device, threading.get_ident())
        stream.wait_event(ready)
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
        stream.synchronize()

    def __del__(self):
        if hasattr(self, "_threads"):
            self._threads.shutdown(wait=False)
            self._file.close()
