# SPDX-License-Identifier: Apache-2.0
"""Reports of misuse and of failed kernels, explanations of refused calls, and the end of kernels that fail or hang."""

from __future__ import annotations

from cudacore_sim._control import _controls as controls
from cudacore_sim._control import _text as text_of


def _kept(kind: str, after: int) -> list[str]:
    """Return the texts with numbers above `after` that are kept, oldest first. Older texts are dropped first."""
    library = controls()
    read = getattr(library, f"cudasim_{kind}")
    kept = []
    for number in range(getattr(library, f"cudasim_{kind}s")(), after, -1):
        text = text_of(lambda out, size, number=number: read(number, out, size))  # type: ignore[misc]
        if not text:
            break
        kept.append(text)
    return kept[::-1]


def count_reports() -> int:
    """Return how many reports there were since the driver was loaded. `reset` does not change this number."""
    return int(controls().cudasim_reports())


def reports(*, after: int = 0) -> list[str]:
    """Return the reports: misuse of the driver, and faults of kernels.

    Parameters
    ----------
    after : int, optional
        Return only the reports that were made after `count_reports` had returned this number.

    Returns
    -------
    list of str
        Oldest first. The texts of the newest 1000 reports are kept, until `reset`.
    """
    return _kept("report", after)


def count_explanations() -> int:
    """Return how many explanations there were since the driver was loaded. `reset` does not change this number."""
    return int(controls().cudasim_explanations())


def explanations(*, after: int = 0) -> list[str]:
    """Return the explanations of refused calls that were not misuse. Each is also printed on stderr once.

    Examples are code that cannot be loaded, a kernel that cannot be launched, and a feature that is not simulated. A
    program may do such things on purpose, so they are not `reports`.

    Parameters
    ----------
    after : int, optional
        Return only the explanations that were given after `count_explanations` had returned this number.

    Returns
    -------
    list of str
        Oldest first, without repetitions. The newest 1000 are kept, until `reset`.
    """
    return _kept("explanation", after)


def why() -> str:
    """Return the reason why the last failed call of this thread failed.

    Exceptions of ``cudacore`` have the reason as a note.

    Returns
    -------
    str
        The explanation, the misuse, or the kernel's fault that caused the error. Empty if only the code is known.
    """
    return text_of(lambda out, size: controls().cudasim_why(out, size))


def clear_errors() -> int:
    """Wait until no work runs, then clear the errors that kernels have left in contexts and devices.

    On a GPU, a process cannot continue after such an error. Here memory and objects are unchanged, and all handles stay
    valid. Objects that could not be destroyed because of the error are still alive.

    Returns
    -------
    int
        The number of devices that had such an error.
    """
    return int(controls().cudasim_clear_errors())


def stop_kernels(why: str) -> None:
    """End all kernels that run now, and report each of them. Work that is queued does not run.

    The contexts of this work then have the error ``CUDA_ERROR_LAUNCH_TIMEOUT``.

    Parameters
    ----------
    why : str
        The reason, which is a part of the reports.
    """
    controls().cudasim_stop_kernels(why.encode())


def watch_signals(file: int) -> None:
    """Let signals end kernels that the main thread waits for, so that Python can handle the signal.

    These signals are ``SIGINT``, ``SIGALRM`` and ``SIGTERM``. While the main thread waits in a call of the driver, no
    handler of Python can run. The pytest plugin calls this function.

    Parameters
    ----------
    file : int
        The end for reading of a pipe whose other end was given to ``signal.set_wakeup_fd``. It must not block. -1
        ends this.
    """
    controls().cudasim_watch_signals(file)
