# SPDX-License-Identifier: Apache-2.0
"""Random programs of memory, streams, contexts, threads and captures, compared with NumPy.

Each program uses devices, green contexts, default, per-thread and foreign streams, parts and borrowed memory, captures
and threads at once. It orders its work by events, and frees memory in every way in which CUDA permits that. What NumPy
computes in the order of the program must be what the devices compute.

    python fuzz_memory.py --seconds 600 --seed 7

Each step is printed before it is done, so that a program that ends the process can be repeated.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from graph_tools import ONE, PTX

import cudacore_graph as cg
import cudacore_handles as ch

sys.path.append(str(Path(__file__).resolve().parents[3] / "tests"))
from bindings import call_bindings

SIZES = (64, 256, 4096)
STEPS = 60  # of a program
MAX_ROOTS = 12


class ForeignStream:
    """A stream of another library, which destroys it when nobody uses the object any more."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.raw = call_bindings("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self.raw)

    def __del__(self) -> None:
        call_bindings("cuStreamDestroy", self.raw)


class Place:
    """A stream as it is now: default streams are those of the context, and of the thread, that use them."""

    def __init__(self, name: str, device: ch.Device, given: Any, enter: Callable[[], object]) -> None:
        self.name, self.device, self.given, self.enter = name, device, given, enter

    @property
    def stream(self) -> ch.Stream:
        """The stream; a new object each time, if it is of another library."""
        return self.given if isinstance(self.given, ch.Stream) else self.device.create_stream(self.given)


class Root:
    """An allocation: its parts, what NumPy has computed for it, and the last work that uses it."""

    def __init__(self, kind: str, device: ch.Device, size: int) -> None:
        self.kind, self.device = kind, device
        self.values = np.zeros(size, np.uint8)
        self.parts: list[tuple[Any, int, int]] = []  # buffers, with offset and size; the first is the whole
        self.last: Place | None = None
        self.event: ch.Event | None = None

    def __str__(self) -> str:
        return f"{self.kind} of device {self.device.device_id}"


class Program:
    """A random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.devices = ch.Device.get_all_devices()[:2]
        self.threads = [ThreadPoolExecutor(1) for _ in range(2)]
        self.roots: list[Root] = []
        self.graphs: list[tuple[Any, list[Root], list[Callable[[], None]], ch.Device]] = []
        self.places: list[Place] = []
        self.pools: dict[int, Any] = {}
        self.kernels: dict[int, Any] = {}
        for device in self.devices:
            self.add_device(device)

    def add_device(self, device: ch.Device) -> None:
        name = f"device {device.device_id}"
        device.set_current()
        enter: Callable[[], object] = device.set_current
        self.kernels[device.device_id] = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
        self.pools[device.device_id] = ch.DeviceMemoryResource(device, {})
        for i in range(2):
            self.places.append(Place(f"stream {i} of {name}", device, device.create_stream(), enter))
        self.places.append(Place(f"foreign stream of {name}", device, ForeignStream(), enter))
        self.places.append(Place(f"legacy stream of {name}", device, ch.LEGACY_DEFAULT_STREAM, enter))
        self.places.append(Place(f"per-thread stream of {name}", device, ch.PER_THREAD_DEFAULT_STREAM, enter))
        try:
            (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
            context = device.create_context(ch.ContextOptions([group]))
        except (RuntimeError, ch.CUDAError):  # neither this driver nor an older one has green contexts
            return

        def enter_green() -> object:
            return device.set_current(context)

        self.places.append(Place(f"green stream of {name}", device, context.create_stream(), enter_green))
        self.places.append(Place(f"legacy green stream of {name}", device, ch.LEGACY_DEFAULT_STREAM, enter_green))

    # ---- order

    def log(self, text: str) -> None:
        """Print what is done next."""
        print(text, flush=True)

    def do(self, place: Place, text: str, work: Callable[[Any], None], *roots: Root) -> None:
        """Do work on a stream, after all earlier work with the same memory; sometimes on another thread."""
        thread = self.random.choice(self.threads) if self.random.random() < 0.2 else None
        if "per-thread" in place.name:  # one thread for each such stream
            thread = self.threads[place.device.device_id]
        self.log(f"{place.name}{' on a thread' if thread else ''}: {text}")

        def run() -> None:
            place.enter()
            for root in roots:
                if root.last is not None and root.last is not place:
                    assert root.event is not None
                    place.stream.wait(root.event)
            work(place.given if self.random.random() < 0.5 else place.stream)
            event = place.stream.record() if roots else None
            for root in roots:
                root.last, root.event = place, event

        thread.submit(run).result() if thread else run()
        # Something else is current while the next step chooses its stream.
        self.random.choice(self.places).enter()

    # ---- steps

    def place_on(self, device: ch.Device) -> Place:
        return self.random.choice([place for place in self.places if place.device is device])

    def any_part(self) -> tuple[Root, Any, int, int] | None:
        if not self.roots:
            return None
        root = self.random.choice(self.roots)
        buffer, offset, size = self.random.choice(root.parts)
        return root, buffer, offset, size

    def allocate(self) -> None:
        if len(self.roots) >= MAX_ROOTS:
            self.close()
        device, size = self.random.choice(self.devices), self.random.choice(SIZES)
        kind = self.random.choice(["pool"] * 4 + ["pinned", "pinned pool", "managed", "virtual"])
        root = Root(kind, device, size)
        place = self.random.choice(self.places) if kind == "pool" else self.place_on(device)

        def work(stream: Any) -> None:
            resource: Any = {
                "pool": lambda: self.pools[device.device_id],
                "pinned": ch.LegacyPinnedMemoryResource,
                "pinned pool": ch.PinnedMemoryResource,
                "managed": ch.LegacyManagedMemoryResource,
                "virtual": lambda: ch.VirtualMemoryResource(device, {"handle_type": None}),
            }[kind]()
            made = resource.allocate(size, stream=stream)
            root.parts.append((made if made.size == size else made[:size], 0, size))

        self.do(place, f"allocate {size} bytes, {root}", work, root)
        self.roots.append(root)
        self.fill(root)

    def fill(self, root: Root | None = None) -> None:
        if root is not None:
            (buffer, offset, size), value = root.parts[0], self.random.randrange(256)
        else:
            found = self.any_part()
            if found is None:
                return
            root, buffer, offset, size = found
            value = self.random.randrange(256)
        chosen = root
        self.do(
            self.place_on(root.device), f"fill {size} bytes at {offset}, {root}",
            lambda stream: buffer.fill(value, stream=stream), chosen,
        )  # fmt: skip
        chosen.values[offset : offset + size] = value

    def pair(self) -> tuple[Root, Any, int, Root, Any, int, int] | None:
        to, origin = self.any_part(), self.any_part()
        if to is None or origin is None or to[0] is origin[0]:
            return None
        size = min(to[3], origin[3])
        return to[0], to[1][:size], to[2], origin[0], origin[1][:size], origin[2], size

    def copy(self) -> None:
        found = self.pair()
        if found is None:
            return
        root, dst, at, source, src, origin, size = found
        how = self.random.choice(["copy_to", "copy_from", "batch", "view", "columns"])

        def work(stream: Any) -> None:
            if how == "copy_to":
                src.copy_to(dst, stream=stream)
            elif how == "copy_from":
                dst.copy_from(src, stream=stream)
            elif how == "batch":
                ch.copy_batch(stream, [src], [dst])
            elif how == "view":
                dst.view("u1").copy_from(src.view("u1"), stream)
            else:
                views = [buffer.view("u1", (8, size // 8)) for buffer in (dst, src)]
                views[0].view(views[0]._layout[:, ::2]).copy_from(views[1].view(views[1]._layout[:, ::2]), stream)

        self.do(self.random.choice(self.places), f"{how} {size} bytes, {source} to {root}", work, root, source)
        step = 2 if how == "columns" else 1
        root.values[at : at + size].reshape(8, -1)[:, ::step] = (
            source.values[origin : origin + size].reshape(8, -1)[:, ::step]
        )  # fmt: skip

    def launch(self) -> None:
        found = self.any_part()
        if found is None:
            return
        root, buffer, offset, _ = found
        amount, kernel = self.random.randrange(1000), self.kernels[root.device.device_id]
        self.do(
            self.place_on(root.device), f"launch at {offset}, {root}",
            lambda stream: ch.launch(stream, ONE, kernel, buffer, amount), root,
        )  # fmt: skip
        root.values[offset : offset + 4].view(np.uint32)[:] += np.uint32(amount)  # as arrays, these wrap around

    def slice(self) -> None:
        found = self.any_part()
        if found is None or found[3] < 64:
            return
        root, buffer, offset, size = found
        begin = 16 * self.random.randrange(size // 32)
        length = max(32, (size - begin) // 32 * 16)
        if self.random.random() < 0.3:
            self.log(f"borrow {length} bytes at {offset + begin}, {root}")
            part = ch.Buffer.from_handle(int(buffer.handle) + begin, length, owner=buffer)
        else:
            self.log(f"slice {length} bytes at {offset + begin}, {root}")
            part = buffer[begin : begin + length]
        root.parts.append((part, offset + begin, length))

    def close(self) -> None:
        """Free an allocation: the last work that uses it, of whichever part, is what orders the free."""
        if not self.roots:
            return
        root = self.roots.pop(self.random.randrange(len(self.roots)))
        place, how = root.last, self.random.choice(["close", "close a part", "set stream", "record", "wait"])
        assert place is not None
        parts = [part for part, _, _ in root.parts]
        self.random.shuffle(parts)
        root.parts.clear()

        def work(stream: Any) -> None:
            if how == "wait":
                place.stream.sync()
            elif how == "set stream":
                parts[0].set_deallocation_stream(stream)
            elif how == "record":
                parts[0].record_stream(stream)
            elif how == "close a part":
                parts[0].close(stream)
            else:
                for part in parts:
                    part.close(stream)

        self.do(place, f"free {root.values.size} bytes, {root}: {how}", work)
        self.random.choice(self.places).enter()
        parts.clear()
        work = None  # type: ignore[assignment]

    def capture(self) -> None:
        """Capture copies, fills and launches of memory of one device into a graph, which is launched later."""
        device = self.random.choice(self.devices)
        roots = [root for root in self.roots if root.device is device and root.kind == "pool"]
        if not roots:
            return
        for root in roots:
            self.settle(root)
        stream = next(p for p in self.places if p.device is device).stream
        device.set_current()
        foreign = self.random.random() < 0.3
        self.log(f"capture of {'another library' if foreign else 'a builder'} on device {device.device_id}")
        builder: Any = stream
        if foreign:
            from cuda.bindings import driver

            call_bindings(
                "cuStreamBeginCapture", stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            )
        else:
            builder = stream.create_graph_builder().begin_building()
        effects: list[Callable[[], None]] = []
        branches = [builder]
        if not foreign and len(roots) > 1 and self.random.random() < 0.5:
            branches = list(builder.split(2))
        for _ in range(self.random.randrange(1, 5)):
            branch = self.random.randrange(len(branches))
            root = self.random.choice(roots[branch :: len(branches)])  # the branches share no memory
            buffer, offset, size = self.random.choice(root.parts)
            values = root.values[offset : offset + size]
            fills = self.random.random() < 0.5
            self.log(f"capture {'a fill' if fills else 'a launch'} on branch {branch}, {size} bytes at {offset}")
            if fills:
                value = self.random.randrange(256)
                buffer.fill(value, stream=branches[branch])
                effects.append(lambda values=values, value=value: values.fill(value))
            else:
                amount = self.random.randrange(1000)
                ch.launch(branches[branch], ONE, self.kernels[device.device_id], buffer, amount)
                effects.append(lambda values=values, amount=amount: add(values, amount))
        self.log("end the capture")
        if foreign:
            raw = call_bindings("cuStreamEndCapture", stream.handle)
            graph: Any = call_bindings("cuGraphInstantiate", raw, 0)
            call_bindings("cuGraphDestroy", raw)
        else:
            if len(branches) > 1:
                builder = cg.GraphBuilder.join(*branches)
            graph = builder.end_building().complete()
        self.graphs.append((graph, roots, effects, device))

    def launch_graph(self) -> None:
        if not self.graphs:
            return
        graph, roots, effects, device = self.random.choice(self.graphs)
        if any(root.last is None for root in roots):
            return

        def work(stream: Any) -> None:
            if isinstance(graph, cg.Graph):
                graph.launch(stream)
            else:
                call_bindings("cuGraphLaunch", graph, stream.__cuda_stream__()[1])

        # The graph keeps memory whose buffers were closed, so it can be launched at any time.
        self.do(self.place_on(device), f"launch a graph of {len(effects)} nodes", work, *roots)
        for effect in effects:
            effect()

    def end_graph(self) -> None:
        if self.graphs:
            graph, roots, *_ = self.graphs.pop(self.random.randrange(len(self.graphs)))
            # The simulator does not see that the driver releases what a graph keeps after the graph's launches.
            waits = not isinstance(graph, cg.Graph) or self.random.random() < 0.5
            self.log(f"end a graph {'after' if waits else 'during'} its launches")
            for root in roots:
                if waits:
                    self.settle(root)
            if not isinstance(graph, cg.Graph):
                call_bindings("cuGraphExecDestroy", graph)

    # ---- comparisons

    def settle(self, root: Root) -> None:
        if root.event is not None:
            root.event.sync()

    def compare(self) -> None:
        for root in self.roots:
            for buffer, offset, size in root.parts:
                out = np.zeros(size, np.uint8)
                self.do(
                    self.random.choice(self.places), f"read {size} bytes at {offset}, {root}",
                    lambda stream, buffer=buffer, out=out: buffer.copy_to(out, stream=stream), root,
                )  # fmt: skip
                self.settle(root)
                assert (out == root.values[offset : offset + size]).all(), (
                    f"{root}, {size} bytes at {offset}: {out[:16]} instead of {root.values[offset : offset + 16]}"
                )

    def run(self) -> None:
        steps = [self.allocate] * 4 + [self.fill, self.copy, self.copy, self.copy, self.launch, self.launch, self.slice]
        steps += [self.slice, self.close, self.close, self.close, self.capture, self.launch_graph, self.launch_graph]
        steps += [self.end_graph, self.compare, gc.collect]  # type: ignore[list-item]
        try:
            for _ in range(STEPS):
                self.random.choice(steps)()
            self.compare()
        finally:
            self.end()

    def end(self) -> None:
        self.log("end of the program")
        while self.graphs:
            self.end_graph()
        for root in self.roots:
            self.settle(root)
            root.parts.clear()
        for device in self.devices:
            device.set_current()
            device.sync()
        for thread in self.threads:
            thread.shutdown()
        self.roots.clear()
        self.places.clear()
        gc.collect()
        self.devices[0].set_current()


def add(values: Any, amount: int) -> None:
    values[:4].view(np.uint32)[:1] += np.uint32(amount)  # an array, because NumPy warns if a scalar overflows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long to run; at least one program is run")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program; the next one has the next seed")
    given = parser.parse_args(arguments)
    faulthandler.enable()
    sim: Any = None
    if os.environ.get("CUDACORE_DRIVER") == "sim":
        import cudacore_sim

        sim = cudacore_sim
        sim.load()
    end, seed = time.monotonic() + given.seconds, given.seed
    while True:
        print(f"program: --seconds 0 --seed {seed}", flush=True)
        Program(seed).run()
        assert sim is None or not sim.reports(), sim.reports()
        seed += 1
        if time.monotonic() > end:
            break
    print(f"{seed - given.seed} programs")


if __name__ == "__main__":
    main()
