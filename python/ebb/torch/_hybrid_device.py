"""A wrapper around an optimizer that exists already, as users of Megatron know it."""

import torch

from ebb._library import Error, bytes_of
from ebb.torch._optimizer import LibraryOptimizer
from ebb.torch._rules import rule_of
from ebb.torch._states import from_dict, why_not
from ebb.torch._window import WindowedStates


class HybridDeviceOptimizer(LibraryOptimizer):
    """Takes the states of `optimizer` off the device.

    Where the library has its rule (torch.optim's AdamW, Adam, SGD and Adagrad on bf16 or fp32
    weights), its kernels take over, with the settings and states that are there; the keyword
    arguments are those of ebb.torch.AdamW. For any other optimizer the tensors of its state live
    in host memory, and come to the device and go home around its own step(), one parameter at a
    time, within `window` bytes of device memory; only offload_fraction, overlap_transfers and
    window are for these.

    offload_fraction   the share of the parameters whose states leave; optimizer_offload_fraction
                       is the same. The parameters listed last leave first.
    use_cpu_offloading True: the CPU updates what left (states="host"); False: nothing leaves
    overlap_transfers  False: one transfer after the other. The library's always overlap.

    The optimizer shares its param groups with this one, so that schedulers of either work; its own
    step() must not be called any more.
    """

    def __init__(self, optimizer, *, overlap_transfers=True, offload_fraction=1.0,
                 use_cpu_offloading=None, optimizer_offload_fraction=None, window=0, **options):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"HybridDeviceOptimizer takes a torch.optim.Optimizer, found "
                            f"{type(optimizer).__name__}")
        if optimizer_offload_fraction is not None:
            offload_fraction = optimizer_offload_fraction
        if use_cpu_offloading is not None:
            options.setdefault("states", "host" if use_cpu_offloading else "resident")
        if use_cpu_offloading is False or options.get("states") == "resident":
            offload_fraction = 0.0
        self.optimizer = optimizer
        self._windowed = None
        rule = rule_of(optimizer)
        if any(why_not(p) for group in optimizer.param_groups for p in group["params"]):
            rule = None
        if rule is None:
            self._wrap_any(optimizer, overlap_transfers, offload_fraction, window, options)
        else:
            super().__init__(optimizer.param_groups, dict(rule.settings), rule,
                             offload_fraction=offload_fraction, window=window, **options)
            self._take_states(rule, options.get("state_format", "exact"))
        optimizer.param_groups = self.param_groups

    @property
    def is_windowed(self):
        """Whether the optimizer's own step() runs, as the library has no such rule."""
        return self._windowed is not None

    def _take_states(self, rule, state_format):
        own = self.optimizer.state
        for parameter, state in own.items():
            if state:
                taken = from_dict(state, rule, parameter, state_format)
                if taken is not None:
                    self._states.waiting[parameter] = taken
        own.clear()
        self._states.steps = max((s.steps for s in self._states.waiting.values()), default=0)

    def _wrap_any(self, optimizer, overlap, fraction, window, options):
        options.pop("states", None)
        if options:
            raise ValueError(f"{', '.join(options)}: not for {type(optimizer).__name__}, which "
                             "the library has no rule like: its own step() runs")
        torch.optim.Optimizer.__init__(self, optimizer.param_groups, dict(optimizer.defaults))
        self._step_supports_amp_scaling = False  # its own, as far as it has one, is bypassed
        self._windowed = WindowedStates(optimizer, self.param_groups, fraction=fraction,
                                        window=bytes_of(window), overlap=overlap)
        self.state = self._windowed.states

    def _check_group(self, group):
        if hasattr(self, "_rule"):
            super()._check_group(group)

    @torch.no_grad()
    def step(self, closure=None):
        # Schedulers of the wrapped optimizer ask whether it has made a step.
        self.optimizer._opt_called = True
        if self._windowed is None:
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._windowed.step(self.param_groups)
        return loss

    def zero_grad(self, set_to_none=True):
        if self._windowed is None:
            super().zero_grad(set_to_none)
        else:
            torch.optim.Optimizer.zero_grad(self, set_to_none)

    def wait(self):
        if self._windowed is None:
            super().wait()

    def attach(self, model):
        if self._windowed is not None:
            raise Error(f"attach(): {type(self.optimizer).__name__} runs its own step(), which "
                        "needs all gradients; it is overlapped with nothing")
        return super().attach(model)

    def detach(self):
        if self._windowed is None:
            super().detach()

    def weights_changed(self):
        if self._windowed is None:
            super().weights_changed()

    def placement(self):
        return self._windowed.placement() if self._windowed else super().placement()

    def traffic(self):
        return self._windowed.traffic() if self._windowed else super().traffic()

    def state_dict(self):
        if self._windowed is None:
            return super().state_dict()
        self._windowed.synchronize()
        return torch.optim.Optimizer.state_dict(self)

    def torch_state_dict(self):
        return super().torch_state_dict() if self._windowed is None else self.state_dict()

    @staticmethod
    def _wrap_plain(self, state_dict):
        return {**state_dict, "state": {number: _AsItIs(state) for number, state
                                        in state_dict["state"].items()}}

    def load_state_dict(self, state_dict):
        if self._windowed is None:
            super().load_state_dict(state_dict)
            return
        handle = self.register_load_state_dict_pre_hook(HybridDeviceOptimizer._wrap_plain)
        try:
            torch.optim.Optimizer.load_state_dict(self, state_dict)
        finally:
            handle.remove()

    def __setstate__(self, state):
        if self._windowed is None:
            super().__setstate__(state)
        else:
            torch.optim.Optimizer.__setstate__(self, state)
            self._windowed.load({parameter: loaded.state
                                 for parameter, loaded in self.state.items()})
            self.state = self._windowed.states
        self.optimizer.param_groups = self.param_groups


class _AsItIs:
    """A state that Optimizer.load_state_dict() neither casts nor moves."""

    def __init__(self, state):
        self.state = state
