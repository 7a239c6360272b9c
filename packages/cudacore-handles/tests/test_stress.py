# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

STRESS = """
import stress
assert stress.main(["--seconds", "{seconds}", "--seed", "{seed}"]) == 0
"""


@pytest.mark.parametrize("reuse", ["0", "1"])
def test_what_threads_share(run_on_driver: Callable[..., str], reuse: str) -> None:
    """A thread that uses an object while another thread closes it would crash, or use another object.

    The test runs with and without immediate reuse of addresses by the simulated driver.
    """
    run_on_driver(STRESS.format(seconds=2, seed=1), CUDACORE_SIM_REUSE=reuse)
