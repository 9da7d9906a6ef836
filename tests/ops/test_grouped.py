from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.thresholds import fusion_threshold
from support.values import GATHERABLE, REDUCIBLE, SHAPES, assert_same_bits, of_each_rank, reduced

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3, 4)


def groups(dtypes: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> list[list[Any]]:
    """Return what each rank contributes, for each tensor of a group: each dtype in each shape."""
    return [
        of_each_rank(hvd.size(), dtype, shape, number)
        for number, shape in enumerate(shapes)
        for dtype in dtypes
    ]


def of_this_rank(group: list[list[Any]]) -> list[Any]:
    return [tf.constant(arrays[hvd.rank()]) for arrays in group]


@in_both_modes
def test_allreduce_of_all_dtypes_at_once(mode: Callable[..., Any]):
    group = groups(REDUCIBLE, SHAPES)
    function = mode(
        lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Average, postscale_factor=0.5)
    )
    results = function(of_this_rank(group))
    assert len(results) == len(group)
    for result, arrays in zip(results, group, strict=True):
        assert_same_bits(result, reduced("average", arrays, postscale=0.5))


@in_both_modes
def test_large_allreduce(mode: Callable[..., Any]):
    group = groups(("float32", "int32"), ((700_000,), (3,), (0,), (50_001, 2)))
    function = mode(lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Sum))
    for result, arrays in zip(function(of_this_rank(group)), group, strict=True):
        assert_same_bits(result, reduced("sum", arrays))


@in_both_modes
def test_allgather_of_all_dtypes_at_once(mode: Callable[..., Any]):
    group = groups(GATHERABLE, ((6, 2), (4,), (4, 0, 1)))
    # Rank 0 sends 2 rows, rank 1 none, rank 2 one, rank 3 two again.
    sent = [[array[: 2 - (rank * 2) % 3] for rank, array in enumerate(arrays)] for arrays in group]
    function = mode(lambda tensors: hvd.grouped_allgather(tensors))
    results = function(of_this_rank(sent))
    assert len(results) == len(sent)
    for result, arrays in zip(results, sent, strict=True):
        assert_same_bits(result, np.concatenate(arrays))


@in_both_modes
def test_allgather_of_different_numbers_of_rows(mode: Callable[..., Any]):
    sent = [
        [array[: (rank + number) % 4] for rank, array in enumerate(arrays)]
        for number, arrays in enumerate(groups(("float32",), ((3,), (3, 2), (3,), (3, 5))))
    ]
    function = mode(lambda tensors: hvd.grouped_allgather(tensors))
    for result, arrays in zip(function(of_this_rank(sent)), sent, strict=True):
        assert_same_bits(result, np.concatenate(arrays))


@in_both_modes
def test_broadcast_of_all_dtypes_at_once(mode: Callable[..., Any]):
    group = groups(GATHERABLE, SHAPES)
    for root in range(hvd.size()):
        function = mode(lambda tensors, root=root: hvd.grouped_broadcast(tensors, root))
        results = function(of_this_rank(group))
        assert len(results) == len(group)
        for result, arrays in zip(results, group, strict=True):
            assert_same_bits(result, arrays[root])


@in_both_modes
def test_group_of_one(mode: Callable[..., Any]):
    (arrays,) = group = groups(("float32",), ((3, 2),))
    tensors = of_this_rank(group)
    (result,) = mode(lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Max))(tensors)
    assert_same_bits(result, reduced("max", arrays))
    (result,) = mode(lambda tensors: hvd.grouped_allgather(tensors))(tensors)
    assert_same_bits(result, np.concatenate(arrays))
    (result,) = mode(lambda tensors: hvd.grouped_broadcast(tensors, 0))(tensors)
    assert_same_bits(result, arrays[0])


@in_both_modes
def test_group_of_none(mode: Callable[..., Any]):
    assert mode(lambda: hvd.grouped_allreduce([]))() == []
    assert mode(lambda: hvd.grouped_allgather([]))() == []
    assert mode(lambda: hvd.grouped_broadcast([], 0))() == []


def test_any_sequence_is_a_group():
    arrays = (np.float32(1), np.float32(2))
    for group in (arrays, list(arrays), np.array(arrays)):
        results = hvd.grouped_allreduce(group, op=hvd.Average)
        assert [float(result) for result in results] == [1, 2]


@pytest.mark.parametrize("threshold", [0, 100, 1 << 20])
def test_group_is_sent_as_one_batch_per_dtype(threshold: int):
    group = groups(("float32", "float64"), ((1000,), (3,), (2, 2)))
    with fusion_threshold(threshold):
        hvd.fusion.reset_statistics()
        results = hvd.grouped_allreduce(of_this_rank(group), op=hvd.Sum)
    for result, arrays in zip(results, group, strict=True):
        assert_same_bits(result, reduced("sum", arrays))
    statistics = hvd.fusion.statistics()
    assert (statistics.tensors, statistics.batches) == (6, 2)
