# SPDX-License-Identifier: Apache-2.0
"""Results of failed calls."""

from __future__ import annotations


class Status(int):
    """The result of a failed call of the library, with the record of the failure.

    The extension modules make it in the call that failed (``src/native/base/failure.h``). It cannot be made later,
    because a garbage collection can run finalizers, whose calls replace the thread's record.

    Attributes
    ----------
    domain, code, operation, message
        The fields of ``cch_error``.
    node : int
        The ``CUgraphNode`` that failed; 0 if none did.
    why : str
        The driver's explanation; most drivers have none.
    """

    domain: int
    code: int
    operation: str
    message: str
    node: int
    why: str

    def __new__(cls, status: int, domain: int, code: int, operation: str, message: str, node: int, why: str) -> Status:
        """Make a status from the fields of a ``cch_error``."""
        self = super().__new__(cls, status)
        self.domain, self.code, self.operation, self.message = domain, code, operation, message
        self.node, self.why = node, why
        return self
