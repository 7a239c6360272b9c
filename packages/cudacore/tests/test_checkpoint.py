# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of another process: its buffers, streams and graphs continue to work."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

import cudacore
from cudacore.checkpoint import Process
from cudacore.typing import ProcessStateType

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the driver makes checkpoints on Linux"),
    pytest.mark.needs_driver("12.8", "checkpoints"),
]

WORKER = """
import sys
import time

import cudacore as core

SOURCE = '''
extern "C" __global__ void add(int *p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    p[i] += 1;
}
'''
COUNT = 1 << 16
device = core.Device()
device.set_current()
kernel = core.Program(SOURCE, "c++").compile("ptx").get_kernel("add")
first, second = device.create_stream(), device.create_stream()
buffer = device.allocate(4 * COUNT, stream=first)
buffer.fill(0, stream=first)
builder = device.create_graph_builder().begin_building()
core.launch(builder, core.LaunchConfig(grid=COUNT // 256, block=256), kernel, buffer, COUNT)
graph = builder.end_building().complete()
graph.launch(first)
event = first.record()
first.sync()
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("busy"):
        first.callback(lambda: time.sleep(0.5))
        print("busy", flush=True)
        continue
    graph.launch(first)
    second.wait(first.record(event))
    values = bytearray(buffer.size)
    buffer.copy_to(values, stream=second)
    second.sync()
    print(len({values[i : i + 4].hex() for i in range(0, len(values), 4)}), values[0], flush=True)
"""


class Worker:
    """A process that increments the numbers in its buffer on request."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-X", "faulthandler", "-c", WORKER]
        self.child = subprocess.Popen(
            command, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.process = Process(self.child.pid)
        self.count = 1
        assert self.answer(60) == "ready"

    def _listen(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.answers.put(line.strip())

    def ask(self, what: str = "work") -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{what}\n")
        self.child.stdin.flush()
        self.count += what == "work"

    def answer(self, seconds: float = 30) -> str | None:
        with contextlib.suppress(queue.Empty):
            return self.answers.get(timeout=seconds)
        return None

    def works(self) -> bool:
        """Wait for the worker's answer; return whether all elements have the expected value."""
        return self.answer() == f"1 {self.count}"


@pytest.fixture(scope="module")
def worker(on_sim: bool) -> Iterator[Worker]:
    environment = dict(os.environ)
    if on_sim:
        environment["CUDACORE_DRIVER"] = "sim"
    worker = Worker(environment)
    yield worker
    worker.child.kill()
    worker.child.communicate()


@pytest.fixture
def process(worker: Worker) -> Iterator[Process]:
    """Give the worker's process in the state "running", and restore that state after the test."""
    process = worker.process
    assert process.state == "running"
    yield process
    if process.state == "checkpointed":
        process.restore()
    if process.state == "locked":
        process.unlock()


def test_a_process_goes_on_where_it_was(worker: Worker, process: Process) -> None:
    """Memory, a stream, an event or an instantiated graph of a restored process would be lost."""
    worker.ask()
    assert worker.works()
    for mapping in (None, {device: device for device in cudacore.Device.get_all_devices()}):
        process.lock(timeout_ms=20_000)
        assert process.state == ProcessStateType.LOCKED
        worker.ask()  # the locked worker cannot answer yet
        process.checkpoint()
        assert process.state == ProcessStateType.CHECKPOINTED
        assert worker.answer(0.2) is None
        process.restore(mapping)
        assert process.state == ProcessStateType.LOCKED
        process.unlock()
        assert process.state == ProcessStateType.RUNNING
        assert worker.works()
        worker.ask()
        assert worker.works()


def test_a_lock_alone(worker: Worker, process: Process) -> None:
    """A process that is locked, but not checkpointed, would continue to run, or could not be unlocked."""
    process.lock()
    worker.ask()
    assert worker.answer(0.2) is None
    process.unlock()
    assert worker.works()


@pytest.mark.parametrize(
    ("begin", "operation", "state"),
    [
        ([], "checkpoint", "running"),
        ([], "restore", "running"),
        ([], "unlock", "running"),
        (["lock"], "lock", "locked"),
        (["lock"], "restore", "locked"),
        (["lock", "checkpoint"], "lock", "checkpointed"),
        (["lock", "checkpoint"], "checkpoint", "checkpointed"),
    ],
)
def test_wrong_order(process: Process, begin: list[str], operation: str, state: str) -> None:
    """The error would not state the state of the process, or the next step."""
    for step in begin:
        getattr(process, step)()
    with pytest.raises(cudacore.CUDAError, match=f"The process is {state}.*in this order") as caught:
        getattr(process, operation)()
    assert caught.value.code_name == "CUDA_ERROR_ILLEGAL_STATE"
    assert process.state == state


def test_a_busy_process_runs_on(worker: Worker, process: Process) -> None:
    """A process whose work takes longer than the time limit would be locked nevertheless, or stay partly locked."""
    worker.ask("busy")
    assert worker.answer() == "busy"
    with pytest.raises(cudacore.CUDAError, match=f"process {process.pid} was not locked within 50 ms") as caught:
        process.lock(timeout_ms=50)
    assert caught.value.code_name == "CUDA_ERROR_NOT_READY"
    assert process.state == "running"
    worker.ask()
    assert worker.works()


def test_processes_without_cuda() -> None:
    """A process that does not use CUDA, or has ended, would be locked."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    operations: list[Callable[[Process], object]] = [
        lambda process: process.state,
        lambda process: process.restore_thread_id,
        Process.lock,
        Process.checkpoint,
        Process.restore,
        Process.unlock,
    ]
    try:
        for operation in operations:
            with pytest.raises(cudacore.CUDAError, match=r"^cuCheckpointProcess.*does not use CUDA"):
                operation(Process(child.pid))
    finally:
        child.communicate(b"\n")
    with pytest.raises(cudacore.CUDAError, match=rf"There is no process {child.pid}"):
        assert Process(child.pid).state


OLD, NEW = "GPU-00112233-4455-6677-8899-aabbccddeeff", uuid.UUID(int=7)


def own() -> Process:
    return Process(os.getpid())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Process("1"), TypeError, "pid must be an int, the id of a process, not str"),  # type: ignore[arg-type]
        (lambda: Process(1.0), TypeError, "pid must be an int, the id of a process, not float"),  # type: ignore[arg-type]
        (lambda: Process(True), TypeError, "pid must be an int, the id of a process, not bool"),
        (lambda: Process(None), TypeError, "pid must be an int, .* not NoneType"),  # type: ignore[arg-type]
        (lambda: Process(0), ValueError, "pid must be a positive int of 31 bits, the id of a process, not 0"),
        (lambda: Process(-1), ValueError, "pid must be a positive int of 31 bits, the id of a process, not -1"),
        (lambda: Process(2**31), ValueError, "pid must be a positive int of 31 bits, .* not 2147483648"),
        (lambda: own().lock("1"), TypeError, "timeout_ms must be an int, in milliseconds, not str"),  # type: ignore[arg-type]
        (lambda: own().lock(1.5), TypeError, "timeout_ms must be an int, .*, not float"),  # type: ignore[arg-type]
        (lambda: own().lock(-1), ValueError, r"timeout_ms must be from 0 \(no limit\) to 4294967295, not -1"),
        (lambda: own().lock(2**32), ValueError, "not 4294967296"),
        (lambda: own().restore([OLD]), TypeError, "gpu_mapping must be a mapping of old devices .*, not list"),  # type: ignore[arg-type]
        (lambda: own().restore({OLD: 1}), TypeError, "must have devices or their UUIDs, not int"),  # type: ignore[dict-item]
        (lambda: own().restore({b"1" * 16: OLD}), TypeError, "must have devices or their UUIDs, not bytes"),  # type: ignore[dict-item]
        (lambda: own().restore({"GPU-x": OLD}), ValueError, "32 hexadecimal digits; 'GPU-x' is not one"),
        (lambda: own().restore({OLD: NEW, OLD[4:]: NEW}), ValueError, "gpu_mapping has the same old device twice"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], error: type[Exception], text: str) -> None:
    """The driver would get another process, time limit or device than the given one."""
    with pytest.raises(error, match=text):
        call()


OWN_LOCK = """
import os, sys, threading, warnings
import cudacore as core
process = core.checkpoint.Process(os.getpid())
device = core.Device()
device.set_current()
warnings.simplefilter("error")
try:
    process.lock()
except RuntimeWarning as warning:
    assert "this process locks itself" in str(warning), warning
else:
    raise AssertionError("nothing was said")
device.sync()
assert process.state == "running"
"""
UNLOCK_OWN = """
warnings.simplefilter("ignore")
garbage = [device.allocate(64, stream=device.create_stream())]
garbage.append(garbage)
del garbage
process.lock()
assert process.state == "locked"
process.unlock()
device.sync()
"""


@pytest.mark.parametrize("code", [OWN_LOCK, pytest.param(OWN_LOCK + UNLOCK_OWN, marks=pytest.mark.cuda_sim)])
def test_own_process(code: str, on_sim: bool) -> None:
    """A process that locks itself would hang in its next call of CUDA, without a word about the reason."""
    environment = os.environ | ({"CUDACORE_DRIVER": "sim"} if on_sim else {})
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


class DriverUUID:
    """A UUID in the form of cuda.bindings."""

    def __init__(self, data: bytes) -> None:
        self.bytes = data


def test_uuids_of_every_kind(device: cudacore.Device) -> None:
    """A device would be mapped to the wrong device, because its UUID was converted wrongly."""
    from cudacore_handles import checkpoint

    data = uuid.UUID(device.uuid).bytes
    text = device.uuid
    for given in (device, text, f"GPU-{text}", text.replace("-", "").upper(), uuid.UUID(text), DriverUUID(data)):
        assert checkpoint._uuids_of({given: NEW}) == data + NEW.bytes


def test_unknown_devices(process: Process) -> None:
    """A process would be restored to a device that does not exist."""
    process.lock()
    process.checkpoint()
    with pytest.raises(cudacore.CUDAError, match=r"^cuCheckpointProcessRestore"):
        process.restore({OLD: NEW})
    assert process.state == "checkpointed"


def test_processes_are_compared_by_their_ids() -> None:
    """Two objects for one process would not be equal."""
    process = Process(pid=7)
    assert (process, hash(process)) == (Process(7), hash(Process(7)))
    assert process != Process(8)
    assert process != 7
    assert repr(process) == "<Process 7>"
    assert pickle.loads(pickle.dumps(process)) == process
    with pytest.raises(AttributeError):
        process.pid = 8  # type: ignore[misc]


@pytest.mark.cuda_sim
@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("GetState", lambda process: process.state),
        ("GetRestoreThreadId", lambda process: process.restore_thread_id),
        ("Lock", lambda process: process.lock()),
        ("Checkpoint", lambda process: process.checkpoint()),
        ("Restore", lambda process: process.restore()),
        ("Unlock", lambda process: process.unlock()),
    ],
)
def test_each_call_can_fail(process: Process, name: str, operation: Callable[[Process], object]) -> None:
    """A failure of the driver would be reported as success, or change the state of the process."""
    import cudacore_sim as sim

    with sim.failing(f"cuCheckpointProcess{name}", error=999), pytest.raises(cudacore.CUDAError) as caught:
        operation(process)
    assert (caught.value.operation, caught.value.code) == (f"cuCheckpointProcess{name}", 999)
    assert process.state == "running"


@pytest.mark.cuda_sim
def test_older_drivers() -> None:
    """For a driver without checkpoints, the error would be an AttributeError, or not name the required version."""
    code = "import os\nfrom cudacore.checkpoint import Process\nProcess(os.getpid()).lock()"
    environment = os.environ | {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DRIVER_VERSION": "12.6"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "cuCheckpointProcessLock: CCH_ENOSYMBOL" in done.stderr
    assert "12.8" in done.stderr
    code = "import os\nfrom cudacore.checkpoint import Process\nProcess(os.getpid()).restore({'0' * 32: '1' * 32})"
    environment["CUDACORE_SIM_DRIVER_VERSION"] = "12.9"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "needs a driver for CUDA 13.0 or newer" in done.stderr
    assert "omit gpu_mapping" in done.stderr
