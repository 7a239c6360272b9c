# SPDX-License-Identifier: Apache-2.0
"""Whole programs of graphs: nodes of all types together."""

from __future__ import annotations

from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch


def test_rounds(device: ch.Device, stream: ch.Stream, add: ch.Kernel, conditional: ch.ObjectCode) -> None:
    """Nodes that work alone would not work together: a loop with a child graph, events, memory of the graph, a switch.

    The counter goes from 5 to 0. Each round adds 3 in the graph's own memory. At the end, the sum is copied, a switch
    on a number that was set before chooses an addend, and both branches of a condition run.
    """
    count_down, set_condition = map(conditional.get_kernel, ("count_down", "set_condition"))
    numbers = Numbers(16)
    counter, total, selector, called = numbers.at(0), numbers.at(1), numbers.at(2), []
    event = device.create_event()
    definition = cg.GraphDefinition()

    memory = definition.allocate(256)
    sum_ = memory.dptr
    start = memory.memset(sum_, 0, 256).callback(lambda: called.append("start"))
    step = cg.GraphDefinition()
    step.launch(ONE, add, sum_, 1).launch(ONE, add, sum_, 2)
    more = definition.create_condition(1)
    loop = start.while_loop(more)
    inner = loop.body.embed(step)
    inner.launch(ONE, count_down, more, counter)

    recorded = loop.record(event).wait(event)
    copied = recorded.memcpy(total, sum_, 4)
    freed = copied.deallocate(sum_)
    choice, positive, negative = (definition.create_condition() for _ in range(3))
    chosen = freed.launch(ONE, set_condition, choice, selector).switch(choice, 3)
    for index, body in enumerate(chosen.branches):
        body.launch(ONE, add, total, 100 * (index + 1))
    either = chosen.launch(ONE, set_condition, positive, total).if_else(positive)
    either.then.launch(ONE, add, numbers.at(3), 1)
    either.else_.launch(ONE, add, numbers.at(4), 1)
    never = chosen.launch(ONE, set_condition, negative, numbers.at(5)).if_then(negative)
    never.then.launch(ONE, add, numbers.at(6), 1)
    definition.join(either, never).callback(lambda: called.append("end"))

    types = {type(node) for node in definition.nodes()} | {type(node) for node in loop.body.nodes()}
    assert len(types) == 14
    graph = definition.instantiate()
    for selected, expected in ((0, 115), (2, 315), (9, 15)):
        for index in range(16):
            numbers[index] = 0
        numbers[0], numbers[2] = 5, selected
        graph.launch(stream)
        stream.sync()
        assert (numbers[1], numbers[3], numbers[4], numbers[6]) == (expected, 1, 0, 0)
    assert called == ["start", "end"] * 3
    assert "case 2" in str(definition)


def test_captured_rounds(stream: ch.Stream, add: ch.Kernel, conditional: ch.ObjectCode) -> None:
    """A captured loop with forks in its body, followed by a choice, would give wrong results."""
    count_down = conditional.get_kernel("count_down")
    numbers = Numbers(4)
    numbers[0] = 3
    with stream.create_graph_builder() as builder:
        more = builder.create_condition(1)
        with builder.while_loop(more) as body:
            first, second = body.split(2)
            ch.launch(first, ONE, add, numbers.at(1), 2)
            ch.launch(second, ONE, add, numbers.at(2), 5)
            body.join(first, second)
            ch.launch(body, ONE, count_down, more, numbers.at(0))
        then, otherwise = builder.if_else(builder.create_condition(0))
        with then:
            ch.launch(then, ONE, add, numbers.at(3), 1)
        with otherwise:
            ch.launch(otherwise, ONE, add, numbers.at(3), 10)
    graph = builder.complete()
    graph.launch(stream)
    stream.sync()
    assert [numbers[i] for i in range(4)] == [0, 6, 15, 10]
