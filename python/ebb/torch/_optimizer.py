"""A torch.optim.Optimizer over the library: what all rules have in common."""

import collections
import contextlib
import dataclasses
import warnings

import torch

from ebb._library import Error, bytes_of
from ebb.torch._attached import Attachment
from ebb.torch._states import LibraryStates, from_dict, to_dict, why_not


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What a step found and did."""

    step: int  # steps applied so far, this one included
    norm: float  # of all gradients together, before clipping
    clip_factor: float
    applied: bool  # False: the norm was not finite, and nothing was touched
    first_bad: int | None  # then the first parameter that makes it so, by its place in the groups


class _Loaded:
    """A state on its way through Optimizer.load_state_dict(), which would cast and move tensors."""

    def __init__(self, state):
        self.state = state


class LibraryOptimizer(torch.optim.Optimizer):
    """Runs a rule of the library's.

    Keyword arguments that all of these optimizers take:

    states           "resident" (on the device), "stream" (in host memory, updated on the device) or
                     "host" (in host memory, updated by the CPU); results are the same bits
    offload_fraction the share of the parameters whose states leave the device; 1 unless resident
    host_fraction    the share that the CPU updates while the rest is streamed
    state_format     "exact", or "bf16" and "int8" for AdamW
    device_memory, host_memory   limits on what the optimizer holds: bytes, or "4GiB"
    clip             clip by this norm of all gradients in every step
    threads          of the CPU; 0 for all
    seed             of the random roundings of compact formats
    """

    # A GradScaler gives grad_scale and found_inf instead of writing the gradients.
    _step_supports_amp_scaling = True
    clip = None
    report = None  # of the last step
    _accumulating = False
    _attachment = None

    def __init__(self, params, defaults, rule, *, states="stream", offload_fraction=None,
                 host_fraction=None, state_format="exact", device_memory=None, host_memory=None,
                 clip=None, chunk_parameters=0, window=0, threads=0, seed=0):
        if clip is not None and not clip > 0:
            raise ValueError(f"clip {clip!r}: expected a norm above 0, or None for no clipping")
        self.clip = clip
        self._rule = rule
        self._states = LibraryStates(rule, {
            "states": states, "offload_fraction": offload_fraction, "host_fraction": host_fraction,
            "state_format": state_format, "device_memory": bytes_of(device_memory),
            "host_memory": bytes_of(host_memory), "chunk_parameters": chunk_parameters,
            "window": bytes_of(window), "threads": threads, "seed": seed})
        super().__init__(params, defaults)

    # -- param groups ---------------------------------------------------------------------------

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            del self.param_groups[-1]
            raise

    def _check_group(self, group):
        for parameter in group["params"]:
            reason = why_not(parameter)
            if reason is not None:
                raise TypeError(f"a parameter of shape {tuple(parameter.shape)}: {reason}")
        reason = self._rule.why_wrong(group) or self._rule.why_not(group)
        if reason is not None:
            raise ValueError(f"a param group has {reason}")

    # -- steps ----------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure=None):
        """Clips, if it was made with clip=, and updates. The closure's loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        states = self._states
        if not states.taken:
            states.follow(self.param_groups)
        if states.library is None:
            return loss
        self._check_taken(is_scaled=scale is not None)
        if found_inf is not None and float(found_inf) != 0:
            if states.taken:
                states.discard()
            self.report = StepReport(states.steps, float("inf"), 0.0, False, None)
            return loss
        for entry in states.entries.values():
            if not entry.is_taken and entry.parameter.grad is not None:
                states.take(entry)
        if not states.taken:
            return loss
        found = states.step(self.param_groups, self.clip or 0.0,
                            1.0 if scale is None else float(scale))
        self._note(found)
        if self._attachment is not None and found.applied:
            self._attachment.updates_are_queued()
        else:
            self._wait_for_all()
        return loss

    def _note(self, found):
        self.report = StepReport(self._states.steps, found.norm, found.clip_factor,
                                 bool(found.applied), None if found.applied else found.first_bad)
        if not found.applied:
            warnings.warn(f"the norm of the gradients is {found.norm}, parameter "
                          f"{found.first_bad} makes it so: the step was left out", RuntimeWarning,
                          stacklevel=4)

    def _check_taken(self, is_scaled):
        """Gradients that were taken as they were made are still what they were."""
        for entry in self._states.entries.values():
            if not entry.is_taken:
                continue
            # A GradScaler that looks for infinities multiplies gradients by 1.
            same = is_scaled or entry.source_version == entry.source._version
            if entry.parameter.grad is entry.source and same:
                continue
            self._states.discard()
            raise Error(
                f"the gradient of parameter {entry.index} was changed after it was taken, which "
                "an attached optimizer does during the backward pass: clip with clip=, leave "
                "unscaling to scaler.step(), sum micro-batches under accumulate(), or detach()")

    def _wait_for_all(self):
        for entry in self._states.entries.values():
            self._states.wait_for(entry)

    def wait(self):
        """The current stream sees updated weights, and may write them: for what reads or writes
        weights outside of the modules' forward, state_dict() and load_state_dict()."""
        if self._states.library is not None:
            self._wait_for_all()
        if self._attachment is not None:
            self._attachment.all_are_awaited()

    def zero_grad(self, set_to_none=True):
        if self._states.taken:
            self._states.discard()
        if not set_to_none:
            self.wait()  # updates may still read them
        super().zero_grad(set_to_none)

    def weights_changed(self):
        """Call it after weights were written through .data, which nothing can see. Writing a
        parameter itself (load_state_dict, copy_) is seen."""
        self.wait()
        self._states.weights_changed()

    # -- overlapped -----------------------------------------------------------------------------

    def attach(self, model):
        """Takes gradients as backward makes them, and updates behind the next forward pass, where
        the model's modules wait for their own weights. Returns what detaches at the end of a with
        statement; detach() does so at any time."""
        if self._attachment is not None:
            raise Error("this optimizer is attached already: detach() first")
        self._attachment = Attachment(self, model)
        return self._attachment

    def detach(self):
        if self._attachment is None:
            return
        if self._states.taken:
            self._states.discard()
        self.wait()
        self._attachment.remove()
        self._attachment = None

    @contextlib.contextmanager
    def accumulate(self):
        """Around every backward pass of a step but the last: gradients are summed in .grad."""
        before, self._accumulating = self._accumulating, True
        try:
            yield
        finally:
            self._accumulating = before

    # -- states ---------------------------------------------------------------------------------

    def state_dict(self):
        """Copies of all states, in ordinary memory, beside the settings of the groups."""
        return self._dict_of(plain=False)

    def torch_state_dict(self):
        """The same as the optimizer of torch.optim has it, which can load it: moments in fp32, no
        masters."""
        return self._dict_of(plain=True)

    def _dict_of(self, plain):
        state_format = self._states.settings["state_format"]
        self.state = {parameter: to_dict(state, self._rule, state_format, plain)
                      for parameter, state in self._states.states().items()}
        try:
            made = super().state_dict()
        finally:
            self.state = collections.defaultdict(dict)
        if plain:  # torch.optim's classes want their own settings, too
            for group in made["param_groups"]:
                for name, value in self._rule.refused.items():
                    group.setdefault(name, value)
        return made

    def load_state_dict(self, state_dict):
        """Takes a state_dict() of this class's, or of torch.optim's of the same rule. Tensors are
        copied into ordinary memory wherever they are; the library takes them at the next step."""
        # The last of the hooks that may change what is loaded.
        handle = self.register_load_state_dict_pre_hook(LibraryOptimizer._wrap)
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()

    @staticmethod
    def _wrap(self, state_dict):
        """Refuses what is wrong before anything is touched."""
        groups = state_dict["param_groups"]
        for group in groups:
            reason = self._rule.why_not(group)
            if reason is not None:
                raise ValueError(f"the state's param groups have {reason}")
        by_id = {number: parameter for saved, group in zip(groups, self.param_groups)
                 for number, parameter in zip(saved["params"], group["params"])}
        state_format = self._states.settings["state_format"]
        loaded = {}
        for number, given in state_dict["state"].items():
            if number not in by_id:
                raise ValueError(f"the state of parameter {number} is that of none of the groups'")
            try:
                loaded[number] = _Loaded(from_dict(given, self._rule, by_id[number], state_format))
            except ValueError as error:
                raise ValueError(f"the state of parameter {number}: {error}") from None
        return {**state_dict, "state": loaded}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        loaded, self.state = self.state, collections.defaultdict(dict)
        self._states.drop()
        self._states.waiting = {parameter: found.state for parameter, found in loaded.items()
                                if found.state is not None}
        self._states.steps = max((s.steps for s in self._states.waiting.values()), default=0)
        if self._attachment is not None:
            self._attachment.all_are_awaited()

    def __getstate__(self):
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied, as it holds memory "
                        "that is no tensor: save its state_dict(), and make one anew")

    def placement(self):
        """Bytes held and parameters by place, or None before the first gradient or step."""
        return self._states.library and self._states.library.placement()

    def traffic(self):
        """Bytes that crossed the link so far, or None before the first gradient or step."""
        return self._states.library and self._states.library.traffic()
