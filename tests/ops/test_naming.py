"""Ranks find each other's calls by name, whatever else each of them does."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_collectives as hvd
from tf_collectives.errors import UnnamedCollectiveError
from tf_collectives.ops.library import native, overlapping

RANKS = (1, 2, 3)

v1 = tf.compat.v1


def total(value: float) -> float:
    """The sum over ranks where rank r has `value` + r."""
    return sum(value + rank for rank in range(hvd.size()))


def mine(value: float) -> Any:
    return tf.constant(float(value + hvd.rank()))


def test_one_rank_traces_more_often():
    @tf.function
    def step(tensor: Any, tag: int) -> Any:
        first = hvd.allreduce(tensor, op=hvd.Sum) + 0 * tag
        gathered = hvd.allgather(tf.reshape(first, [1]))
        return tf.reduce_sum(gathered), hvd.allreduce(tensor, op=hvd.Max)

    for number in range(6):
        # Rank 0 traces anew each time, the others once.
        summed, largest = step(mine(number), number if hvd.rank() == 0 else 0)
        assert summed == hvd.size() * total(number)
        assert largest == number + hvd.size() - 1


def test_one_rank_has_a_function_of_its_own_of_the_same_name():
    def make() -> Any:
        @tf.function
        def step(tensor: Any) -> Any:
            return hvd.allreduce(tensor, op=hvd.Sum)

        return step

    steps = [make() for _ in range(1 + hvd.rank())]
    for number in range(3):
        assert steps[-1](mine(number)) == total(number)


def test_one_rank_traces_an_inner_function_more_often():
    @tf.function
    def inner(tensor: Any, tag: int) -> Any:
        return hvd.allreduce(tensor, op=hvd.Sum) + 0 * tag

    @tf.function
    def outer(tensor: Any) -> Any:
        return [inner(tensor + number, number * hvd.rank()) for number in range(4)]

    np.testing.assert_array_equal(outer(mine(0)), [total(number) for number in range(4)])


def test_one_rank_has_ops_of_its_own_before_ours():
    @tf.function
    def step(tensor: Any) -> Any:
        if hvd.rank() == 0:
            # As writing a summary or a checkpoint would.
            for _ in range(5):
                tf.debugging.assert_less(tensor, 1e9)
            tensor = tf.cond(tensor > 1e9, lambda: tensor * 2, lambda: tensor)
            tensor = tf.while_loop(lambda x: x > 1e9, lambda x: x / 2, [tensor])[0]
        reduced = hvd.allreduce(tensor, op=hvd.Sum)
        in_branch = tf.cond(
            reduced < 1e9, lambda: hvd.allreduce(tensor, op=hvd.Max), lambda: tf.constant(0.0)
        )
        in_loop = tf.while_loop(
            lambda n, _: n < 3,
            lambda n, x: (n + 1, hvd.allreduce(x, op=hvd.Average)),
            (0, tensor),
        )[1]
        return reduced, in_branch, in_loop

    for number in range(3):
        reduced, in_branch, in_loop = step(mine(number))
        assert (reduced, in_branch) == (total(number), number + hvd.size() - 1)
        np.testing.assert_allclose(in_loop, total(number) / hvd.size())


def test_one_rank_has_a_loss_of_its_own():
    @tf.function
    def step(tensor: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensor)
            extra = tf.square(tensor) if hvd.rank() == 0 else tensor
            loss = hvd.allreduce(tensor, op=hvd.Sum) * 3
        if hvd.rank() == 0:
            tf.debugging.assert_greater(tape.gradient(extra, tensor), -1e9)
        return tape.gradient(loss, tensor)

    assert step(mine(1)) == 3 * hvd.size()


def test_one_rank_has_ops_of_its_own_in_a_session():
    with tf.Graph().as_default(), v1.Session() as session:
        if hvd.rank() == 0:
            tf.constant(1.0) + tf.constant(2.0)
        results = [hvd.allreduce(mine(number), op=hvd.Sum) for number in range(3)]
        assert session.run(results) == [total(number) for number in range(3)]


def test_unnamed_eager_calls_of_all_kinds_in_turn():
    for number in range(5):
        assert hvd.allreduce(mine(number), op=hvd.Sum) == total(number)
        gathered = hvd.allgather(mine(number)[None])
        np.testing.assert_array_equal(gathered, np.arange(number, number + hvd.size()))
        assert hvd.broadcast(mine(number), hvd.size() - 1) == number + hvd.size() - 1
        a, b = hvd.grouped_allreduce([mine(number), mine(2 * number)], op=hvd.Sum)
        assert (a, b) == (total(number), total(2 * number))
        # Named ones and graphs between them don't count.
        named = hvd.allreduce(mine(1), op=hvd.Sum, name=f"named {number}")
        in_graph = tf.function(lambda: hvd.allreduce(mine(2), op=hvd.Sum))()
        assert (named, in_graph) == (total(1), total(2))


def in_thread(function: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_unnamed_eager_calls_of_a_second_thread_are_refused():
    assert hvd.allreduce(mine(1), op=hvd.Sum) == total(1)
    with pytest.raises(UnnamedCollectiveError, match=r"Give the collectives .* a name"):
        in_thread(lambda: hvd.allreduce(mine(2), op=hvd.Sum))
    # Where it has a name, or is in a graph, it is all right.
    assert in_thread(lambda: hvd.allreduce(mine(3), op=hvd.Sum, name="x")) == total(3)
    assert in_thread(tf.function(lambda: hvd.allreduce(mine(4), op=hvd.Sum))) == total(4)
    assert hvd.allreduce(mine(5), op=hvd.Sum) == total(5)


def test_thread_that_has_ended_leaves_its_place_to_the_next():
    hvd.shutdown()
    hvd.init()
    for number in range(3):
        assert in_thread(lambda n=number: hvd.allreduce(mine(n), op=hvd.Sum)) == total(number)
    assert hvd.allreduce(mine(5), op=hvd.Sum) == total(5)


def test_two_threads_in_different_order():
    both = threading.Barrier(2)

    def call_all(names: list[str]) -> list[float]:
        both.wait()
        return [
            float(hvd.allreduce(mine(number), op=hvd.Sum, name=f"{name} {number}"))
            for name in names
            for number in range(20)
        ]

    # On every other rank the thread that comes first is the other one.
    names = ["a", "b"] if hvd.rank() % 2 == 0 else ["b", "a"]
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(call_all, [name]) for name in names]
        for future in futures:
            assert future.result() == [total(number) for number in range(20)]


def test_name_is_in_flight_many_times():
    @tf.function
    def step(tensor: Any) -> Any:
        # As many of one name as there are, which only the native op allows within one graph.
        return [
            overlapping(native.collectives_all_reduce(tensor, tensor_name="many"))
            for _ in range(50)
        ]

    for number in range(3):
        np.testing.assert_array_equal(step(mine(number)), [total(number)] * 50)


def test_function_is_called_by_many_threads_at_once():
    @tf.function
    def step(tensor: Any) -> Any:
        return hvd.allreduce(tensor, op=hvd.Sum), hvd.allgather(tensor[None])

    step(mine(7))
    with ThreadPoolExecutor(8) as pool:
        for summed, gathered in pool.map(lambda _: step(mine(7)), range(100)):
            assert summed == total(7)
            np.testing.assert_array_equal(gathered, np.arange(7, 7 + hvd.size()))


def test_name_is_used_for_one_shape_after_the_other():
    for rows in (1, 5, 0, 5, 1000, 1):
        result = hvd.allreduce(np.ones((rows, 2), np.float32), op=hvd.Sum, name="reused")
        np.testing.assert_array_equal(result, np.full((rows, 2), hvd.size(), np.float32))


def test_same_name_twice_in_a_graph():
    @tf.function
    def step() -> Any:
        return [hvd.allreduce(mine(number), op=hvd.Sum, name="twice") for number in range(3)]

    np.testing.assert_array_equal(step(), [total(number) for number in range(3)])


def test_name_in_an_error_is_the_one_given():
    @tf.function
    def step() -> Any:
        return hvd.broadcast(1.0, -1, name="model/kernel")

    with pytest.raises(tf.errors.InvalidArgumentError, match="Broadcast 'model/kernel'"):
        step()
