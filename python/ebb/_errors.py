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
