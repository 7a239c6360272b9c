# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

# CUDACORE_FUZZ_SECONDS=600 tries more programs, and CUDACORE_FUZZ_SEED others.
SECONDS = float(os.environ.get("CUDACORE_FUZZ_SECONDS", "3"))
SEED = int(os.environ.get("CUDACORE_FUZZ_SEED", "1"))

FUZZ = """
import fuzz_memory
fuzz_memory.main(["--seconds", "{seconds}", "--seed", "{seed}"])
"""


@pytest.mark.parametrize("check", ["order", ""], ids=["checked", "unchecked"])
def test_random_programs(run_python: Callable[..., subprocess.CompletedProcess[str]], on_sim: bool, check: str) -> None:
    """Memory would be freed or reused before work with it is done, or work would be lost, where features are combined.

    The simulated driver reports work without order if it checks the order. Otherwise, it reuses addresses at once.
    """
    env = {"CUDACORE_SIM_CHECK": check} if check else {"CUDACORE_SIM_REUSE": "1"}
    if on_sim:
        env |= {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DEVICES": "2"}
    elif check:
        pytest.skip("only the simulated driver checks the order")
    done = run_python(FUZZ.format(seconds=SECONDS, seed=SEED), timeout=SECONDS + 240, **env)
    if done.returncode or done.stderr:
        program = done.stdout[done.stdout.rfind("program: ") :]  # a crash ends it after the step that it was in
        pytest.fail(f"exit status {done.returncode}\n{program}\n{done.stderr[-6000:]}", pytrace=False)
