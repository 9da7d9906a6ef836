"""A result has the same bits on all ranks, however its tensor travelled."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.thresholds import fusion_threshold
from support.values import assert_same_bits, dtype_of, of_each_rank, reduced

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (2, 3, 4)

DTYPES = ("float16", "bfloat16", "float32", "float64")
LENGTHS = (0, 1, 3, 100, 1023, 4097, 40_000, 33, 200_001, 7)


def contributions() -> list[list[Any]]:
    """Numbers of very different size, so that another order of addition shows."""
    data = []
    for number, length in enumerate(LENGTHS):
        for dtype in DTYPES:
            arrays = of_each_rank(hvd.size(), "float64", (length,), number)
            exponents = of_each_rank(hvd.size(), "int8", (length,), number)
            data.append(
                [
                    (a * 2.0 ** (e % 12)).astype(dtype_of(dtype))
                    for a, e in zip(arrays, exponents, strict=True)
                ]
            )
    return data


def one_by_one(tensors: list[Any], op: Any) -> list[Any]:
    return [hvd.allreduce(tensor, op=op) for tensor in tensors]


def all_at_once(tensors: list[Any], op: Any) -> list[Any]:
    return tf.function(one_by_one)(tensors, op)


def in_another_order(tensors: list[Any], op: Any) -> list[Any]:
    @tf.function
    def step(tensors: list[Any]) -> dict[int, Any]:
        order = np.random.default_rng(hvd.rank()).permutation(len(tensors))
        return {int(i): hvd.allreduce(tensors[i], op=op, name=f"t{i}") for i in order}

    results = step(tensors)
    return [results[i] for i in range(len(tensors))]


def as_a_group(tensors: list[Any], op: Any) -> list[Any]:
    return hvd.grouped_allreduce(tensors, op=op)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average, hvd.Product], ids=str)
@pytest.mark.parametrize("threshold", [0, 5000, 128 << 20])
def test_bits_do_not_depend_on_fusion(threshold: int, op: Any):
    data = contributions()
    tensors = [tf.constant(arrays[hvd.rank()]) for arrays in data]
    expected = [reduced(op.value, arrays) for arrays in data]
    ways: list[Callable[..., list[Any]]] = [one_by_one, all_at_once, in_another_order, as_a_group]
    with fusion_threshold(threshold):
        for way in ways:
            for result, bits in zip(way(tensors, op), expected, strict=True):
                assert_same_bits(result, bits)


def test_all_ranks_have_the_same_bits():
    tensors = [tf.constant(arrays[hvd.rank()]) for arrays in contributions()]
    digest = hashlib.sha256()
    for result in all_at_once(tensors, hvd.Average):
        digest.update(result.numpy().tobytes())
    digests = hvd.allgather(np.frombuffer(digest.digest(), np.uint8)[None]).numpy()
    assert (digests == digests[0]).all()


def test_same_bits_again_and_again():
    tensors = [tf.constant(arrays[hvd.rank()]) for arrays in contributions()]
    step = tf.function(one_by_one)
    first = [result.numpy() for result in step(tensors, hvd.Sum)]
    for _ in range(20):
        for result, bits in zip(step(tensors, hvd.Sum), first, strict=True):
            assert_same_bits(result, bits)
