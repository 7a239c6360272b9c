# SPDX-License-Identifier: Apache-2.0
"""A simulated CUDA driver: a ``libcuda.so.1`` for machines without a GPU, and its controls.

``python -m cudacore_sim COMMAND...`` runs a program with the simulator in place of the driver. Or call `load` before
other code in the process loads the driver. The controls act on the simulator that this process has loaded.
"""

from cudacore_sim._arrays import DeviceArray
from cudacore_sim._control import (
    Call,
    Launch,
    calls,
    depth,
    describe_live,
    fail,
    failing,
    forbidding,
    held,
    hide,
    hold,
    ignored_settings,
    last_launch,
    let_go,
    live,
    log,
    logging,
    newest,
    position,
    remember_origins,
    reset,
    reset_device,
)
from cudacore_sim._graphics import GLBuffer
from cudacore_sim._library import SimulatorError, get_include, get_library, is_loaded, load
from cudacore_sim._reports import (
    clear_errors,
    count_explanations,
    count_reports,
    explanations,
    reports,
    stop_kernels,
    watch_signals,
    why,
)

__all__ = [
    "Call",
    "DeviceArray",
    "GLBuffer",
    "Launch",
    "SimulatorError",
    "calls",
    "clear_errors",
    "count_explanations",
    "count_reports",
    "depth",
    "describe_live",
    "explanations",
    "fail",
    "failing",
    "forbidding",
    "get_include",
    "get_library",
    "held",
    "hide",
    "hold",
    "ignored_settings",
    "is_loaded",
    "last_launch",
    "let_go",
    "live",
    "load",
    "log",
    "logging",
    "newest",
    "position",
    "remember_origins",
    "reports",
    "reset",
    "reset_device",
    "stop_kernels",
    "watch_signals",
    "why",
]
__version__ = "0.1.0"


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
