"""One class a rule, with the arguments of torch.optim's."""

import torch

from ebb.torch import _rules
from ebb.torch._optimizer import LibraryOptimizer
from ebb.torch._states import State


class AdamW(LibraryOptimizer):
    """torch.optim.AdamW, with its states where there is room.

    Weights are bf16, of which fp32 masters are kept, or fp32. See LibraryOptimizer for the keyword
    arguments that say where states live, and clip=.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, **options):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay),
                         _rules.ADAMW, **options)


class Adam(LibraryOptimizer):
    """torch.optim.Adam: weight decay is part of the gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **options):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay),
                         _rules.ADAM, **options)


class Lion(LibraryOptimizer):
    """Lion, which torch.optim does not have: one moment, and steps of the learning rate's size."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, **options):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay), _rules.LION,
                         **options)


class SGD(LibraryOptimizer):
    """torch.optim.SGD with momentum and Nesterov's, without dampening."""

    def __init__(self, params, lr=1e-3, momentum=0.0, weight_decay=0.0, nesterov=False, **options):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay,
                                      nesterov=nesterov), _rules.SGD, **options)


class Adagrad(LibraryOptimizer):
    """torch.optim.Adagrad without a decay of the learning rate."""

    def __init__(self, params, lr=1e-2, eps=1e-10, weight_decay=0.0, initial_accumulator_value=0.0,
                 **options):
        self._initial = float(initial_accumulator_value)
        super().__init__(params, dict(lr=lr, eps=eps, weight_decay=weight_decay), _rules.ADAGRAD,
                         **options)

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        if self._initial == 0:
            return
        for parameter in self.param_groups[-1]["params"]:
            self._states.waiting[parameter] = State(0, [torch.full_like(
                parameter, self._initial, dtype=torch.float32, device="cpu")])
