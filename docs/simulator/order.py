# SPDX-License-Identifier: Apache-2.0
"""A copy that does not wait for the kernel that writes its source."""

import cudacore as core

SOURCE = """
extern "C" __global__ void fill(int *x, int value) {
    x[threadIdx.x] = value;
}"""

device = core.Device()
device.set_current()
producer, consumer = device.create_stream(), device.create_stream()
options = core.ProgramOptions(name="fill.cu", lineinfo=True)
fill = core.Program(SOURCE, "c++", options).compile("cubin").get_kernel("fill")
host = core.LegacyPinnedMemoryResource().allocate(128)
x = device.allocate(128, stream=producer)
consumer.wait(producer)

core.launch(producer, core.LaunchConfig(grid=1, block=32), fill, x, 7)
# consumer.wait(producer) belongs here
x.copy_to(host, stream=consumer)
consumer.sync()
print(host.__buffer__().cast("i")[0])
