"""What name a collective gets in a graph. That ranks find each other is tested with the ops."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_collectives as hvd

RANKS = (1,)


def names_in(graph):
    """The names of all collectives in a graph and in the functions that it calls."""
    nodes = [*graph.as_graph_def().node]
    for function in graph.as_graph_def().library.function:
        nodes += function.node_def
    return sorted(
        tf.compat.as_str(node.attr["tensor_name"].s)
        for node in nodes
        if node.op.startswith("Collectives>")
    )


def names_of(function, *args):
    return names_in(tf.function(function).get_concrete_function(*args).graph)


def test_given_names_are_kept_and_made_unique():
    def step(x):
        return [hvd.allreduce(x, name=name) for name in ("a", "b", "a", "a", "a_1", "any text: é/")]

    assert names_of(step, tf.zeros(1)) == ["a", "a_1", "a_1_1", "a_2", "any text: é/", "b"]


def test_others_are_counted_for_each_kind():
    def step(x):
        hvd.allreduce(x)
        hvd.broadcast(x, 0)
        hvd.allgather(x)
        hvd.grouped_allreduce([x])
        return hvd.allreduce(x)

    assert names_of(step, tf.zeros(1)) == [
        "step/allgather",
        "step/allreduce",
        "step/allreduce_1",
        "step/broadcast",
        "step/grouped_allreduce",
    ]


def test_nested_functions_and_control_flow_are_part_of_the_name():
    @tf.function
    def inner(x):
        return hvd.allreduce(x) + hvd.allreduce(x, name="mine")

    def step(x):
        for _ in tf.range(2):
            x = hvd.allreduce(x, name="mine")
        for _ in tf.range(2):
            x = hvd.allreduce(x) if tf.reduce_sum(x) > 0 else hvd.broadcast(x, 0)
        return hvd.allreduce(x, name="mine") + inner(x)

    assert names_of(step, tf.zeros(1)) == [
        "inner/mine",
        "mine",
        "step/inner/allreduce",
        "step/while_body_1/cond_branch/allreduce",
        "step/while_body_1/cond_branch_1/broadcast",
        "while_body/mine",
    ]


def test_what_has_no_collective_counts_for_nothing():
    def loop(x, times):
        for _ in tf.range(times):
            x = x + 1
        return x

    def step(x):
        for _ in tf.range(2):
            x = hvd.allreduce(x)
        return x

    def with_others(x):
        x = loop(x, 3)
        x = tf.cond(x[0] > 0, lambda: x, lambda: x + 1)
        return step(x)

    with_others.__name__ = "step"
    assert names_of(with_others, tf.zeros(1)) == names_of(step, tf.zeros(1))


def test_tracing_again_gives_the_same_names():
    @tf.function
    def inner(x):
        return hvd.allreduce(x)

    @tf.function
    def step(x):
        return inner(x) + hvd.allreduce(x) + tf.reduce_sum(inner(x[1:]))

    first = names_in(step.get_concrete_function(tf.zeros(3)).graph)
    again = names_in(step.get_concrete_function(tf.zeros(4)).graph)
    assert set(first) == set(again) == {"step/inner/allreduce", "step/allreduce"}


def test_gradients_are_named_after_their_forward_op():
    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = tf.reduce_sum(hvd.allreduce(x, name="loss") + hvd.allgather(x)[:1])
        return tape.gradient(loss, x), tape.gradient(loss, x)

    assert names_of(step, tf.zeros(1)) == [
        "loss",
        "loss/gradient",
        "loss/gradient_1",
        "step/allgather",
        "step/allgather/gradient",
        "step/allgather/gradient_1",
    ]


def test_gradients_of_a_tape_have_a_scope_and_an_index():
    a, b = tf.Variable(1.0), tf.Variable(1.0)

    def step():
        with tf.GradientTape(persistent=True) as tape:
            loss = a * b
        tape = hvd.DistributedGradientTape(tape)
        return tape.gradient(loss, [a, b]), tape.gradient(loss, [b])

    assert names_of(step) == [
        "DistributedGradientTape/gradient_0",
        "DistributedGradientTape/gradient_1",
        "DistributedGradientTape_1/gradient_0",
    ]


def test_ops_of_a_tape_are_called_after_the_variables():
    variable = tf.Variable(1.0, name="layer/odd name:1")

    def step():
        with tf.GradientTape() as tape:
            loss = variable * variable
        return hvd.DistributedGradientTape(tape).gradient(loss, variable)

    graph = tf.function(step).get_concrete_function().graph
    (op,) = [op for op in graph.get_operations() if op.type == "Collectives>AllReduce"]
    assert op.name.startswith("layer/odd_name/")


@pytest.mark.parametrize("name", [None, "mine"])
def test_graphs_of_tensorflow_1(name):
    @tf.function
    def inner(x):
        return hvd.allreduce(x, name=name)

    with tf.Graph().as_default() as graph:
        x = tf.constant([1.0])
        y = hvd.allreduce(inner(x), name=name)
        tf.compat.v1.while_loop(
            lambda i: i[0] < 2, lambda i: hvd.allreduce(i, name=name), [tf.constant([0])]
        )
        tf.gradients(y, x)
    leaf = name or "allreduce"
    assert {leaf, f"inner/{leaf}", f"while_body/{leaf}", f"{leaf}/gradient"} <= set(names_in(graph))
