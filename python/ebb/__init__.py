"""Ebb: train and run language models that are bigger than the GPU.

`import ebb` needs nothing but this package. `ebb.torch`, which needs PyTorch 2.4 or later, has
optimizers whose states live outside of the GPU's memory; docs/python.md is the guide.
"""

import importlib.metadata

from ebb._errors import Error, OutOfBudget
from ebb._library import bytes_of, library_path

__version__ = importlib.metadata.version("ebb")
__all__ = ["Error", "OutOfBudget", "bytes_of", "library_path", "__version__"]
