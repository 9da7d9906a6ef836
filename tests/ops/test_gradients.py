"""The gradient of a collective is that of the sum over ranks of each rank's loss.

So it is compared with what that sum changes by when one element on one rank changes a little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import random

import tf_collectives as hvd
from tf_collectives.errors import NonDifferentiableError

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 3)

EPSILON = 1e-5


def last_rank() -> int:
    return hvd.size() - 1


def rows(tensor: Any, offset: int = 0) -> Any:
    """Return as many rows as other ranks don't: of 3, all on rank 0, 2 on rank 1, 1 on rank 2."""
    return tensor[: 3 - (hvd.rank() + offset) % 4]


def in_branches(x: Any) -> Any:
    # All ranks take the same branch.
    return tf.cond(
        hvd.allreduce(x, op=hvd.Sum)[0, 0] < 1e9,
        lambda: hvd.allreduce(tf.sin(x), op=hvd.Average),
        lambda: hvd.allreduce(x, op=hvd.Average),
    )


def in_a_loop(x: Any) -> Any:
    def body(step: Any, value: Any) -> Any:
        return step + 1, tf.sin(hvd.allreduce(value, op=hvd.Average) + x)

    return tf.while_loop(lambda step, _: step < 3, body, (0, x), maximum_iterations=3)[1]


@tf.function
def nested(x: Any) -> Any:
    return hvd.allreduce(tf.sin(x), op=hvd.Average)


# From the inputs x and y, of shape [3, 2], to what a loss is computed from.
COLLECTIVES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "sum": lambda x, y: [hvd.allreduce(x * y, op=hvd.Sum)],
    "average": lambda x, y: [hvd.allreduce(x * y)],
    "scaled sum": lambda x, y: [
        hvd.allreduce(x * y, op=hvd.Sum, prescale_factor=0.3, postscale_factor=-1.7)
    ],
    "scaled average": lambda x, y: [
        hvd.allreduce(x * y, prescale_factor=0.3, postscale_factor=-1.7)
    ],
    "allgather": lambda x, y: [hvd.allgather(rows(x * y))],
    "broadcast": lambda x, y: [hvd.broadcast(x * y, last_rank())],
    "grouped sum": lambda x, y: hvd.grouped_allreduce([x, y[0], x * y], op=hvd.Sum),
    "grouped average": lambda x, y: hvd.grouped_allreduce([x, y], postscale_factor=3),
    "grouped allgather": lambda x, y: hvd.grouped_allgather([rows(x), rows(y[:, 0], 1)]),
    "grouped broadcast": lambda x, y: hvd.grouped_broadcast([x, y[0], x * y], last_rank()),
    "part of a group": lambda x, y: hvd.grouped_allreduce([x, y, x * y], op=hvd.Sum)[1:2],
    "group with integers": lambda x, y: hvd.grouped_allreduce([x, tf.constant([1, 2]), y])[::2],
    "gather of rows": lambda x, y: [
        tf.gather(hvd.allreduce(x, op=hvd.Sum), [0, 2, 0]),
        tf.gather(hvd.broadcast(y, 0), [1]),
        tf.gather(hvd.allgather(x), [1, 1]),
    ],
    "one after another": lambda x, y: [
        hvd.broadcast(tf.sin(hvd.allgather(tf.sin(hvd.allreduce(x)) + y)), 0)
    ],
    "cond": lambda x, y: [in_branches(x * y)],
    "while_loop": lambda x, y: [in_a_loop(x * y)],
    "nested function": lambda x, y: [nested(x), nested(y)],
}


def loss_of(outputs: list[Any]) -> Any:
    """Return a number that depends on each element in another way, on each rank too."""
    loss = 0.0
    for number, output in enumerate(outputs):
        phase = tf.reshape(tf.range(tf.size(output)), tf.shape(output))
        phase = tf.cast(phase + 5 * number + hvd.rank(), tf.float64)
        if output.dtype.is_complex:
            loss += tf.reduce_sum(tf.sin(tf.math.real(output) + phase) * tf.math.imag(output))
        else:
            loss += tf.reduce_sum(tf.sin(output + phase))
    return loss


def inputs(dtype: str = "float64") -> list[Any]:
    return [random(dtype, (3, 2), number, hvd.rank()) for number in range(2)]


def by_finite_differences(loss: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
    @tf.function
    def total(tensors: list[Any]) -> Any:
        return hvd.allreduce(loss(tensors), op=hvd.Sum, name="total")

    def moved(rank: int, number: int, index: tuple[int, ...], distance: complex) -> Any:
        changed = [value.copy() for value in values]
        if rank == hvd.rank():
            changed[number][index] += distance
        return total([tf.constant(value) for value in changed]).numpy()

    gradients = [np.zeros_like(value) for value in values]
    for rank in range(hvd.size()):
        for number, value in enumerate(values):
            for index in np.ndindex(value.shape):
                for unit in (1, 1j) if value.dtype.kind == "c" else (1,):
                    up = moved(rank, number, index, EPSILON * unit)
                    down = moved(rank, number, index, -EPSILON * unit)
                    if rank == hvd.rank():
                        gradients[number][index] += unit * (up - down) / (2 * EPSILON)
    return gradients


def gradient_of(loss: Callable[[list[Any]], Any], tensors: list[Any]) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = loss(tensors)
    return tape.gradient(result, tensors, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def check(loss: Callable[[list[Any]], Any], values: list[Any]) -> None:
    expected = by_finite_differences(loss, values)
    tensors = [tf.constant(value) for value in values]
    in_graph = tf.function(lambda tensors: gradient_of(loss, tensors))
    assert_close(gradient_of(loss, tensors), expected)
    assert_close(in_graph(tensors), expected)


def assert_close(gradients: list[Any], expected: list[Any]) -> None:
    for actual, by_differences in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual, by_differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_gradient(collective: str):
    check(lambda tensors: loss_of(COLLECTIVES[collective](*tensors)), inputs())


@pytest.mark.parametrize(
    "collective", ["scaled average", "allgather", "broadcast", "grouped sum", "grouped allgather"]
)
def test_gradient_of_the_gradient(collective: str):
    def loss(tensors: list[Any]) -> Any:
        gradients = gradient_of(lambda t: loss_of(COLLECTIVES[collective](*t)), tensors)
        return loss_of(gradients)

    check(loss, inputs())


@pytest.mark.parametrize("collective", ["allgather", "broadcast", "grouped allgather"])
def test_gradient_of_complex_numbers(collective: str):
    check(lambda tensors: loss_of(COLLECTIVES[collective](*tensors)), inputs("complex128"))


def test_gradient_in_a_session():
    values = inputs()

    def loss(tensors: list[Any]) -> Any:
        return loss_of(COLLECTIVES["one after another"](*tensors))

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = [tf.constant(value) for value in values]
        gradients = session.run(tf.compat.v1.gradients(loss(tensors), tensors))
    assert_close(gradients, by_finite_differences(loss, values))


@in_both_modes
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_gradient_has_the_dtype_of_the_input(dtype: tf.DType, mode: Callable[..., Any]):
    def loss(tensors: list[Any]) -> Any:
        (tensor,) = tensors
        outputs = (hvd.allreduce(tensor, op=hvd.Sum), hvd.broadcast(tensor, 0))
        return tf.add_n([tf.reduce_sum(2 * output) for output in outputs])

    (gradient,) = mode(lambda tensor: gradient_of(loss, [tensor]))(tf.ones([3], dtype))
    assert gradient.dtype == dtype
    from_broadcast = 2 * hvd.size() if hvd.rank() == 0 else 0
    np.testing.assert_array_equal(gradient.numpy().astype(float), 2 * hvd.size() + from_broadcast)


@in_both_modes
@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product], ids=str)
def test_reductions_without_a_gradient_say_so(op: Any, mode: Callable[..., Any]):
    for reduce_it in (
        lambda tensor: hvd.allreduce(tensor, op=op),
        lambda tensor: hvd.grouped_allreduce([tensor, tensor], op=op)[1],
    ):
        with pytest.raises(NonDifferentiableError, match=f"op={op} has no gradient"):
            mode(lambda t, f=reduce_it: gradient_of(lambda ts: f(ts[0]), [t]))(tf.ones([2]))
        # As does nothing where the gradient isn't asked for.
        assert mode(reduce_it)(tf.ones([2])).shape == [2]


def test_every_gradient_is_computed_where_one_rank_needs_none_of_it():
    # The others' losses depend on this rank's input all the same.
    @tf.function
    def gradient(tensor: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            output = hvd.allreduce(tensor, op=hvd.Sum)
            loss = tf.reduce_sum(output) * float(hvd.rank())
        return tape.gradient(loss, tensor)

    total = sum(range(hvd.size()))
    np.testing.assert_array_equal(gradient(tf.ones([3])), np.full(3, total, np.float32))
