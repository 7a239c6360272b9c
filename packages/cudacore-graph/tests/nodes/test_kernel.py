# SPDX-License-Identifier: Apache-2.0
"""Nodes that launch kernels: their work, properties and updates."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from graph_tools import ONE, PTX, DeviceArray, Numbers, Run

import cudacore_graph as cg
import cudacore_handles as ch
from bindings import call_bindings

SCALE = b".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry _Z5scalePf(.param .u64 x) { ret; }"


class TestKernel:
    def test_tells(self, definition: cg.GraphDefinition, code: ch.ObjectCode) -> None:
        """A node would report a wrong geometry or kernel."""
        kernel = code.get_kernel("nothing")
        config = ch.LaunchConfig(grid=(2, 3), block=(4, 5, 6), shmem_size=1024)
        node = definition.launch(config, kernel)
        assert node.config == config
        assert (node.grid, node.block, node.shmem_size) == ((2, 3, 1), (4, 5, 6), 1024)
        assert node.kernel == kernel

    @pytest.mark.parametrize(
        "options",
        [
            {"cluster": (2, 1, 1)},
            {"is_cooperative": True},
            {"priority": -1},
            {"cluster": 2, "priority": -3},
        ],
        ids=str,
    )
    def test_keeps_launch_attributes(
        self, definition: cg.GraphDefinition, code: ch.ObjectCode, run: Run, options: dict[str, Any]
    ) -> None:
        """A cluster, a cooperative launch or a priority would be lost on the way into the graph."""
        config = ch.LaunchConfig(grid=2, block=32, **options)
        node = definition.launch(config, code.get_kernel("nothing"))
        assert node.config == config
        _, pairs = definition.clone()
        assert pairs[node].config == config
        run(definition)

    def test_of_a_module(self, definition: cg.GraphDefinition) -> None:
        """The geometry of a node that launches a function of a module could not be read, or its kernel be garbage."""
        from cuda.bindings import driver

        module = call_bindings("cuModuleLoadData", PTX + b"\0")
        params = driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = call_bindings("cuModuleGetFunction", module, b"nothing")
        params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1
        params.blockDimX = 32
        call_bindings("cuGraphAddKernelNode", definition.handle, None, 0, params)
        (node,) = definition.nodes()
        assert isinstance(node, cg.KernelNode)
        assert (node.grid, node.block, node.config) == ((1, 1, 1), (32, 1, 1), ch.LaunchConfig(grid=1, block=32))
        with pytest.raises(ValueError, match=r"the function of <KernelNode .* is not a kernel"):
            _ = node.kernel
        call_bindings("cuModuleUnload", module)

    def test_of_a_destroyed_node(self, definition: cg.GraphDefinition, code: ch.ObjectCode) -> None:
        """The properties of a node that no longer exists would be read from another object of the driver."""
        node = definition.launch(ONE, code.get_kernel("nothing"))
        node.destroy()
        for name in ("config", "grid", "block", "shmem_size", "kernel"):
            with pytest.raises(ch.ClosedError):
                getattr(node, name)

    def test_kinds_in_an_update(self, definition: cg.GraphDefinition) -> None:
        """The kinds of parameters would be lost, so that 1 for a `float` would arrive as an integer."""
        node = definition.launch(ONE, ch.ObjectCode.from_ptx(SCALE).get_kernel("_Z5scalePf"), None)
        assert [(p.kind, p.pointee) for p in node.kernel.arguments_info] == [("pointer", "float32")]
        with pytest.raises(TypeError, match="argument 0: a float cannot fill a parameter of 8 bytes that is a pointer"):
            node.update(args=(1.5,))

    @pytest.mark.cuda_sim
    def test_kernels_of_nodes_have_a_layout(self, definition: cg.GraphDefinition, cuda_sim: Any) -> None:
        """Each update of a node would ask the driver for the kernel's parameters, and read its signature again."""
        kernel = ch.ObjectCode.from_ptx(SCALE).get_kernel("_Z5scalePf")
        node = definition.launch(ONE, kernel, None)
        assert node.kernel._layout == kernel._layout is not None
        before = [cuda_sim.calls(name) for name in ("cuKernelGetParamInfo", "cuKernelGetName")]
        node.update(None)
        assert node.kernel.num_arguments == ch.Kernel.from_handle(kernel._raw).num_arguments == 1
        assert [cuda_sim.calls(name) for name in ("cuKernelGetParamInfo", "cuKernelGetName")] == before

    def test_arguments(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
        """The arguments of a node could not be read, or would be those of another node or of an earlier update."""

        one = definition.launch(ONE, add, numbers.buffer[4:], 7)
        many = definition.launch_many(ONE, add, [numbers.at(0), numbers.at(3)], [1, 2])
        assert one.args == (numbers.at(1), 7)
        one.update(args=(numbers.buffer, 8))
        _, pairs = definition.clone()
        twin = pairs[one]
        assert isinstance(twin, cg.KernelNode)
        assert one.args == twin.args == (numbers.at(0), 8)
        assert [node.args for node in many] == [(numbers.at(0), 1), (numbers.at(3), 2)]
        one.update(args=many[1].args)
        many[0].update(config=ch.LaunchConfig(grid=2, block=1))
        definition.update_many(many[1:], numbers.at(5), 2**32 - 1)
        assert one.args == (numbers.at(3), 2)
        assert [node.args for node in many] == [(numbers.at(0), 1), (numbers.at(5), 2**32 - 1)]
        empty = definition.launch(ONE, ch.ObjectCode.from_ptx(PTX).get_kernel("nothing"))
        assert empty.args == ()
        one.destroy()
        with pytest.raises(ch.ClosedError):
            _ = one.args

    def test_arguments_of_a_capture(
        self, add: ch.Kernel, numbers: Numbers, stream: ch.Stream, need_driver: Callable[[str, str], None]
    ) -> None:
        """The arguments of nodes that a capture added could not be read, or would be those of another node."""
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 9)
        (node,) = builder.graph_definition.nodes()
        assert isinstance(node, cg.KernelNode)
        assert node.args == (numbers.at(0), 9)

    def test_arguments_of_each_kind(self, definition: cg.GraphDefinition) -> None:
        """A negative number, a float, a bool or a struct would be read as something else."""
        names = {"_Z1ksixybfdPv5Thing": [2, 4, 8, 8, 1, 4, 8, 8], "x": [4, 8]}
        source = b".version 7.0\n.target sm_75\n.address_size 64\n"
        for name, sizes in names.items():
            parameters = [b".param .b%d p%d" % (8 * size, index) for index, size in enumerate(sizes)]
            parameters += [b".param .align 4 .b8 p9[12]"] * (name != "x")
            source += b".visible .entry %s(%s) { ret; }\n" % (name.encode(), b", ".join(parameters))
        code = ch.ObjectCode.from_ptx(source)
        values = (-2, -(2**31), -1, 2**64 - 1, True, -1.5, 1e300, 2**63, bytes(range(12)))
        node = definition.launch(ONE, code.get_kernel("_Z1ksixybfdPv5Thing"), *values)
        assert node.args == values
        assert [type(value) for value in node.args] == [type(value) for value in values]
        node.update(args=node.args)
        assert node.args == values
        unknown = definition.launch(ONE, code.get_kernel("x"), 1, b"12345678")
        unknown.update(args=unknown.args)
        assert unknown.args == (b"\1\0\0\0", b"12345678")

    def test_types_of_arrays(self, definition: cg.GraphDefinition, numbers: Numbers) -> None:
        """A node would run with an array of another type than the kernel's pointer."""
        kernel = ch.ObjectCode.from_ptx(SCALE).get_kernel("_Z5scalePf")
        right, wrong = numbers.buffer.view("float32"), numbers.buffer.view("int32")
        node = definition.launch(ONE, kernel, right)
        message = "argument 0: .*StridedMemoryView is an array of int32, but the parameter is a pointer to float;"
        for add in (
            lambda: definition.launch(ONE, kernel, wrong),
            lambda: node.update(args=(wrong,)),
            lambda: definition.launch_many(ONE, kernel, [right, wrong]),
            lambda: definition.launch_many(ONE, kernel, wrong, count=2),
        ):
            with pytest.raises(TypeError, match=message):
                add()
        assert len(definition.nodes()) == 1

    def test_update_keeps_the_rest(
        self, definition: cg.GraphDefinition, add: ch.Kernel, times: ch.Kernel, numbers: Numbers, run: Run
    ) -> None:
        """An update would change values that were not given."""
        numbers[0] = 7
        node = definition.launch(ONE, add, numbers.buffer, 3)
        node.update(config=ch.LaunchConfig(grid=1, block=1, shmem_size=64))
        assert node.shmem_size == 64
        run(definition)
        assert numbers[0] == 10
        node.update(args=(numbers.buffer, 5))
        assert (node.shmem_size, node.kernel) == (64, add)
        run(definition)
        assert numbers[0] == 15
        node.update(kernel=times, args=(numbers.buffer, 2))
        assert (node.shmem_size, node.kernel) == (64, times)
        run(definition)
        assert numbers[0] == 30
        node.update()

    def test_keeps_its_arguments(self, definition: cg.GraphDefinition, add: ch.Kernel, run: Run) -> None:
        """A buffer, or an array of another library, would be freed while a node uses it."""
        array = DeviceArray(Numbers(1))
        reference, view = weakref.ref(array), array.numbers.view
        node = definition.launch(ONE, add, array, 4)
        del array
        gc.collect()
        assert reference() is not None
        run(definition)
        assert view[0] == 4
        del view
        node.update(args=(0, 0))
        del node
        definition.close()

    def test_bad_input(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
        """An update with an invalid kernel or configuration would be accepted."""
        node = definition.launch(ONE, add, numbers.buffer, 1)
        bad: Any = None
        for call, error, match in (
            (lambda: node.update(kernel=add), ValueError, "a new kernel needs its arguments"),
            (lambda: node.update(config=bad, args=3), TypeError, "args must be a tuple"),
            (lambda: node.update(config="x"), TypeError, "config must be a LaunchConfig"),
        ):
            with pytest.raises(error, match=match):
                call()


def test_too_many_threads(stream: ch.Stream, add: ch.Kernel, numbers: Numbers, definition: cg.GraphDefinition) -> None:
    """A launch with too many threads would end a capture, or the error for such a node would give no reason."""
    large = ch.LaunchConfig(grid=1, block=1025)
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_VALUE .*1025, 1, 1.* at most 1024"):
        ch.launch(builder, large, add, numbers.buffer, 1)
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    assert len(builder.end_building().graph_definition.nodes()) == 1
    with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_VALUE .*1025, 1, 1.* at most 1024"):
        definition.launch(large, add, numbers.buffer, 1)
