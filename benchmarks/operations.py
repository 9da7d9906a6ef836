"""The operations behind the rows, each checked once for the right result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from adapters import Adapter
from rows import MEASURED, MEMCPY, Row, resnet50_shapes, small_shapes

Operation = Callable[[], Any]


def prepare(package: Adapter, row: Row) -> dict[str, Operation]:
    """Everything that the row times, by name: the operation, its baseline, the floor."""
    kind = row.key.split("_")[0]
    operations: dict[str, Operation] = BUILDERS[kind](package, row)
    if row.has_floor:
        operations[MEMCPY] = memcpy(row.payload)
    return operations


def memcpy(size: int) -> Operation:
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return lambda: np.copyto(target, source)


def own_values(package: Adapter, shape: tuple[int, ...]) -> tf.Tensor:
    return tf.constant(np.full(shape, package.rank + 1, np.float32))


def vector(package: Adapter, row: Row) -> tf.Tensor:
    return own_values(package, (row.payload // 4,))


def expect(result: tf.Tensor, value: float) -> None:
    values = result.numpy()
    if not np.allclose(values, value):
        raise AssertionError(f"wrong result: {values.ravel()[:4]} instead of {value}")


def rank_sum(package: Adapter) -> int:
    return package.size * (package.size + 1) // 2


def allreduce(package: Adapter, row: Row) -> dict[str, Operation]:
    tensor = vector(package, row)
    reduce = package.eager(lambda: package.allreduce(tensor, row.key))
    expect(reduce(), rank_sum(package))
    operations = {MEASURED: reduce}
    if row.baseline:
        operations[row.baseline] = lambda: tf.identity(tensor)
    return operations


def chain(package: Adapter, row: Row) -> dict[str, Operation]:
    links = 10

    def body(tensor: tf.Tensor) -> tf.Tensor:
        for link in range(links):
            tensor = package.allreduce(tensor, f"{row.key}_{link}")
        return tensor

    tensor, function = vector(package, row), package.function(body)
    expect(function(tensor), rank_sum(package) * package.size ** (links - 1))
    return {MEASURED: lambda: function(tensor)}


def gradients(shapes: list[tuple[int, ...]], package: Adapter, row: Row) -> dict[str, Operation]:
    tensors = [own_values(package, shape) for shape in shapes]

    # All results are returned, because a stateless op that nothing consumes is pruned.
    def body() -> list[tf.Tensor]:
        return [
            package.allreduce(tensor, f"{row.key}_{i}", average=True)
            for i, tensor in enumerate(tensors)
        ]

    function = package.function(body)
    for result in function():
        expect(result, rank_sum(package) / package.size)
    return {MEASURED: function}


def broadcast(package: Adapter, row: Row) -> dict[str, Operation]:
    tensor = vector(package, row)
    send = package.eager(lambda: package.broadcast(tensor, row.key))
    expect(send(), 1)
    return {MEASURED: send}


def allgather(package: Adapter, row: Row) -> dict[str, Operation]:
    tensor = vector(package, row)
    gather = package.eager(lambda: package.allgather(tensor, row.key))
    for rank, part in enumerate(tf.split(gather(), package.size)):
        expect(part, rank + 1)
    return {MEASURED: gather}


def training(package: Adapter, row: Row) -> dict[str, Operation]:
    """A CNN of 108,618 parameters in 8 variables, on 64 images of 28 x 28 per rank."""
    same_weights = np.random.default_rng(0)
    shapes = (
        (3, 3, 1, 16),
        (16,),
        (3, 3, 16, 32),
        (32,),
        (5 * 5 * 32, 128),
        (128,),
        (128, 10),
        (10,),
    )
    variables = [
        tf.Variable(0.05 * same_weights.standard_normal(shape, np.float32)) for shape in shapes
    ]
    own_data = np.random.default_rng(package.rank + 1)
    images = tf.constant(own_data.standard_normal((64, 28, 28, 1), np.float32))
    labels = tf.constant(own_data.integers(0, 10, 64))

    def loss_of(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        filters1, bias1, filters2, bias2, dense1, bias3, dense2, bias4 = variables
        hidden = tf.nn.max_pool2d(
            tf.nn.relu(tf.nn.conv2d(images, filters1, 1, "VALID") + bias1), 2, 2, "VALID"
        )
        hidden = tf.nn.max_pool2d(
            tf.nn.relu(tf.nn.conv2d(hidden, filters2, 1, "VALID") + bias2), 2, 2, "VALID"
        )
        hidden = tf.nn.relu(tf.reshape(hidden, (-1, 5 * 5 * 32)) @ dense1 + bias3)
        logits = hidden @ dense2 + bias4
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def step(images: tf.Tensor, labels: tf.Tensor, *, reduced: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(images, labels)
        if reduced:
            gradients = package.gradient(tape, loss, variables)
        else:
            gradients = tape.gradient(loss, variables)
        for i, gradient in enumerate(gradients):
            variables[i].assign_sub(1e-4 * gradient)
        return loss

    with_reduction = package.function(lambda *batch: step(*batch, reduced=True))
    without = package.function(lambda *batch: step(*batch, reduced=False))
    with_reduction(images, labels)
    weights = package.eager(
        lambda: package.allgather(tf.reshape(variables[4], (1, -1)), "weights")
    )().numpy()
    if not (weights == weights[0]).all() or np.isclose(weights[0].std(), 0):
        raise AssertionError("the ranks' weights differ after one step with reduced gradients")
    return {
        MEASURED: lambda: with_reduction(images, labels),
        row.baseline: lambda: without(images, labels),
    }


BUILDERS: dict[str, Callable[[Adapter, Row], dict[str, Operation]]] = {
    "allreduce": allreduce,
    "chain": chain,
    "resnet50": lambda package, row: gradients(resnet50_shapes(), package, row),
    "small": lambda package, row: gradients(small_shapes(), package, row),
    "broadcast": broadcast,
    "allgather": allgather,
    "training": training,
}
