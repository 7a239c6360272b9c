# SPDX-License-Identifier: Apache-2.0
"""Exit statuses, and the exception for invalid command lines."""

from __future__ import annotations

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


class UsageError(Exception):
    """The arguments are invalid.

    Parameters
    ----------
    message : str
        The problem.
    usage : str, optional
        The usage of the command, which is shown before the message.
    """

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
