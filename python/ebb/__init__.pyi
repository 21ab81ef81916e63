import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

from ebb._api import EvaluateReport as EvaluateReport
from ebb._api import EvaluateSummary as EvaluateSummary
from ebb._api import GenerateSummary as GenerateSummary
from ebb._api import Plan as Plan
from ebb._api import PlanAlternative as PlanAlternative
from ebb._api import StepReport as StepReport
from ebb._api import TierUse as TierUse
from ebb._api import TrainSummary as TrainSummary
from ebb._errors import Cancelled as Cancelled
from ebb._errors import ConfigError as ConfigError
from ebb._errors import DeviceError as DeviceError
from ebb._errors import Error as Error
from ebb._errors import FormatError as FormatError
from ebb._errors import IoError as IoError
from ebb._errors import NumericsError as NumericsError
from ebb._errors import OutOfBudget as OutOfBudget

__version__: str

_Path = str | os.PathLike[str]
_Paths = _Path | Sequence[_Path]
_Bytes = int | str  # "4GiB"
_Blocks = int | str  # a number, "auto", or the words of the command line's flag
_Message = dict[str, str]  # role, content
_Ids = Sequence[int] | Any  # also arrays of NumPy's and PyTorch's

class _TrainOptions(TypedDict, total=False):
    tokenizer: str
    packing: Literal["auto", "stream", "fit", "none"]
    loss: Literal["completion", "all"]
    on_bad_data: Literal["stop", "skip"]
    accept_changed_data: bool
    eval_data: _Paths
    eval_share: float
    eval_batches: int
    eval_every: int
    device_memory: _Bytes
    host_memory: _Bytes
    disk: str | Sequence[str]
    disk_endurance: _Bytes
    sequence: int
    micro_batch: int
    accumulate: int
    optimizer: Literal["adamw", "adam", "lion", "sgd", "adagrad"]
    learning_rate: float
    clip: float
    weight_decay: float
    beta1: float
    beta2: float
    epsilon: float
    momentum: float
    nesterov: bool
    state_format: Literal["exact", "bf16", "int8"]
    schedule: Literal["constant", "linear", "cosine", "wsd"]
    warmup: int
    final_share: float
    decay_share: float
    states: Literal["auto", "resident", "stream", "host"]
    offload_fraction: float
    host_fraction: float
    weights: _Blocks
    gradient_sums: _Blocks
    vocabulary: Literal["auto", "whole", "cut"]
    recompute: _Blocks
    save_cheap: _Blocks
    activations: _Blocks
    disk_fraction: float
    disk_weights: _Blocks
    disk_sums: _Blocks
    disk_activations: _Blocks
    chunk_parameters: int
    depth: int
    steps: int
    seed: int
    dtype: Literal["auto", "bf16", "fp32"]
    gradients: Literal["auto", "bf16", "fp32"]
    device: Literal["auto", "cpu", "cuda"]
    threads: int
    profile: str
    save_every: int | str
    save_patience_seconds: float
    keep: int
    resume: bool
    outputs: _Paths
    trace: str
    trace_steps: int
    verify: bool
    summarize: bool

class _EvaluateOptions(TypedDict, total=False):
    tokenizer: str
    packing: Literal["auto", "stream", "fit", "none"]
    loss: Literal["completion", "all"]
    on_bad_data: Literal["stop", "skip"]
    sequence: int
    micro_batch: int
    batches: int
    max_tokens: int
    device_memory: _Bytes
    host_memory: _Bytes
    disk: str | Sequence[str]
    weights: _Blocks
    vocabulary: Literal["auto", "whole", "cut"]
    disk_weights: _Blocks
    chunk_parameters: int
    depth: int
    dtype: Literal["auto", "bf16", "fp32"]
    device: Literal["auto", "cpu", "cuda"]
    threads: int
    profile: str
    trace: str
    verify: bool

class _GeneratorOptions(TypedDict, total=False):
    positions: int
    prompt_tokens: int
    reuse: Literal["slices", "all"]
    device_memory: _Bytes
    host_memory: _Bytes
    disk: str | Sequence[str]
    weights: _Blocks
    disk_weights: int
    attention: Literal["auto", "resident", "stream"]
    cpu_blocks: _Blocks
    cpu_prompt_blocks: _Blocks
    cache: Literal["auto", "device", "host", "mixed"]
    slice: int
    depth: int
    dtype: Literal["auto", "bf16", "fp32"]
    device: Literal["auto", "cpu", "cuda"]
    threads: int
    trace: str

class _SamplingOptions(TypedDict, total=False):
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    repetition_window: int
    seed: int
    stop: str | Sequence[str]
    show_special: bool
    log_probs: int

def bytes_of(size: int | str | None) -> int | None: ...
def library_path() -> pathlib.Path: ...
def plan(model: _Path, *, machine: str = ..., **options: Unpack[_TrainOptions]) -> Plan: ...
def plan_generation(model: _Path, *, prompt_tokens: int = ..., machine: str = ...,
                    **options: Any) -> str: ...
def inspect(path: _Path) -> dict[str, Any]: ...
def evaluate(model: _Path, data: _Paths, *,
             on_batch: Callable[[EvaluateReport], bool | None] | None = ...,
             on_note: Callable[[str], None] | None = ...,
             **options: Unpack[_EvaluateOptions]) -> EvaluateSummary: ...

class Model:
    name: str
    parameters: int
    vocabulary: int
    max_positions: int
    has_weights: bool
    has_chat_template: bool
    def __init__(self, model: _Path, *, tokenizer: str = ..., verify: bool = ...,
                 host_memory: _Bytes | None = ...) -> None: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: _Ids) -> str: ...
    def render_chat(self, messages: Sequence[_Message]) -> str: ...
    def encode_chat(self, messages: Sequence[_Message]) -> list[int]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *raised: object) -> None: ...

class Trainer:
    def __init__(self, model: _Path, *, data: _Paths, out: _Path,
                 on_step: Callable[[StepReport], bool | None] | None = ...,
                 on_note: Callable[[str], None] | None = ...,
                 **options: Unpack[_TrainOptions]) -> None: ...
    def plan(self) -> Plan: ...
    def run(self) -> TrainSummary: ...
    def step(self) -> StepReport | None: ...
    def __iter__(self) -> Iterator[StepReport]: ...
    def evaluate(self) -> float | None: ...
    def save(self) -> str: ...
    def finish(self) -> TrainSummary: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Trainer: ...
    def __exit__(self, *raised: object) -> None: ...

class Generator:
    model: Model
    @property
    def positions(self) -> int: ...
    def __init__(self, model: _Path | Model, **options: Unpack[_GeneratorOptions]) -> None: ...
    def generate(self, prompt: str | _Ids, *,
                 on_text: Callable[[str], bool | None] | None = ...,
                 **sampling: Unpack[_SamplingOptions]) -> GenerateSummary: ...
    def answer(self, messages: Sequence[_Message], *,
               on_text: Callable[[str], bool | None] | None = ...,
               **sampling: Unpack[_SamplingOptions]) -> GenerateSummary: ...
    def close(self) -> None: ...
    def __enter__(self) -> Generator: ...
    def __exit__(self, *raised: object) -> None: ...
