# SPDX-License-Identifier: Apache-2.0
"""Programs for the type checker, checked by ``nox -s types`` and never run.

The session reports an ``ignore`` comment that is not needed. So a line with such a comment must be a mistake that the
checkers find.
"""

from typing import Protocol

from typing_extensions import assert_type

import cudacore as core
from cudacore import Devize  # type: ignore[attr-defined]  # noqa: F401
from cudacore.typing import ObjectCodeFormType  # type: ignore[attr-defined]  # noqa: F401
from cudacore.utils import CopyOption  # type: ignore[attr-defined]  # noqa: F401
from cudacore_compile import Programme  # type: ignore[attr-defined]  # noqa: F401

device = core.Device()
assert_type(device, core.Device)
stream = device.create_stream()
assert_type(stream, core.Stream)
buffer = device.allocate(64, stream=stream)
assert_type(buffer, core.Buffer)
buffer.copy_too(buffer, stream=stream)  # type: ignore[attr-defined]
code = core.Program("", "c++", core.ProgramOptions(arch="sm_90")).compile("ptx")
assert_type(code, core.ObjectCode)
kernel = code.get_kernel("k")
assert_type(kernel, core.Kernel)
core.launch(stream, core.LaunchConfig(grid=1, block="1"), kernel, buffer)  # type: ignore[call-overload]
definition = core.graph.GraphDefinition()
node = definition.launch(core.LaunchConfig(grid=1, block=1), kernel, buffer)
assert_type(node, core.graph.KernelNode)
graph = definition.instantiate()
assert_type(graph, core.graph.Graph)
assert_type(graph[node], core.graph.ExecutableKernelNode)
assert_type(node.args, tuple[int | float | bool | bytes, ...])
core.Devize  # type: ignore[attr-defined]  # noqa: B018


class HasDevice(Protocol):
    """Properties of our classes are properties for type checkers, too, so that they match read-only members."""

    @property
    def device_id(self) -> int: ...


class OwnBuffer(core.Buffer):
    """A subclass can override a property."""

    @property
    def device_id(self) -> int:
        return 0


has_device: HasDevice = buffer
has_device = device
buffer.device_id = 1  # type: ignore[misc]
node.config = core.LaunchConfig(grid=1, block=1)  # type: ignore[misc]
