"""One tree of exceptions, named as those of ebb/error.h."""


class Error(RuntimeError):
    """What the library refused or could not do, in its words. All others are one of it."""


class OutOfBudget(Error):
    """The work does not fit the limits of a tier, and nothing of it was started.

    `shortfalls` are dictionaries (tier, needed, limit, missing: bytes), `remedies` texts of what
    would help, the likeliest first.
    """

    shortfalls: list = []
    remedies: list = []


class DeviceError(Error):
    """A device, its driver or a library that computes on it failed."""


class IoError(Error):
    """The operating system refused or cut short an operation on a file: `path`, which may be empty,
    and `offset`, which may be None."""

    path: str = ""
    offset = None


class FormatError(Error):
    """A file's content is not what its format promises."""


class ConfigError(Error, ValueError):
    """An option is wrong, or options contradict each other. `flag` is the command line's name of it
    ("--states"), or empty."""

    flag: str = ""


class NumericsError(Error):
    """A gradient or a weight is not finite."""


class Cancelled(Error):
    """What was asked to stop had nothing yet to save or to return."""


def error_of(described):
    """The exception of what the library tells of one."""
    kinds = {kind.__name__: kind for kind in Error.__subclasses__()}
    error = kinds.get(described.pop("kind"), Error)(described.pop("text"))
    for name, value in described.items():
        setattr(error, name, value)
    return error
