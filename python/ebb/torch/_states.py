"""What the library holds of each parameter, and how it comes there and back."""

import dataclasses

import torch

from ebb._hybrid import Hybrid
from ebb._library import Error, Parameter

TYPES = {torch.bfloat16: 0, torch.float32: 1}
# What a state_dict calls what torch.optim has not.
MASTER, CODES = "master", "moments_int8"


@dataclasses.dataclass
class State:
    """Of one parameter, in ordinary memory, in its shape."""

    steps: int
    moments: list  # fp32 tensors, one for each moment, or None with codes
    codes: torch.Tensor | None = None  # of the int8 format, as it is stored
    master: torch.Tensor | None = None  # fp32, of bf16 weights


@dataclasses.dataclass
class Entry:
    """A parameter that the library knows."""

    index: int
    parameter: torch.Tensor
    group: int
    weight: torch.Tensor  # the same memory, kept alive for as long as the library may write there
    version: int  # of the weight when it was last read or written here
    given: int = 0  # the address of the gradient that the library knows
    held: torch.Tensor | None = None  # a gradient that it may read still
    source: torch.Tensor | None = None  # the parameter's .grad that was taken
    source_version: int = 0

    @property
    def is_taken(self):
        return self.source is not None


def is_dense(shape, strides):
    """Whether elements fill their memory without gaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(strides, shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def why_not(parameter):
    """Why the library cannot hold the state of such a parameter, or None."""
    kind = type(parameter)
    if hasattr(parameter, "_local_tensor") or kind.__name__ in ("DTensor", "FlatParameter"):
        return (f"{kind.__name__} parameters (FSDP, tensor parallel) are not supported: "
                "use this optimizer on whole parameters, one process a GPU")
    if parameter.dtype not in TYPES:
        return f"weights are {parameter.dtype}, expected torch.bfloat16 or torch.float32"
    if parameter.layout != torch.strided:
        return f"its layout is {parameter.layout}, expected a dense tensor"
    return None


def in_order_of(tensor, like):
    """The same elements, lying in memory as those of `like` do."""
    if tensor.stride() == like.stride():
        return tensor
    return torch.empty_strided(like.shape, like.stride(), dtype=tensor.dtype,
                               device=tensor.device).copy_(tensor)


def reconcile(master, weight):
    """The masters of weights: where a weight is what its master rounds to, the master, else the
    weight itself, which somebody wrote since."""
    high = ((master.view(torch.int32).to(torch.int64) + 0x8000) >> 16).to(torch.int16)
    return torch.where(high == weight.view(torch.int16), master, weight.float())


def stream_of(device):
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None


class LibraryStates:
    """The library's optimizer for the parameters of param groups. It is made at the first gradient
    or step, and anew, with its states, when parameters have come, gone, moved or been replaced."""

    def __init__(self, rule, settings):
        self.rule = rule
        self.settings = settings
        self.library = None
        self.entries = {}  # by parameter
        self.waiting = {}  # states of parameters that the library does not hold (yet)
        self.device = None
        self.steps = 0  # applied, also before states were loaded or made anew
        self.taken = 0  # gradients of the step that is being gathered
        self._with_state = set()  # parameters whose state is not that of a start
        self._signature = None

    # -- from step to step ----------------------------------------------------------------------

    def follow(self, groups):
        """Makes the library hold the groups' parameters as they are now. Between steps."""
        wanted, signature = [], []
        for number, group in enumerate(groups):
            for parameter in group["params"]:
                known = parameter in self.entries
                if not (known or parameter.requires_grad or parameter.grad is not None):
                    continue  # frozen: no memory for what does not learn
                if parameter.numel() == 0:
                    continue
                wanted.append((parameter, number))
                signature.append((id(parameter), number, parameter.data_ptr(), parameter.dtype,
                                  parameter.shape, parameter.stride()))
        if self.library is None or signature != self._signature:
            self._make(wanted)
            self._signature = signature
            return
        for entry in self.entries.values():
            if entry.parameter._version != entry.version:
                self._take_weight(entry)

    def weights_changed(self):
        """Weights were written where no version counts it, such as through .data."""
        if self.library is not None:
            self.library.weights_changed(stream_of(self.device))

    def _make(self, wanted):
        self.release()
        if not wanted:
            return
        devices = {parameter.device for parameter, _ in wanted}
        device = next(iter(devices))
        if len(devices) > 1 or device.type not in ("cpu", "cuda") or device.index not in (None, 0):
            raise Error(f"parameters are on {', '.join(sorted(map(str, devices)))}: expected all "
                        "of them on the CPU or on cuda:0 (set CUDA_VISIBLE_DEVICES for another "
                        "GPU), and one optimizer a device")
        entries, parameters = {}, []
        for index, (parameter, group) in enumerate(wanted):
            reason = why_not(parameter)
            if reason is None and not is_dense(parameter.shape, parameter.stride()):
                reason = f"its strides {parameter.stride()} leave gaps: make it contiguous"
            if reason is not None:
                raise Error(f"parameter {index} of shape {tuple(parameter.shape)}: {reason}")
            entries[parameter] = Entry(index, parameter, group, parameter.detach(),
                                       parameter._version)
            kind = TYPES[parameter.dtype]
            parameters.append(Parameter(
                name=f"parameter.{index}".encode(), weight=parameter.data_ptr(),
                count=parameter.numel(), weight_type=kind, gradient_type=kind, decays=1,
                group=group))
        self.library = Hybrid({**self.settings, "rule": self.rule.name, "device": device.type},
                              parameters, stream_of(device))
        self.entries, self.device = entries, device
        for parameter, entry in entries.items():
            state = self.waiting.pop(parameter, None)
            if state is not None:
                self._write(entry, state)

    def release(self):
        """Ends the library's optimizer; its states wait in ordinary memory."""
        if self.library is None:
            return
        waiting = {parameter: self._read(entry) for parameter, entry in self.entries.items()
                   if parameter in self._with_state}
        self.waiting.update(waiting)
        self.drop()

    def drop(self):
        """The same without the states."""
        if self.library is not None:
            self.library.wait()
            self.library.close()
        self.library, self.entries, self._signature, self.taken = None, {}, None, 0
        self._with_state = set()

    # -- a step ---------------------------------------------------------------------------------

    def take(self, entry):
        """The parameter's .grad is what the current stream has queued up to now."""
        gradient = entry.parameter.grad
        if gradient.layout != torch.strided:
            raise Error(f"the gradient of parameter {entry.index} is {gradient.layout}: sparse "
                        "gradients are not supported")
        if gradient.dtype != entry.weight.dtype or gradient.device != entry.weight.device:
            raise Error(f"the gradient of parameter {entry.index} is {gradient.dtype} on "
                        f"{gradient.device}, expected {entry.weight.dtype} on "
                        f"{entry.weight.device} as its weight")
        held = in_order_of(gradient.detach(), entry.weight)
        if held.data_ptr() != entry.given:
            self.library.set_gradient(entry.index, held.data_ptr())
            entry.given = held.data_ptr()
        self.library.gradient_ready(entry.index, stream_of(self.device))
        entry.held, entry.source, entry.source_version = held, gradient, gradient._version
        self.taken += 1

    def step(self, groups, clip, gradient_scale):
        """Of the gradients that were taken; parameters without one are left out."""
        for entry in self.entries.values():
            if not entry.is_taken:
                self.library.leave_out(entry.index)
        report = self.library.step([self.rule.group_step(group) for group in groups], clip,
                                   gradient_scale, stream_of(self.device))
        for parameter, entry in self.entries.items():
            if not entry.is_taken:
                continue
            if report.applied:
                self._with_state.add(parameter)
            else:
                entry.held = None
            entry.source = None
        self.taken = 0
        self.steps += int(report.applied)
        return report

    def discard(self):
        """The gradients that were taken are not; what reads them has ended on return."""
        self.library.discard()
        for entry in self.entries.values():
            if entry.is_taken:
                entry.source = entry.held = None
        self.taken = 0

    def wait_for(self, entry):
        """The current stream goes on when the weight is updated, and may write the gradient."""
        self.library.wait_for_weight(entry.index, stream_of(self.device))
        if entry.held is not None and not entry.is_taken:
            if entry.held.is_cuda:
                # Its memory is another stream's where backward ran on one: free for that one only
                # behind what this stream now waits for.
                entry.held.record_stream(torch.cuda.current_stream(self.device))
            entry.held = None

    # -- states ---------------------------------------------------------------------------------

    def states(self):
        """State by parameter, copied, for those whose state is not that of a start."""
        found = dict(self.waiting)
        for parameter, entry in self.entries.items():
            if parameter in self._with_state:
                found[parameter] = self._read(entry)
        return found

    def _read(self, entry):
        count, codes, master = entry.weight.numel(), None, None

        def empty():
            return torch.empty_strided(entry.weight.shape, entry.weight.stride())

        moments = [empty() for _ in self.rule.moments]
        pointers = [moment.data_ptr() for moment in moments] + [None]
        self.library.read_moments(entry.index, pointers[0], pointers[1], count)
        if self.settings.get("state_format") == "int8":
            codes = torch.empty(self.library.stored_moments(entry.index), dtype=torch.uint8)
            self.library.read_stored_moments(entry.index, codes.data_ptr(), codes.numel())
        if entry.weight.dtype == torch.bfloat16:
            master = empty()
            self.library.read_master(entry.index, master.data_ptr(), count)
        return State(self.library.steps_of(entry.index), moments, codes, master)

    def _write(self, entry, state):
        self.library.set_steps(entry.index, state.steps)
        if state.codes is not None and self.settings.get("state_format") == "int8":
            self.library.write_stored_moments(entry.index, state.codes.data_ptr(),
                                              state.codes.numel())
        else:
            moments = [in_order_of(moment, entry.weight) for moment in state.moments]
            pointers = [moment.data_ptr() for moment in moments] + [None]
            self.library.write_moments(entry.index, pointers[0], pointers[1],
                                       entry.weight.numel())
        if state.master is not None and entry.weight.dtype == torch.bfloat16:
            self._write_master(entry, reconcile(in_order_of(state.master, entry.weight),
                                                entry.weight.cpu()))
        self._with_state.add(entry.parameter)

    def _take_weight(self, entry):
        """The weight was written in place: it is its own master from now on."""
        self._write_master(entry, entry.weight.to("cpu", torch.float32))
        entry.version = entry.parameter._version

    def _write_master(self, entry, master):
        master = in_order_of(master, entry.weight)
        self.library.write_master(entry.index, master.data_ptr(), master.numel(),
                                  stream_of(self.device))


def to_dict(state, rule, state_format, plain):
    """What a state_dict holds of a parameter; `plain` for torch.optim's own optimizers."""
    made = {}
    if rule.counts_steps or not plain:
        made["step"] = torch.tensor(float(state.steps))
    if state.codes is not None and not plain:
        made[CODES] = state.codes
    else:
        for name, moment in zip(rule.moments, state.moments):
            made[name] = moment.bfloat16() if state_format == "bf16" and not plain else moment
    if state.master is not None and not plain:
        made[MASTER] = state.master
    return made


def from_dict(given, rule, parameter, state_format):
    """A State of what a state_dict, of ours or of torch.optim's, holds; everything is copied. None
    where that is the state of a start."""

    def taken(name):
        tensor = given[name]
        if tensor.shape != parameter.shape:
            raise ValueError(f"{name!r} is of shape {tuple(tensor.shape)}, its parameter of "
                             f"{tuple(parameter.shape)}")
        return tensor.detach().to("cpu", torch.float32, copy=True)

    # SGD of torch.optim counts no steps, and nothing depends on it.
    steps = int(given.get("step", 0 if rule.counts_steps else 1))
    moments, codes = None, given.get(CODES)
    if codes is not None:
        if state_format != "int8":
            raise ValueError("the state is of state_format 'int8', this optimizer of "
                             f"{state_format!r}: load it into one of int8, and what that exports "
                             "with torch_state_dict() into this one")
        codes = codes.detach().to("cpu", torch.uint8, copy=True)
    else:
        absent = [name for name in rule.moments if given.get(name) is None]
        if absent and not rule.counts_steps:
            return None  # SGD without momentum keeps none
        if absent:
            raise ValueError(f"the state has no {absent[0]!r}, found {', '.join(given)}: it is "
                             f"that of another rule than {rule.name}")
        moments = [taken(name) for name in rule.moments]
    return State(steps, moments, codes, taken(MASTER) if MASTER in given else None)
