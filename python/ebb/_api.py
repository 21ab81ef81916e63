"""Plans, training, evaluation and generation: the objects of ebb/*.h.

Keyword arguments are the fields of the C++ structs, which are named as the command line's flags
(`ebb train --help` explains them): device_memory="16GiB", states="stream", save_every="10min".
"""

import dataclasses
import pathlib
import weakref

from ebb._engine import Listener, Stop, call, create, engine, to_json


def _path(given):
    """A path as text; also of a list."""
    if isinstance(given, (list, tuple)):
        return [_path(one) for one in given]
    return str(given) if isinstance(given, pathlib.PurePath) else given


def _with_floats(kind, values):
    """An object of what the library gave: numbers that are not finite come as texts."""
    fields = {field.name: field.type for field in dataclasses.fields(kind)}
    return kind(**{name: float(value) if fields[name] is float else value
                   for name, value in values.items()})


@dataclasses.dataclass(frozen=True)
class TierUse:
    """What a tier ("device", "host", "disk") would hold, in bytes."""

    tier: str
    peak: int  # predicted
    limit: int


@dataclasses.dataclass(frozen=True)
class PlanAlternative:
    """Another way to do the same training."""

    flags: str  # what to change: "--device-memory 20GiB"
    note: str
    speed: float  # tokens a second, as a share of the plan's
    device: int  # bytes that it holds more; less if negative
    host: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a training run would take. `print(plan)` shows all of it."""

    step_seconds: float  # predicted
    tokens_per_second: float
    tiers: list
    flags: list  # what was chosen: "--states stream", ...
    alternatives: list
    explanation: str = dataclasses.field(repr=False)

    def __str__(self):
        return self.explanation

    def __getitem__(self, tier):
        """The use of a tier by its name.

        >>> import ebb
        >>> used = ebb.plan("preset:tiny", sequence=64, micro_batch=1)["device"]
        >>> 0 < used.peak <= used.limit
        True
        """
        return next(use for use in self.tiers if use.tier == tier)


def _plan_of(values):
    tiers = [TierUse(**use) for use in values.pop("tiers")]
    alternatives = [_with_floats(PlanAlternative, other) for other in values.pop("alternatives")]
    return _with_floats(Plan, {**values, "tiers": tiers, "alternatives": alternatives})


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step of training."""

    step: int  # from 1
    steps: int
    loss: float  # mean over the step's tokens
    norm: float  # of the gradient, before clipping
    learning_rate: float
    tokens_per_second: float
    utilization: float | None
    seconds_left: float
    device_bytes: int


@dataclasses.dataclass(frozen=True)
class TrainSummary:
    """What a training run came to."""

    steps: int  # reached
    stopped: bool  # before its end
    checkpoint: str  # the folder of the last one
    measured: dict | None = dataclasses.field(repr=False)  # all of it, as --summary writes it


@dataclasses.dataclass(frozen=True)
class EvaluateReport:
    """An evaluation after a batch."""

    batches: int
    loss_tokens: int
    loss: float
    tokens_per_second: float
    share: float  # of the work that is done
    seconds_left: float


@dataclasses.dataclass(frozen=True)
class EvaluateSummary:
    """What an evaluation found."""

    loss: float  # mean over loss_tokens, in nats
    perplexity: float
    bits_per_byte: float | None
    loss_tokens: int
    tokens: int
    batches: int
    whole: bool  # all of the data was read
    stopped: bool
    seconds: float
    tokens_per_second: float
    device_peak: int
    device_limit: int
    host_peak: int
    host_limit: int


@dataclasses.dataclass(frozen=True)
class GenerateSummary:
    """A text that was generated. `print(summary)` shows the text."""

    text: str  # without the prompt
    ids: list
    log_probabilities: list = dataclasses.field(repr=False)
    ended_by: str  # "length", "stop", "stop_text" or "caller"
    prompt_tokens: int
    reused_tokens: int
    tokens: int
    settings: str = dataclasses.field(repr=False)
    warning: str
    note: str
    prompt_seconds: float
    tokens_per_second: float
    device_limit: int
    device_peak: int
    plan: str = dataclasses.field(repr=False)

    def __str__(self):
        return self.text


def plan(model, *, machine="", **options):
    """What training would hold where, and how fast it would be; nothing is taken or read for it.

    `options` are those of Trainer. `machine` is one that need not be here: the name of one that Ebb
    knows, or the file of a profile. Raises OutOfBudget for what cannot fit.

    >>> import ebb
    >>> plan = ebb.plan("preset:tiny", sequence=64, micro_batch=2, device_memory="64MiB")
    >>> plan["device"].peak <= 64 << 20
    True
    >>> try:
    ...     ebb.plan("preset:tiny", sequence=64, micro_batch=2, device_memory="1MiB")
    ... except ebb.OutOfBudget as error:
    ...     print(error.shortfalls[0]["tier"], error.shortfalls[0]["missing"] > 0)
    device True
    """
    return _plan_of(call("plan", to_json({"model": _path(model), **_paths(options)}),
                         machine.encode()))


def plan_generation(model, *, prompt_tokens=512, machine="", **options):
    """The plan of a Generator with these options, for people.

    >>> import ebb
    >>> "device" in ebb.plan_generation("preset:tiny", prompt_tokens=64)
    True
    """
    return call("explain_generation", to_json({"model": _path(model), **_paths(options)}),
                prompt_tokens, machine.encode())


def inspect(path):
    """What is in a file or a folder, and what Ebb can do with it: a dictionary.

    >>> import ebb
    >>> type(ebb.inspect("preset:tiny"))
    <class 'dict'>
    """
    return call("inspect", str(path).encode())


def evaluate(model, data, *, on_batch=None, on_note=None, **options):
    """The loss of a model on data: every item once.

    on_batch(EvaluateReport) is called after each batch, and ends it by returning False;
    on_note(text) with lines for people.
    """
    listener = Listener(_told(on_note, on_batch and ("batch", EvaluateReport, on_batch)))
    stop = Stop()
    with stop.at_interrupt(), listener.raising():
        return _with_floats(EvaluateSummary, call(
            "evaluate", to_json({"model": _path(model), "data": _path(data), **_paths(options)}),
            listener.function, None, stop.handle))


def _paths(options):
    return {name: _path(value) for name, value in options.items()}


def _told(on_note, report):
    """What a Listener tells to whom; `report` is (kind, class, function) or None."""
    told = {}
    if on_note is not None:
        told["note"] = lambda text: on_note(text) and None
    if report:
        kind, made, function = report
        told[kind] = lambda values: function(_with_floats(made, values))
    return told


class _Handle:
    """Owns an object of the library's."""

    _kind = ""

    def _take(self, handle):
        self._address = handle
        self.close = weakref.finalize(
            self, getattr(engine(), f"ebb_api_{self._kind}_destroy"), handle)

    @property
    def _handle(self):
        if not self.close.alive:
            raise ValueError(f"this {self._kind} is closed")
        return self._address

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


class Model(_Handle):
    """A model that is open: its configuration and tokenizer. Generators made of it share them.

    `model` is a folder of Hugging Face's, a GGUF file, a run's folder or preset:NAME.

    >>> import ebb
    >>> model = ebb.Model("preset:tiny")
    >>> model.decode(model.encode("tide"))
    'tide'
    """

    _kind = "model"

    def __init__(self, model, *, tokenizer="", verify=True, host_memory=None):
        self._take(create("model_open", str(_path(model)).encode(), to_json({
            "tokenizer": str(tokenizer), "verify": verify, "host_memory": host_memory})))
        for name, value in call("model_describe", self._handle).items():
            setattr(self, name, value)

    def _convert(self, what, value):
        return call("model_convert", self._handle, to_json({what: value}))

    def encode(self, text):
        """A prompt's ids, with what the tokenizer puts before every text."""
        return self._convert("encode", text)

    def decode(self, ids):
        """The text of ids: a list, or an array of NumPy's or PyTorch's."""
        return self._convert("decode", ids)

    def render_chat(self, messages):
        """The text of a conversation, [{"role": ..., "content": ...}], up to the answer."""
        return self._convert("render_chat", messages)

    def encode_chat(self, messages):
        """The ids of that text."""
        return self._convert("encode_chat", messages)


class Trainer(_Handle):
    """A training run, all at once or a step at a time.

    >>> import ebb, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = pathlib.Path(folder, "text.txt")
    ...     _ = text.write_text("The tide comes in and the tide goes out. " * 200)
    ...     with ebb.Trainer("preset:tiny", data=text, out=f"{folder}/run", steps=3, sequence=64,
    ...                      micro_batch=2, threads=1) as trainer:
    ...         losses = [report.loss for report in trainer]
    ...         summary = trainer.finish()
    >>> len(losses), summary.steps, summary.stopped
    (3, 3, False)

    on_step(StepReport) is called after each step, and ends the run, after a save, by returning
    False; on_note(text) with lines for people. Ctrl-C ends it after the step under way, saved.
    The run's folder belongs to the trainer until it is closed: at the end of a with statement.
    """

    _kind = "trainer"

    def __init__(self, model, *, data, out, on_step=None, on_note=None, **options):
        self._stop = Stop()
        self._listener = Listener(_told(on_note, on_step and ("step", StepReport, on_step)))
        with self._stop.at_interrupt(), self._listener.raising():
            self._take(create("trainer_create", to_json({
                "model": _path(model), "data": _path(data), "out": str(out), **_paths(options)}),
                self._listener.function, None, self._stop.handle))

    def _call(self, verb):
        with self._stop.at_interrupt(), self._listener.raising():
            return call(f"trainer_{verb}", self._handle)

    def stop(self):
        """Ends the run after the step under way; from any thread."""
        self._stop.request()

    def plan(self):
        """The plan of this run, without alternatives."""
        return _plan_of(self._call("plan"))

    def run(self):
        """All steps that are left, and finish()."""
        return TrainSummary(**self._call("run"))

    def step(self):
        """One step's StepReport, or None when all are done or the run was stopped."""
        report = self._call("step")
        return report and _with_floats(StepReport, report)

    def __iter__(self):
        return iter(self.step, None)

    def evaluate(self):
        """The loss on what the options say to validate on, or None."""
        return self._call("evaluate")

    def save(self):
        """Makes a checkpoint of now; its folder."""
        return self._call("save")

    def finish(self):
        """Saves, validates and sums up: once, at the end."""
        return TrainSummary(**self._call("finish"))


class Generator(_Handle):
    """A model with its weights in memory, which writes any number of texts.

    `model` is a Model, or what one is opened with. Options are those of `ebb generate` that say
    where things are; those of how tokens are chosen go to generate().

    >>> import ebb
    >>> generator = ebb.Generator("preset:tiny", positions=64, threads=1)
    >>> text = generator.generate("The tide", max_tokens=4, temperature=0)
    >>> text.tokens, text.ended_by
    (4, 'length')
    >>> same = generator.generate(generator.model.encode("The tide"), max_tokens=4, temperature=0)
    >>> same.ids == text.ids
    True
    """

    _kind = "generator"

    def __init__(self, model, **options):
        self.model = model if isinstance(model, Model) else Model(model)
        stop = Stop()
        with stop.at_interrupt():
            self._take(create("generator_create", self.model._handle, to_json(_paths(options)),
                              stop.handle))

    @property
    def positions(self):
        """Tokens that a sequence may have, prompt included."""
        return engine().ebb_api_generator_positions(self._handle)

    def generate(self, prompt, *, on_text=None, **sampling):
        """Continues a text, or ids: a list, or an array of NumPy's or PyTorch's.

        on_text(piece) takes the text as it comes, and ends it by returning False.
        """
        kind = "prompt" if isinstance(prompt, str) else "ids"
        return self._generate({kind: prompt}, on_text, sampling)

    def answer(self, messages, *, on_text=None, **sampling):
        """Answers a conversation: [{"role": "user", "content": ...}, ...]."""
        return self._generate({"messages": messages}, on_text, sampling)

    def _generate(self, request, on_text, sampling):
        listener, stop = Listener({"text": on_text} if on_text else {}), Stop()
        with stop.at_interrupt(), listener.raising():
            return _with_floats(GenerateSummary, call(
                "generator_generate", self._handle, to_json({**request, **sampling}),
                listener.function, None, stop.handle))
