# SPDX-License-Identifier: Apache-2.0
"""Run sequences, each in its own process, and write a line of JSON for each: its description, and its listing.

    python run.py LIBRARY < NAMES
    python run.py > NAMES

The first form runs the sequences that standard input names, one per line. The second form writes the names of all
sequences. This process never loads the driver, so that the forked processes load it themselves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

import cases  # noqa: F401  importing them registers the sequences
from recorder import SEQUENCES, PreparationError, Recorder

TIME_LIMIT = 120  # seconds; a sequence takes milliseconds, but the machine can be busy with other tests


def run(library: str, name: str) -> list[str]:
    """Run a sequence in a forked process, and return its listing. If it did not complete, the last line says why."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        _run_here(library, name, sender)
    os.close(sender)
    with os.fdopen(receiver, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        lines.append(f"crashed: {signal.Signals(os.WTERMSIG(status)).name}")
    return lines


def _run_here(library: str, name: str, sender: int) -> None:
    """Run a sequence in this process. End the process without the driver's clean-up, which can hang after a fault."""
    signal.alarm(TIME_LIMIT)
    os.dup2(2, 1)  # the output of kernels is not part of the listing

    def write(line: str) -> None:
        os.write(sender, f"{line}\n".encode())

    try:
        SEQUENCES[name](Recorder(library, write))
    except PreparationError as error:
        write(f"cannot be prepared: {error}")
    except BaseException:
        write("broken: " + traceback.format_exc().strip().replace("\n", " | "))
    finally:
        os._exit(0)


def main() -> None:
    """Run the sequences whose names are on standard input, or write all names."""
    if len(sys.argv) == 1:
        print(*SEQUENCES, sep="\n")
        return
    for line in sys.stdin:
        name = line.strip()
        about = (SEQUENCES[name].__doc__ or "").strip()
        print(json.dumps({"about": about, "listing": run(sys.argv[1], name)}), flush=True)


if __name__ == "__main__":
    main()
