# SPDX-License-Identifier: Apache-2.0
"""Records the results of the kernels on a GPU: ``python -m corpus.record``, in the folder ``tests``.

The program needs a machine with a GPU of compute capability 9.0, `cuda.bindings`, NVRTC, and CUDA's headers. It writes
``corpus/recordings/*.npz``, which are committed. To record only some themes, give their names. A file with new or
changed kernels must be recorded again; other files need not. ``--driver=sim`` records results of the simulated driver
instead, to try out kernels: do not commit these recordings.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from pathlib import Path

import numpy as np

from corpus.catalogue import Theme, themes
from corpus.machine import Machine
from corpus.values import Array


def write(path: Path, machine: Machine, theme: Theme) -> None:
    """Run the kernels of a file. Write their outputs, checksums of their inputs, and the machine's description."""
    arrays: dict[str, Array] = {}
    with machine.load(theme) as program:
        for kernel in theme.kernels:
            for place, output in enumerate(program.run(kernel)):
                arrays[f"{kernel.name}/{place}"] = output
    facts = machine.description | {"inputs": {kernel.name: kernel.fingerprint() for kernel in theme.kernels}}
    np.savez_compressed(path, facts=np.array(json.dumps(facts)), allow_pickle=False, **arrays)


class Recording:
    """The recording of one file of kernels."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        facts = json.loads(str(arrays.pop("facts")))
        self.inputs: dict[str, int] = facts.pop("inputs")
        self.machine: dict[str, str] = facts
        self._arrays = arrays

    def outputs(self, kernel: str) -> list[Array]:
        """Return the recorded outputs of a kernel, in the order of the kernel's parameters."""
        count = sum(name.partition("/")[0] == kernel for name in self._arrays)
        return [self._arrays[f"{kernel}/{place}"] for place in range(count)]


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(prog="python -m corpus.record", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--driver", choices=("gpu", "sim"), default="gpu")
    parser.add_argument("--into", type=Path, help="the folder of the recordings, if it is another")
    parser.add_argument("themes", nargs="*", help="all if none is named")
    arguments = parser.parse_args()
    if arguments.driver == "sim":
        import cudacore_sim

        library = cudacore_sim.load()
    else:
        library = ctypes.CDLL("libcuda.so.1")
    with Machine(library) as machine:
        for theme in themes():
            if not arguments.themes or theme.name in arguments.themes:
                path = arguments.into / theme.recording.name if arguments.into else theme.recording
                write(path, machine, theme)
                print(f"{theme.name}: {len(theme.kernels)} kernels, {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
