# SPDX-License-Identifier: Apache-2.0
"""A graph with a loop: the device decides how often the loop runs."""

import numpy as np

import cudacore as core
from cudacore.graph import GraphDefinition

# Heron's method for square roots. It continues while the guess changes.
SOURCE = r"""
// NVRTC knows these two only with CUDA's headers.
typedef unsigned long long cudaGraphConditionalHandle;
extern "C" __device__ void cudaGraphSetConditional(cudaGraphConditionalHandle,
                                                   unsigned int);

extern "C" __global__ void improve(double a, double *guess, int *rounds,
                                   cudaGraphConditionalHandle more) {
    double before = *guess;
    *guess = 0.5 * (before + a / before);
    *rounds += 1;
    cudaGraphSetConditional(more, fabs(*guess - before) > 1e-12);
}
"""

device = core.Device()
device.set_current()
stream = device.create_stream()
kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("improve")
guess, rounds = device.allocate(8, stream=stream), device.allocate(4, stream=stream)

one = core.LaunchConfig(grid=1, block=1)
definition = GraphDefinition()
more = definition.create_condition(default_value=1)
start = definition.memset(rounds, 0, 4)
body = start.while_loop(more).body
node = body.launch(one, kernel, 2.0, guess, rounds, more)
graph = definition.instantiate()

for number in (2.0, 1e6):
    graph[node].update(config=one, kernel=kernel, args=(number, guess, rounds, more))
    guess.copy_from(np.array([number]), stream=stream)
    graph.launch(stream)
    root, count = np.empty(1), np.empty(1, np.int32)
    guess.copy_to(root, stream=stream)
    rounds.copy_to(count, stream=stream)
    print(f"the root of {number:g} is {root[0]:.6f}, after {count[0]} rounds")
