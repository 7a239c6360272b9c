# SPDX-License-Identifier: Apache-2.0
"""A second process, which exports memory for the rows that import memory."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from multiprocessing.connection import Connection
from typing import Any


def export(module: str, channel: Connection) -> None:
    """Share a buffer until the other process closes its end of the pipe."""
    core = importlib.import_module(module)
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    pool = core.DeviceMemoryResource(device, core.DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = pool.allocate(4096, stream=stream)
    stream.sync()
    channel.send((pool.allocation_handle, buffer.ipc_descriptor))
    try:
        channel.recv()
    except EOFError:
        pass


def names_of(core: Any, names: dict[str, Any]) -> dict[str, Any]:
    """Start the second process, and return the names that rows need to import its memory."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    # The worker's argument, because cuda.core calls itself by the name of a module that has no more than its version.
    process = spawn.Process(target=export, args=(sys.argv[1], theirs), daemon=True)
    process.start()
    theirs.close()
    handle, descriptor = ours.recv()
    return {
        "from_ipc_descriptor": core.Buffer.from_ipc_descriptor,
        "shared_pool": core.DeviceMemoryResource.from_allocation_handle(0, handle),
        "ipc_descriptor": descriptor,
        "channel": ours,  # the other process ends when this end of the pipe is closed
    }
