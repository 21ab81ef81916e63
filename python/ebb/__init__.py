"""Ebb: train and run language models that are bigger than the GPU.

    plan = ebb.plan("preset:small", sequence=256, micro_batch=8, device_memory="100MiB")
    with ebb.Trainer("preset:small", data="my_texts/", out="run", steps=500) as trainer:
        summary = trainer.run()
    print(ebb.Generator("run").generate("Once upon a time"))

`import ebb` needs nothing but this package, and loads its libraries when they are first used.
`ebb.torch`, which needs PyTorch 2.4 or later, has optimizers whose states live outside of the GPU's
memory. docs/python.md is the guide.
"""

import importlib.metadata

from ebb._api import (EvaluateReport, EvaluateSummary, GenerateSummary, Generator, Model, Plan,
                      PlanAlternative, StepReport, TierUse, Trainer, TrainSummary, evaluate,
                      inspect, plan, plan_generation)
from ebb._errors import (Cancelled, ConfigError, DeviceError, Error, FormatError, IoError,
                         NumericsError, OutOfBudget)
from ebb._library import bytes_of, library_path

__version__ = importlib.metadata.version("ebb")
__all__ = ["Cancelled", "ConfigError", "DeviceError", "Error", "EvaluateReport", "EvaluateSummary",
           "FormatError", "GenerateSummary", "Generator", "IoError", "Model", "NumericsError",
           "OutOfBudget", "Plan", "PlanAlternative", "StepReport", "TierUse", "TrainSummary",
           "Trainer", "__version__", "bytes_of", "evaluate", "inspect", "library_path", "plan",
           "plan_generation"]
