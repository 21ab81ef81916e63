"""The overlapped mode: hooks that hand gradients over as they are made, and that make modules wait
for their weights.

A parameter is waited for by the module that owns it, right before its forward. Some modules read
weights that are not their own (torch.nn.MultiheadAttention those of its out_proj), so a parameter
counts as its owner's only once that owner's forward has run; until then the first module that runs
after a step waits for it.
"""

import torch

from ebb._library import Error


def _is_compiled(module):
    return (hasattr(module, "_orig_mod")
            or getattr(module, "_compiled_call_impl", None) is not None)


def _units(module):
    """(module, its parameters) for every module that waits. What torch.compile made one piece waits
    as one, before it starts: a hook within would cut it."""
    if _is_compiled(module):
        yield module, list(module.parameters())
        return
    own = list(module.parameters(recurse=False))
    if own:
        yield module, own
    for child in module.children():
        yield from _units(child)


class Attachment:
    """Made by attach(); detaches at the end of a with statement."""

    def __init__(self, optimizer, model):
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise Error("DistributedDataParallel sums gradients after backward has made them: "
                        "an optimizer that is not attached works with it")
        self._optimizer = optimizer
        self._handles = []
        self._pending = set()  # parameters whose update nobody waited for
        self._by_owner = set()  # parameters whose owner's forward has run
        self._owned = set()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._handles.append(
                        parameter.register_post_accumulate_grad_hook(self._taker()))
        for module, parameters in _units(model):
            self._owned.update(parameters)
            self._handles.append(
                module.register_forward_pre_hook(self._waiter(parameters), prepend=True))
        # Weights are read, and written, where modules are saved and loaded.
        for module in model.modules():
            self._handles.append(module.register_state_dict_pre_hook(self._waiter_for_all()))
            register = getattr(module, "register_load_state_dict_pre_hook", None)  # from 2.5 on
            register = register or module._register_load_state_dict_pre_hook
            self._handles.append(register(self._waiter_for_all()))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._optimizer.detach()

    def remove(self):
        for handle in self._handles:
            handle.remove()

    def updates_are_queued(self):
        self._pending = set(self._optimizer._states.entries)

    def all_are_awaited(self):
        self._pending = set()

    # Hooks are functions and no methods: a deep copy of the model keeps them as they are.

    def _taker(self):
        optimizer = self._optimizer

        @torch.no_grad()
        def take(parameter):
            if optimizer._accumulating:
                return
            states = optimizer._states
            if not states.taken:
                states.follow(optimizer.param_groups)
            entry = states.entries.get(parameter)
            if entry is None:
                return  # it came to the groups within this step: step() takes it
            if entry.is_taken:
                raise Error(
                    f"the gradient of parameter {entry.index} was made twice since the last step: "
                    "run all backward passes of a step but the last one under accumulate(), or "
                    "call zero_grad() where a step is left out")
            if parameter in self._pending:
                raise Error(
                    f"the gradient of parameter {entry.index} is there, but no module that was "
                    "attached ran since the last step, so that its weight may have been read "
                    "before it was updated: call wait() before such a forward pass")
            states.take(entry)

        return take

    def _waiter(self, parameters):
        @torch.compiler.disable
        def wait(module, arguments):
            self._by_owner.update(parameters)
            if not self._pending:
                return
            states = self._optimizer._states
            due = [p for p in self._pending if p not in self._owned or p not in self._by_owner]
            for parameter in [*due, *parameters]:
                if parameter not in self._pending:
                    continue
                self._pending.discard(parameter)
                states.wait_for(states.entries[parameter])

        return wait

    def _waiter_for_all(self):
        def wait(*unused):
            if self._pending:
                self._optimizer.wait()

        return wait
