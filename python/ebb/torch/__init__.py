"""Optimizers for PyTorch whose states live where there is room for them.

    optimizer = ebb.torch.AdamW(model.parameters(), lr=1e-4, states="stream", clip=1.0)

works in any training loop in the place of torch.optim.AdamW. `optimizer.attach(model)` makes it
take gradients as they are made and update weights behind the next forward pass. docs/python.md is
the guide.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("ebb.torch needs PyTorch 2.4 or later, which is not here: "
                      "pip install torch") from error

_version = tuple(int("".join(filter(str.isdigit, part)) or 0)
                 for part in _torch.__version__.split("+")[0].split(".")[:2])
if _version < (2, 4):
    raise ImportError(f"ebb.torch needs PyTorch 2.4 or later, found {_torch.__version__}")

from ebb.torch._hybrid_device import HybridDeviceOptimizer  # noqa: E402
from ebb.torch._offload import offload_activations  # noqa: E402
from ebb.torch._optimizer import StepReport  # noqa: E402
from ebb.torch._optimizers import SGD, Adagrad, Adam, AdamW, Lion  # noqa: E402
from ebb.torch._plan import TorchPlan, plan  # noqa: E402

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "HybridDeviceOptimizer", "Lion", "StepReport",
           "TorchPlan", "offload_activations", "plan"]
