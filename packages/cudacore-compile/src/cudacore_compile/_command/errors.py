# SPDX-License-Identifier: Apache-2.0
"""Exit statuses, and the exception for command lines that make no sense."""

from __future__ import annotations

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


class UsageError(Exception):
    """Say what is wrong with the arguments.

    Parameters
    ----------
    message : str
        What is wrong.
    usage : str, optional
        The usage of the command, which is shown before it.
    """

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
