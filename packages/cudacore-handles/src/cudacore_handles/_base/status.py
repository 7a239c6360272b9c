# SPDX-License-Identifier: Apache-2.0
"""Results of failed calls."""

from __future__ import annotations


class Status(int):
    """The result of a failed call of the library, with the record of its failure.

    The C code of both extension modules makes it in the call that failed (``src/native/base/failure.h``). It cannot be
    made later: a garbage collection runs finalizers, whose calls can replace the thread's record.

    Attributes
    ----------
    domain, code, operation, message
        The fields of ``cch_error``.
    node : int
        The ``CUgraphNode`` that failed, 0 where none did.
    why : str
        What the simulated driver says of the failure; empty on a GPU.
    """

    domain: int
    code: int
    operation: str
    message: str
    node: int
    why: str

    def __new__(cls, status: int, domain: int, code: int, operation: str, message: str, node: int, why: str) -> Status:
        """Make one of the fields of a ``cch_error_record``."""
        self = super().__new__(cls, status)
        self.domain, self.code, self.operation, self.message = domain, code, operation, message
        self.node, self.why = node, why
        return self
