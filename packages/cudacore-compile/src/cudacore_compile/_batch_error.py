# SPDX-License-Identifier: Apache-2.0
"""The exception of batches, with the failures and the successful results."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cudacore_handles._sdk import public

if TYPE_CHECKING:
    from typing_extensions import Self

    from cudacore_handles import ObjectCode

if sys.version_info >= (3, 11):
    _Base = ExceptionGroup  # noqa: F821
else:

    class _Base(Exception):
        """The features of Python 3.11's ``ExceptionGroup`` that batches need."""

        message: str
        exceptions: tuple[Exception, ...]

        def __new__(cls, message: str, exceptions: Sequence[Exception]) -> Self:
            self = super().__new__(cls, message, exceptions)
            self.message = message
            self.exceptions = tuple(exceptions)
            return self

        def __str__(self) -> str:
            plural = "" if len(self.exceptions) == 1 else "s"
            lines = [f"{self.message} ({len(self.exceptions)} sub-exception{plural})"]
            lines += [f"{type(error).__name__}: {error}" for error in self.exceptions]
            return "\n".join(lines)


@public
class BatchError(_Base):
    """Some jobs of a batch failed. The exception also has the results of the other jobs.

    On Python 3.11 and later, it is an ``ExceptionGroup``: ``except*`` can split it, and tracebacks show all exceptions.
    On 3.10 it also has `exceptions` and `message`, and its text contains all exceptions.

    Attributes
    ----------
    exceptions : tuple of Exception
        The exceptions, in the order of the jobs.
    errors : dict of int to Exception
        The same exceptions, by the jobs' positions in the batch. Equal jobs share an exception.
    results : list of ObjectCode or None
        The code of all jobs, None for those that failed.
    """

    errors: Mapping[int, Exception]
    results: Sequence[ObjectCode | None]

    def __new__(cls, message: str, exceptions: Sequence[Exception]) -> Self:
        return super().__new__(cls, message, exceptions)

    def __init__(self, message: str, exceptions: Sequence[Exception]) -> None:
        super().__init__(message, exceptions)
        self.errors = {}
        self.results = []

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchError._restore, (self.message, self.exceptions, dict(self.errors), list(self.results))

    @classmethod
    def _restore(cls, *arguments: Any) -> BatchError:
        return make_batch_error(*arguments)

    def derive(self, exceptions: Sequence[Exception]) -> BatchError:
        """Make a group of some of the exceptions, for ``except*``."""
        chosen = {id(error) for error in exceptions}
        errors = {job: error for job, error in self.errors.items() if id(error) in chosen}
        return make_batch_error(self.message, exceptions, errors, self.results)


def make_batch_error(
    message: str, exceptions: Sequence[Exception], errors: Mapping[int, Exception], results: Sequence[ObjectCode | None]
) -> BatchError:
    """Make the exception with its attributes."""
    error = BatchError(message, exceptions)
    error.errors, error.results = dict(sorted(errors.items())), results
    return error
