"""`tf.IndexedSlices`, the gradients of embeddings, are reduced by gathering their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import random

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3)

ROWS = 6

# Of rank 0, 1 and 2: with an index twice, in no order, and none at all.
INDICES = ([4, 1, 4], [1, 0], [])


def slices(rank: int, dtype: str = "float64", number: int = 0) -> tf.IndexedSlices:
    indices = INDICES[(rank + number) % 3]
    values = random(dtype, (len(indices), 2), number, rank)
    return tf.IndexedSlices(
        tf.constant(values), tf.constant(indices, tf.int64), tf.constant([ROWS, 2], tf.int64)
    )


def dense(rank: int, dtype: str = "float64", number: int = 0) -> Any:
    return tf.convert_to_tensor(slices(rank, dtype, number)).numpy()


def sum_of_ranks(dtype: str = "float64", number: int = 0) -> Any:
    return sum(dense(rank, dtype, number) for rank in range(hvd.size()))


@in_both_modes
@pytest.mark.parametrize("name", [None, "embedding"])
def test_sum_and_average(name: str | None, mode: Callable[..., Any]):
    for op, divisor in ((hvd.Sum, 1), (hvd.Average, hvd.size())):
        result = mode(lambda s, op=op: hvd.allreduce(s, op=op, name=name))(slices(hvd.rank()))
        assert isinstance(result, tf.IndexedSlices)
        np.testing.assert_allclose(tf.convert_to_tensor(result), sum_of_ranks() / divisor)


@in_both_modes
def test_factors(mode: Callable[..., Any]):
    reduce_it = mode(
        lambda s: hvd.allreduce(s, op=hvd.Sum, prescale_factor=0.3, postscale_factor=1.7)
    )
    result = tf.convert_to_tensor(reduce_it(slices(hvd.rank())))
    np.testing.assert_allclose(result, sum_of_ranks() * 0.3 * 1.7)


def test_each_rank_sends_a_row_once():
    twice = tf.IndexedSlices(tf.ones([4, 2]), tf.constant([3, 3, 3, 5]), tf.constant([ROWS, 2]))
    result = hvd.allreduce(twice, op=hvd.Sum)
    np.testing.assert_array_equal(result.indices, [3, 5] * hvd.size())
    np.testing.assert_array_equal(result.values, [[3, 3], [1, 1]] * hvd.size())


@in_both_modes
def test_group_with_dense_ones(mode: Callable[..., Any]):
    def group() -> list[Any]:
        dense_tensor = tf.constant([1.0, 2.0]) * (1 + hvd.rank())
        return [slices(hvd.rank()), dense_tensor, slices(hvd.rank(), "float32", 1)]

    results = mode(lambda: hvd.grouped_allreduce(group(), op=hvd.Sum))()
    factor = hvd.size() * (hvd.size() + 1) / 2
    np.testing.assert_allclose(tf.convert_to_tensor(results[0]), sum_of_ranks())
    np.testing.assert_array_equal(results[1], [factor, 2 * factor])
    np.testing.assert_allclose(
        tf.convert_to_tensor(results[2]), sum_of_ranks("float32", 1), rtol=1e-6
    )


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product], ids=str)
def test_other_reductions_are_refused(op: Any):
    with pytest.raises(ValueError, match="only Average and Sum"):
        hvd.allreduce(slices(hvd.rank()), op=op)


def test_integers_are_summed_and_not_averaged():
    result = hvd.allreduce(slices(hvd.rank(), "int64"), op=hvd.Sum)
    np.testing.assert_array_equal(tf.convert_to_tensor(result), sum_of_ranks("int64"))
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="op=Sum"):
            hvd.allreduce(slices(hvd.rank(), "int64"), op=hvd.Average)
