"""What TensorFlow does to a graph must not change which collectives run, nor make them wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import assert_same_bits, of_each_rank, reduced

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3)

v1 = tf.compat.v1


def total(value: float) -> float:
    """The sum over ranks where rank r has `value` + r."""
    return sum(value + rank for rank in range(hvd.size()))


def mine(value: float) -> Any:
    return tf.constant(float(value + hvd.rank()))


def collectives_run(function: Callable[[], Any]) -> int:
    hvd.fusion.reset_statistics()
    function()
    return hvd.fusion.statistics().tensors


@pytest.mark.parametrize("constant_input", [True, False], ids=["constant", "argument"])
def test_nothing_is_folded_merged_or_pruned(constant_input: bool):
    constant = np.full((50, 2), 1 + hvd.rank(), np.float32)
    # The same collective of the same tensor, three times and once with no use of its result.
    collectives: list[Callable[[Any], Any]] = [
        lambda tensor: hvd.allreduce(tensor, op=hvd.Sum),
        lambda tensor: hvd.allgather(tensor),
        lambda tensor: hvd.broadcast(tensor, 0),
        lambda tensor: hvd.grouped_allreduce([tensor])[0],
        lambda tensor: hvd.grouped_allgather([tensor])[0],
        lambda tensor: hvd.grouped_broadcast([tensor], 0)[0],
    ]

    @tf.function
    def step(tensor: Any) -> Any:
        if constant_input:
            tensor = tf.constant(constant)
        results = [collective(tensor) for collective in collectives for _ in range(3)]
        for collective in collectives:
            collective(tensor)
        return results

    tensor = tf.constant(constant)
    results = step(tensor)
    for result in results[:3]:
        assert_same_bits(result, np.full((50, 2), total(1), np.float32))
    for _ in range(3):
        assert collectives_run(lambda: step(tensor)) == 24


def test_broadcast_of_variables_is_run_though_nothing_uses_it():
    variable = tf.Variable(mine(5))

    @tf.function
    def step() -> None:
        hvd.broadcast_variables([variable], 0)

    step()
    assert collectives_run(step) == 1
    assert variable.numpy() == 5


def test_identical_iterations_are_all_run():
    @tf.function
    def loop(tensor: Any) -> Any:
        # The input doesn't change, so that a careless optimizer might move it out of the loop.
        result = tensor
        for _ in tf.range(5):
            result = result + hvd.allreduce(tensor, op=hvd.Sum)
        return result

    assert loop(mine(1)) == 1 + hvd.rank() + 5 * total(1)
    assert collectives_run(lambda: loop(mine(1))) == 5


def in_order_of_this_rank(items: list[Any]) -> list[Any]:
    """Return the items in an order that every rank has to itself."""
    shift = hvd.rank() * len(items) // hvd.size()
    return items[shift:] + items[:shift]


COLLECTIVES: dict[str, Callable[[Any, str], Any]] = {
    "allreduce": lambda tensor, name: hvd.allreduce(tensor, op=hvd.Sum, name=name),
    "allgather": lambda tensor, name: hvd.allgather(tensor, name=name),
    "broadcast": lambda tensor, name: hvd.broadcast(tensor, 0, name=name),
    "grouped_allreduce": lambda tensor, name: hvd.grouped_allreduce(
        [tensor, 2 * tensor], op=hvd.Sum, name=name
    )[0],
    "grouped_allgather": lambda tensor, name: hvd.grouped_allgather([tensor], name=name)[0],
    "grouped_broadcast": lambda tensor, name: hvd.grouped_broadcast([tensor], 0, name=name)[0],
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_independent_ones_overlap(collective: str):
    # Were they run one after the other, in the order in which the ranks create them, each rank
    # would wait for another.
    @tf.function
    def step(tensor: Any) -> Any:
        results = {}
        for number in in_order_of_this_rank(list(range(8))):
            results[number] = COLLECTIVES[collective](tensor + number, f"c{number}")
        return [results[number] for number in range(8)]

    for _ in range(3):
        for number, result in enumerate(step(tf.ones([2]) * (1 + hvd.rank()))):
            first = 1 + number if "broadcast" in collective else total(1 + number)
            if "gather" in collective:
                first = 1 + number
            assert result[0] == first


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_gradients_of_independent_ones_overlap(collective: str):
    @tf.function
    def step(tensors: list[Any]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = tf.constant(0.0)
            for number in in_order_of_this_rank(list(range(8))):
                output = COLLECTIVES[collective](tensors[number], f"g{number}")
                loss += tf.reduce_sum(output) * (1 + number)
        return tape.gradient(loss, tensors)

    for number, gradient in enumerate(step([tf.ones([2]) for _ in range(8)])):
        of_others = "broadcast" in collective and hvd.rank() > 0
        assert gradient[0] == (0 if of_others else hvd.size() * (1 + number))


@in_both_modes
def test_cond(mode: Callable[..., Any]):
    @mode
    def choose(flag: Any, tensor: Any) -> Any:
        return tf.cond(
            flag,
            lambda: hvd.allreduce(tensor, op=hvd.Sum),
            lambda: hvd.broadcast(tensor, 0) * hvd.allreduce(tensor, op=hvd.Max),
        )

    for _ in range(2):
        assert choose(tf.constant(True), mine(1)) == total(1)
        assert choose(tf.constant(False), mine(1)) == hvd.size()


@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_while_loop(parallel_iterations: int):
    @tf.function
    def loop(start: Any) -> Any:
        def body(step: Any, value: Any, history: Any) -> Any:
            reduced_value = hvd.allreduce(value, op=hvd.Average)
            # This one doesn't depend on the iteration before.
            gathered = hvd.allgather(tf.reshape(step + hvd.rank(), [1]))
            history = history.write(step, tf.reduce_sum(gathered))
            return step + 1, 2 * reduced_value, history

        history = tf.TensorArray(tf.int32, 20, element_shape=[])
        _, value, history = tf.while_loop(
            lambda step, *_: step < 20,
            body,
            (0, start, history),
            parallel_iterations=parallel_iterations,
        )
        return value, history.stack()

    for _ in range(3):
        value, history = loop(mine(0))
        assert value == total(0) / hvd.size() * 2**20
        np.testing.assert_array_equal(history, [total(step) for step in range(20)])


def test_loop_in_a_branch_in_a_loop():
    @tf.function
    def nest(value: Any) -> Any:
        for step in tf.range(4):
            if step % 2 == 0:
                for _ in tf.range(2):
                    value = hvd.allreduce(value, op=hvd.Average) + 1.0
            else:
                value = hvd.allreduce(value, op=hvd.Max) + 10.0
        return value

    assert nest(mine(0)) == total(0) / hvd.size() + 24


def test_function_called_again_and_again_in_another():
    @tf.function
    def inner(tensor: Any, factor: Any) -> Any:
        return hvd.allreduce(tensor * factor, op=hvd.Sum)

    @tf.function
    def outer(tensor: Any) -> Any:
        results = [inner(tensor, tf.constant(float(factor))) for factor in range(6)]
        # Another trace of the same function.
        return results, inner(tf.stack([tensor, tensor]), tf.constant(2.0))

    for _ in range(3):
        results, pair = outer(mine(1))
        np.testing.assert_array_equal(results, [factor * total(1) for factor in range(6)])
        np.testing.assert_array_equal(pair, [2 * total(1)] * 2)


def test_function_of_its_own_for_each_rank_in_another():
    @tf.function
    def double(tensor: Any) -> Any:
        return 2 * tensor

    @tf.function
    def step(tensor: Any) -> Any:
        for _ in range(hvd.rank() + 1):
            tensor = double(tensor) / 2
        return hvd.allreduce(tensor, op=hvd.Sum)

    assert step(mine(3)) == total(3)


def test_recomputed_gradient():
    @tf.function
    def step(tensor: Any) -> Any:
        inner = tf.recompute_grad(lambda x: tf.square(hvd.allreduce(x, op=hvd.Sum)))
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            loss = inner(tensor)
        return tape.gradient(loss, tensor)

    assert step(mine(1)) == 2 * total(1) * hvd.size()


def test_session():
    arrays = of_each_rank(hvd.size(), "float32", (5, 3), 1)
    with tf.Graph().as_default(), v1.Session() as session:
        tensor = v1.placeholder(tf.float32, [None, 3])
        variable = v1.get_variable("variable", initializer=mine(7), use_resource=True)
        fetches = {
            "reduced": hvd.allreduce(tensor, op=hvd.Sum),
            "gathered": hvd.allgather(tensor),
            "group": hvd.grouped_allreduce([tensor, tensor + 1], op=hvd.Max),
            "loop": tf.while_loop(
                lambda step, _: step < 3,
                lambda step, value: (step + 1, hvd.allreduce(value, op=hvd.Average) * 2),
                (0, tensor),
            )[1],
        }
        overwrite = hvd.broadcast_variables([variable], hvd.size() - 1)
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            results = session.run(fetches, {tensor: arrays[hvd.rank()]})
            assert_same_bits(results["reduced"], reduced("sum", arrays))
            assert_same_bits(results["gathered"], np.concatenate(arrays))
            assert_same_bits(results["group"][0], reduced("max", arrays))
            assert_same_bits(results["loop"], reduced("average", arrays) * 8)
        session.run(overwrite)
        assert session.run(variable) == 7 + hvd.size() - 1


def test_session_fetches_a_part_of_the_graph():
    with tf.Graph().as_default(), v1.Session() as session:
        results = [hvd.allreduce(mine(number), op=hvd.Sum) for number in range(4)]
        for number in (2, 0, 3, 2):
            assert session.run(results[number]) == total(number)


def test_graph_that_was_saved_and_loaded(tmp_path: Any):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def step(self, tensor: Any) -> Any:
            return hvd.allreduce(tensor, op=hvd.Sum), hvd.allgather(tensor[None])

    tf.saved_model.save(Module(), str(tmp_path / "module"))
    loaded = tf.saved_model.load(str(tmp_path / "module"))
    summed, gathered = loaded.step(mine(1))
    assert summed == total(1)
    np.testing.assert_array_equal(gathered, np.arange(1, 1 + hvd.size()))


def test_compiling_with_xla_says_what_to_do():
    @tf.function(jit_compile=True)
    def step(tensor: Any) -> Any:
        return hvd.allreduce(tensor) + 1

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"jit_compile=False") as caught:
        step(tf.ones([3]))
    assert "Collectives>AllReduce" in str(caught.value)
    assert hvd.allreduce(mine(0), op=hvd.Sum) == total(0)
