"""Why a silo says no: a fixed code leaves the house, the details stay in the silo's own log."""

from ..errors import DataError, PerfedError, RunError, WireError

CODES = {
    "client": "the message was for another silo",
    "version": "the silo runs another version of perfed",
    "method": "the method is not allowed there",
    "code": "code of somebody's own is not run there",
    "data": "the data are not allowed there, or cannot be read",
    "sums": "sums over the columns of its table may not leave there",
    "passes": "a round has more passes over the data than are allowed there",
    "steps": "a round has more steps of training than are allowed there",
    "parameters": "the model is larger than is allowed there",
    "rounds": "the experiment has more rounds than are allowed there",
    "daily": "the silo has trained as often today as it may",
    "noise": "uploads without noise are not allowed there",
    "epsilon": "the silo has given away as much as its privacy budget allows",
    "seeded": "private parts from the run's public seed are not allowed there",
    "settings": "the experiment's settings cannot be right there",
    "state": "the private state that the message builds on is missing or damaged there",
    "message": "the message could not be read",
    "log": "the silo's audit log cannot be written or was changed",
    "failed": "something failed at the silo",
}


class Refused(PerfedError):
    """A silo's no: ``code`` is what the server learns, the text is the silo's own."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def code_of(error: Exception) -> str:
    """Return what the server may know of an error."""
    if isinstance(error, Refused):
        return error.code
    kinds = ((WireError, "message"), (RunError, "state"), (DataError, "data"), (PerfedError, "settings"))
    return next((code for kind, code in kinds if isinstance(error, kind)), "failed")
