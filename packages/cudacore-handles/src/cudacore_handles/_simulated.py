# SPDX-License-Identifier: Apache-2.0
"""``CUDACORE_DRIVER=sim``, in any case: tells the C library where the wheel cudacore-sim has its driver."""

from __future__ import annotations

import importlib.util
import os


def find_simulated_driver() -> None:
    """Set ``$CUDACORE_SIM_LIBRARY``, if it is needed and not set, and if the simulator is installed.

    Child processes inherit it. Where the simulator is not installed, the first call that needs a driver says so.
    """
    if os.environ.get("CUDACORE_DRIVER", "").lower() != "sim" or os.environ.get("CUDACORE_SIM_LIBRARY"):
        return
    if importlib.util.find_spec("cudacore_sim"):
        import cudacore_sim

        os.environ["CUDACORE_SIM_LIBRARY"] = cudacore_sim.get_library()
