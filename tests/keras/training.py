"""A model small enough to be trained by NumPy as well, which is how its weights are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = 8
FEATURES = 3
LEARNING_RATE = 0.1

# Keras converts variables in a way that NumPy 2 complains of.
ignore_warnings_of_keras = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)


def data(rank: int, examples: int = EXAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one rank, different from those of the others."""
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((examples, FEATURES)).astype(np.float32)
    y = rng.standard_normal((examples, 1)).astype(np.float32)
    return x, y


def linear_model(**arguments: Any) -> keras.Model:
    """Return a model of one dense layer, with the same weights on all ranks."""
    model = keras.Sequential(
        [
            keras.layers.Input((FEATURES,)),
            keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="ones"),
        ],
        **arguments,
    )
    assert len(model.trainable_variables) == 2
    return model


def start() -> list[np.ndarray]:
    """The weights of `linear_model` before training."""
    return [np.ones((FEATURES, 1)), np.ones(1)]


def gradients(
    weights: Sequence[np.ndarray], batch: tuple[np.ndarray, np.ndarray]
) -> list[np.ndarray]:
    """The gradients of the mean squared error."""
    x, y = (part.astype(np.float64) for part in batch)
    slope = 2 * (x @ weights[0] + weights[1] - y) / len(x)
    return [x.T @ slope, slope.sum(axis=0)]


def reduced_gradients(
    weights: Sequence[np.ndarray], divide: bool = True, examples: int = EXAMPLES
) -> list[np.ndarray]:
    """The gradients of all ranks' data, averaged or summed over ranks."""
    all_ranks = [gradients(weights, data(rank, examples)) for rank in range(hvd.size())]
    summed = [sum(parts) for parts in zip(*all_ranks, strict=True)]
    return [g / hvd.size() for g in summed] if divide else summed


def descend(
    steps: int, learning_rate: float = LEARNING_RATE, divide: bool = True
) -> list[np.ndarray]:
    """The weights after some steps of plain gradient descent on the data of all ranks."""
    weights = start()
    for _ in range(steps):
        reduced = reduced_gradients(weights, divide)
        weights = [w - learning_rate * g for w, g in zip(weights, reduced, strict=True)]
    return weights


def number(variable: Any) -> float:
    """Return the value of a scalar of Keras, as its older versions can't do by int() or float()."""
    return variable.numpy().item()


def assert_weights(model: keras.Model, expected: Sequence[np.ndarray]) -> None:
    """Check the weights against expected ones, and for equality between the ranks."""
    assert_equal_on_all_ranks(model.get_weights())
    for found, wanted in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def assert_equal_on_all_ranks(arrays: Sequence[Any]) -> None:
    """Check that all ranks hold the same bits."""
    for i, array in enumerate(arrays):
        mine = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        everyone = hvd.allgather(mine, name=f"assert_equal_on_all_ranks/{i}").numpy()
        assert everyone.size == mine.size * hvd.size()
        assert (everyone.reshape(hvd.size(), -1) == mine).all()
