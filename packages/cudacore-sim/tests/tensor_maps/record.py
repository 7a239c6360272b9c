# SPDX-License-Identifier: Apache-2.0
"""Records the results of the copies on a GPU: ``python -m tensor_maps.record``, in the folder ``tests``.

The program needs a machine with a GPU of compute capability 9.0. It records the cases in ``recordings/copies.npz``
again, and in addition the cases in a given JSON file.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
from corpus.machine import Machine

from tensor_maps.copies import Bytes, Case, Copier

RECORDING = Path(__file__).parent / "recordings/copies.npz"


def read() -> list[tuple[Case, dict[str, Any], Bytes]]:
    """Return the recorded cases with their results."""
    with np.load(RECORDING, allow_pickle=False) as archive:
        facts, data, ends = json.loads(str(archive["facts"])), archive["data"], archive["ends"]
    parts = np.split(data, ends[:-1])
    return [(case, found, part) for (case, found), part in zip(facts, parts, strict=True)]


def write(recorded: list[tuple[Case, dict[str, Any], Bytes]]) -> None:
    """Write cases with their recorded results."""
    facts = json.dumps([(case, found) for case, found, _ in recorded])
    ends = np.cumsum([len(part) for _, _, part in recorded])
    np.savez_compressed(RECORDING, facts=np.array(facts), data=np.concatenate([one[2] for one in recorded]), ends=ends)


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(
        prog="python -m tensor_maps.record", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("more", nargs="?", type=Path, help="a JSON file with a list of further cases")
    more = parser.parse_args().more
    cases = [case for case, _, _ in read()] + (json.loads(more.read_text()) if more else [])
    with Machine(ctypes.CDLL("libcuda.so.1")) as machine, contextlib.closing(Copier(machine)) as copier:
        write([(case, *copier.run(case)) for case in cases])


if __name__ == "__main__":
    main()
