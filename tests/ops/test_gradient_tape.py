from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3)


def rank_sum() -> int:
    """The sum of rank + 1 over the ranks."""
    return hvd.size() * (hvd.size() + 1) // 2


def reduced_factor(op: Any) -> float:
    """What is left of a factor of rank + 1 after the reduction."""
    return rank_sum() / (hvd.size() if op is hvd.Average else 1)


def weighted(*terms: Any) -> Any:
    """Return a loss that weighs rank + 1 times as much on each rank."""
    return tf.add_n([tf.reduce_sum(term) for term in terms]) * (1.0 + hvd.rank())


@in_both_modes
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum], ids=str)
def test_gradients_are_reduced(op: Any, mode: Callable[..., Any]):
    variables = [tf.Variable([1.0, 2.0]), tf.Variable(3.0), tf.Variable(tf.ones([40, 100]))]

    @mode
    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            loss = weighted(*map(tf.square, variables))
        return hvd.DistributedGradientTape(tape, op=op).gradient(loss, variables)

    for _ in range(3):
        for gradient, variable in zip(step(), variables, strict=True):
            np.testing.assert_allclose(gradient, 2 * variable * reduced_factor(op))


@in_both_modes
def test_wrapped_tape_records_too(mode: Callable[..., Any]):
    variable = tf.Variable([1.0, 2.0])

    @mode
    def step(tensor: Any) -> Any:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            tape.watch(tensor)
            loss = weighted(tensor * variable)
        return tape.gradient(loss, {"a": variable, "b": [tensor]})

    gradients = step(tf.constant([5.0, 7.0]))
    np.testing.assert_allclose(gradients["a"], np.array([5, 7]) * reduced_factor(hvd.Average))
    np.testing.assert_allclose(gradients["b"][0], np.array([1, 2]) * reduced_factor(hvd.Average))


@in_both_modes
def test_gradient_that_is_none_stays_none(mode: Callable[..., Any]):
    used, unused = tf.Variable(2.0), tf.Variable(3.0)

    @mode
    def step() -> list[Any]:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = weighted(used)
        return tape.gradient(loss, [unused, used, unused])

    first, second, third = step()
    assert first is None
    assert third is None
    np.testing.assert_allclose(second, reduced_factor(hvd.Average))


@in_both_modes
@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_rows_of_an_embedding(sparse_as_dense: bool, mode: Callable[..., Any]):
    table, weight = tf.Variable(tf.ones([5, 2])), tf.Variable(2.0)

    @mode
    def step(words: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = weighted(tf.gather(table, words) * weight)
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense, op=hvd.Sum)
        return tape.gradient(loss, [table, weight])

    for_table, for_weight = step(tf.constant([hvd.rank(), 3, 3]))
    assert isinstance(for_table, tf.IndexedSlices) is not sparse_as_dense
    expected = np.zeros((5, 2))
    for rank in range(hvd.size()):
        for word in (rank, 3, 3):
            expected[word] += 2 * (rank + 1)
    np.testing.assert_allclose(tf.convert_to_tensor(for_table), expected)
    np.testing.assert_allclose(for_weight, 6 * rank_sum())


def test_persistent_tape():
    variable = tf.Variable(3.0)
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        square, cube = weighted(variable**2), weighted(variable**3)
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(square, variable), 6 * reduced_factor(hvd.Average))
        np.testing.assert_allclose(tape.gradient(cube, variable), 27 * reduced_factor(hvd.Average))


def test_two_tapes_in_one_function():
    variables = [tf.Variable(2.0), tf.Variable(3.0)]

    @tf.function
    def step() -> list[Any]:
        gradients = []
        for variable in variables:
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = weighted(variable**2)
            gradients.append(tape.gradient(loss, variable))
        return gradients

    for gradient, expected in zip(step(), (4, 6), strict=True):
        np.testing.assert_allclose(gradient, expected * reduced_factor(hvd.Average))


def test_jacobian_is_that_of_this_rank():
    variable = tf.Variable([1.0, 2.0])
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        output = variable * (1.0 + hvd.rank())
    np.testing.assert_allclose(tape.jacobian(output, variable), np.eye(2) * (1 + hvd.rank()))


def test_training_keeps_the_ranks_equal():
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.build((None, 4))
    hvd.broadcast_variables(model.weights, 0)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(inputs: Any) -> None:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - 1.0))
        optimizer.apply_gradients(
            zip(
                tape.gradient(loss, model.trainable_variables),
                model.trainable_variables,
                strict=True,
            )
        )

    before = [weight.copy() for weight in model.get_weights()]
    for number in range(5):
        step(tf.random.stateless_normal([6, 4], [number, hvd.rank()]))
    for weight, start in zip(model.get_weights(), before, strict=True):
        everyones = hvd.allgather(weight[None]).numpy()
        assert (everyones == everyones[0]).all()
        assert (weight != start).any()


def test_what_it_refuses():
    with pytest.raises(TypeError, match="Pass the tape itself"):
        hvd.DistributedGradientTape(lambda: None)
    with pytest.raises(ValueError, match="Average or Sum"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Max)
    with pytest.raises(ValueError, match="Wrap it once"):
        hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))
