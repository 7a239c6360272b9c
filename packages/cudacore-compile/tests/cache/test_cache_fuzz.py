# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fuzz_cache
import pytest


@pytest.mark.parametrize("seed", [77000, 177000])
def test_random_programs(seed: int) -> None:
    """A cache would return old code for programs that hide what they include; ``nox -s fuzz_cache`` tries more."""
    counts = fuzz_cache.run(1, seed)
    assert counts["compilations"] > 0
