# SPDX-License-Identifier: Apache-2.0
"""Mistakes that type checkers must find; never run.

``ci/check_programs.py`` runs mypy and pyright on this file. A line with ``# wrong: TEXT`` is one mistake. Both checkers
must complain about each of these lines and about no other line.
"""

import ctypes

import numpy as np

import cudacore as core

device = core.Device()
stream = device.create_stream()
buffer = device.allocate(64, stream=stream)
config = core.LaunchConfig(grid=1, block=1)
program = core.Program("", "c++", core.ProgramOptions(arch="sm_90"))
code = program.compile("cubin")
kernel = code.get_kernel("k")
definition = core.graph.GraphDefinition()
node = definition.launch(config, kernel, buffer)
graph = definition.instantiate()

# Closed sets of strings
core.Program("", "cuda")  # wrong: no such type of source code
program.compile("cubim")  # wrong: no such format
core.Linker(code).link("fatbin")  # wrong: linkers do not make fat binaries
core.ProgramOptions().as_bytes("nvcc")  # wrong: no such compiler
core.utils.CopyOptions(src_access_order="streams")  # wrong: no such order
core.VirtualMemoryResourceOptions(self_access="w")  # wrong: no such access
core.texture.TextureObjectOptions(filter_mode="bilinear")  # wrong: no such filter
definition.allocate(64, memory_type="pinned")  # wrong: graphs have no such memory
device.create_graph_builder().begin_building("strict")  # wrong: no such mode
node.pred.add(node, "early")  # wrong: no such type of edge
core.utils.make_program_cache_key(code="", code_type="c", options=core.ProgramOptions(), target_type="ptx")  # wrong: C

# Values of memory
buffer.fill("0", stream=stream)  # wrong: a str is not a value
buffer.fill(0.5, stream=stream)  # wrong: a float has no size
buffer.copy_from([1, 2, 3], stream=stream)  # wrong: a list is not an array
buffer.copy_to([0] * 64, stream=stream)  # wrong: a list is not an array
buffer.fill(0)  # wrong: no stream
core.register_host_memory([1, 2, 3])  # wrong: a list is not an array
buffer[0]  # wrong: only slices

# Launches
core.launch(stream, config, kernel, "1")  # wrong: a str is not an argument
core.launch(stream, config, kernel, [1, 2])  # wrong: a list is not an argument
core.launch(stream, config, kernel, stream)  # wrong: a stream is not an argument
core.launch(config, stream, kernel, buffer)  # wrong: the order of the arguments
kernel.prepare(stream, config, "1")  # wrong: a str is not an argument
kernel.prepare(stream, config, 1)("1")  # wrong: a str is not an argument
definition.launch(config, kernel, {"n": 1})  # wrong: a dict is not an argument
core.LaunchConfig(grid="1", block=1)  # wrong: a str is not an extent
core.LaunchConfig(grid=1, blocks=1)  # wrong: the name of the option
core.LaunchConfig()  # wrong: no grid
core.LaunchConfig(grid=1)  # wrong: no block
core.LaunchConfig(1, 32)  # wrong: the second argument is the cluster
core.LaunchConfig(grid=1.5, block=1)  # wrong: a float is not an extent

# Options as dicts
device.create_stream(options={"nonblockin": True})  # wrong: the name of the option
device.create_event({"timing_enabled": "no"})  # wrong: a str is not a bool
stream.record(options={"blocking": True})  # wrong: the name of the option
core.Program("", "c++", {"arc": "sm_90"})  # wrong: the name of the option
core.Linker(code, options={"lto": True})  # wrong: the name of the option
core.DeviceMemoryResource(0, {"max_sise": 1})  # wrong: the name of the option
core.VirtualMemoryResource(0, {"handle_type": "posix"})  # wrong: no such type
definition.instantiate({"upload": stream})  # wrong: the name of the option

# Names and objects
core.EventOptions(enable_timing=True)  # wrong: the name of the option
core.ProgramOptions(std=17)  # wrong: a str is needed
core.LauchConfig(grid=1, block=1)  # wrong: the name of the class
stream.synchronize()  # wrong: the name of the method
stream.wait(1)  # wrong: an int is neither an event nor a stream
graph.launch()  # wrong: no stream
graph[buffer]  # wrong: a buffer is not a node
graph.update_many([definition.empty()], 1)  # wrong: an empty node launches no kernel
definition.destroy_many(node)  # wrong: one node, which destroy() destroys
definition.record(stream)  # wrong: a stream is not an event
device.create_graph_builder().finish()  # wrong: the name of the method
device.allocate("64", stream=stream)  # wrong: a str is not a size
device.allocate(64, stream)  # wrong: the stream is a keyword
core.Device("0")  # wrong: a str is not an ordinal
core.Stream()  # wrong: streams are made by devices
core.graph.GraphBuilder()  # wrong: builders are made by streams
core.graph.KernelNode()  # wrong: nodes are made by graphs

# Programs with correct types: no complaint
graph.update_many(definition.launch_many(config, kernel, [1, 2]), 3, config=[config, config])
definition.update_many([node], buffer)
definition.destroy_many(definition.nodes())
node.succ.add(node, "launch_order")
device.create_graph_builder().record(device.create_event())
device.allocate(np.prod((3, 4)) * np.dtype("f4").itemsize, stream=stream)
device.memory_resource.allocate(np.int64(4), stream=stream)
for code_type in core.typing.SourceCodeType:
    core.Program("", code_type).compile(core.typing.ObjectCodeFormatType.PTX)
core.launch(
    stream, config, kernel, 1, 1.5, True, 1j, None, buffer, b"1234", np.float32(1), np.zeros(3), ctypes.c_int(1)
)
buffer.fill(0, stream=stream)
buffer.fill(b"12", stream=stream)
buffer.fill(np.float32(1), stream=stream)
buffer.copy_from(np.zeros(8), stream=stream)
buffer.copy_from(memoryview(bytearray(64)), stream=stream)
device.create_stream(options={"nonblocking": False, "priority": 0})
device.create_event({"timing_enabled": True})
core.Program("", "c++", {"arch": "sm_90", "include_path": ["include"], "define_macro": {"N": 4}})
core.VirtualMemoryResource(0, {"handle_type": None, "peers": [1]})
definition.instantiate({"auto_free_on_launch": True, "upload_stream": stream})
copy: core.Buffer = buffer.copy_to(stream=stream)
array: "np.ndarray[tuple[int], np.dtype[np.float64]]" = buffer.copy_to(np.zeros(8), stream=stream)
core.register_host_memory(np.zeros(8))
core.LaunchConfig([2, 2], block=np.int64(32), shmem_size=np.prod((4, 4)))
core.LaunchConfig((np.int32(2), 1), (1, 1), 32)
core.LaunchConfig.for_elements(np.prod((4, 4)))
