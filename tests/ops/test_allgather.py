from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import GATHERABLE, assert_same_bits, random

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3, 4)


def rows_of_each_rank(dtype: str, rows: list[int], rest: tuple[int, ...]) -> list[Any]:
    return [random(dtype, (count, *rest), rank) for rank, count in enumerate(rows[: hvd.size()])]


def check(arrays: list[Any], mode: Callable[..., Any]) -> None:
    gather = mode(lambda tensor: hvd.allgather(tensor))
    assert_same_bits(gather(tf.constant(arrays[hvd.rank()])), np.concatenate(arrays))


@in_both_modes
@pytest.mark.parametrize("dtype", GATHERABLE)
def test_values(dtype: str, mode: Callable[..., Any]):
    for rest in ((), (3,), (1, 5, 2)):
        check(rows_of_each_rank(dtype, [4, 4, 4, 4], rest), mode)
        check(rows_of_each_rank(dtype, [3, 1, 5, 2], rest), mode)


@in_both_modes
@pytest.mark.parametrize(
    "rows", [[0, 2, 0, 3], [2, 0, 1, 0], [0, 0, 0, 4], [5, 0, 0, 0], [0, 0, 0, 0]], ids=str
)
def test_ranks_without_rows(rows: list[int], mode: Callable[..., Any]):
    check(rows_of_each_rank("float32", rows, (7,)), mode)
    check(rows_of_each_rank("int8", rows, ()), mode)


def test_rows_without_elements():
    check(rows_of_each_rank("float32", [2, 3, 0, 1], (4, 0)), lambda function: function)


@in_both_modes
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
def test_one_rank_has_much_and_the_others_little(dtype: str, mode: Callable[..., Any]):
    for rows in ([1, 40_000, 0, 3], [300_000, 1, 2, 0], [0, 1, 2, 300_001]):
        check(rows_of_each_rank(dtype, rows, (5,)), mode)


@pytest.mark.parametrize("cut", [128 << 10, 256 << 10, 4 << 20])
def test_sizes_around_a_cut(cut: int):
    for rows in ([cut - 1, cut, cut + 1, 1], [cut, cut, cut, cut]):
        check(rows_of_each_rank("uint8", rows, ()), lambda function: function)


@in_both_modes
def test_sizes_may_change_from_call_to_call(mode: Callable[..., Any]):
    gather = mode(lambda tensor: hvd.allgather(tensor, name="changing"))
    for step in range(12):
        arrays = [
            random("float32", ((step * (rank + 1)) % 5, 2), step, rank)
            for rank in range(hvd.size())
        ]
        # One trace serves all sizes.
        tensor = tf.constant(arrays[hvd.rank()])
        assert_same_bits(gather(tensor), np.concatenate(arrays))


def test_same_sizes_again_after_others():
    for rows in ([2, 2, 2, 2], [1, 3, 1, 3], [2, 2, 2, 2], [1, 3, 1, 3], [2, 2, 2, 2]):
        arrays = rows_of_each_rank("int64", rows, (2,))
        assert_same_bits(
            hvd.allgather(arrays[hvd.rank()], name="alternating"), np.concatenate(arrays)
        )


def test_one_rank_changes_its_size_and_the_others_do_not():
    for step in range(6):
        rows = [3] * hvd.size()
        rows[step % hvd.size()] = step
        arrays = rows_of_each_rank("float32", rows, (2,))
        assert_same_bits(
            hvd.allgather(arrays[hvd.rank()], name="one changes"), np.concatenate(arrays)
        )


@in_both_modes
def test_scalar_is_refused(mode: Callable[..., Any]):
    # A graph's shape function sees it first, and TensorFlow makes a ValueError of that.
    with pytest.raises(
        (tf.errors.InvalidArgumentError, ValueError), match=r"scalar|at least rank 1"
    ):
        mode(lambda: hvd.allgather(3.0))()


def test_scalar_of_unknown_rank_is_refused_when_it_runs():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def gather(tensor: Any) -> Any:
        return hvd.allgather(tensor)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"scalar.*Reshape it to \[1\]"):
        gather(3.0)
    assert_same_bits(gather([3.0]), np.full(hvd.size(), 3, np.float32))


def test_shape_in_a_graph_leaves_the_first_dimension_open():
    @tf.function(input_signature=[tf.TensorSpec([2, None, 3], tf.float32)])
    def gather(tensor: Any) -> Any:
        result = hvd.allgather(tensor)
        assert result.shape.as_list() == [None, None, 3]
        return result

    assert gather(np.zeros((2, 1, 3), np.float32)).shape == (2 * hvd.size(), 1, 3)


def test_string_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="string"):
        hvd.allgather(["text"])
