# SPDX-License-Identifier: Apache-2.0
"""Share device memory and events with another process."""

import multiprocessing

import numpy as np

import cudacore as core


def double(buffer: core.Buffer, ready: core.Event, done: core.Event) -> None:
    """Run in the other process."""
    stream = core.Device(buffer.device_id).create_stream()
    stream.wait(ready)
    numbers = np.empty(buffer.size // 4, np.int32)
    buffer.copy_to(numbers, stream=stream)
    buffer.copy_from(2 * numbers, stream=stream)
    stream.record(done)
    buffer.close(stream)
    stream.sync()


def main() -> None:
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    shared = core.DeviceMemoryResourceOptions(ipc_enabled=True)
    pool = core.DeviceMemoryResource(device, shared)
    ready = device.create_event(core.EventOptions(ipc_enabled=True))
    done = device.create_event(core.EventOptions(ipc_enabled=True))

    numbers = np.arange(10, dtype=np.int32)
    buffer = pool.allocate(numbers.nbytes, stream=stream)
    buffer.copy_from(numbers, stream=stream)
    stream.record(ready)
    # The process is not forked, because CUDA cannot be used in a forked child.
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=double, args=(buffer, ready, done))
    process.start()
    process.join()

    stream.wait(done)
    buffer.copy_to(numbers, stream=stream)
    print("after the other process:", numbers)


if __name__ == "__main__":
    main()
