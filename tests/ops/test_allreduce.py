from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import (
    REDUCIBLE,
    REDUCTIONS,
    SHAPES,
    assert_same_bits,
    dtype_of,
    of_each_rank,
    random,
    reduced,
)

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3, 4)

OPS = dict(zip(REDUCTIONS, (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product), strict=True))

# Around the sizes, in bytes, at which the algorithm changes or a chunk ends.
CUTS = (16 << 10, 32 << 10, 128 << 10, 256 << 10, 1 << 20)


def of_this_rank(arrays: list[Any]) -> Any:
    return arrays[hvd.rank()]


@in_both_modes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_values(dtype: str, reduction: str, mode: Callable[..., Any]):
    data = [of_each_rank(hvd.size(), dtype, shape, i) for i, shape in enumerate(SHAPES)]

    @mode
    def reduce_all(tensors: list[Any]) -> list[Any]:
        return [hvd.allreduce(tensor, op=OPS[reduction]) for tensor in tensors]

    results = reduce_all([tf.constant(of_this_rank(arrays)) for arrays in data])
    for result, arrays in zip(results, data, strict=True):
        assert_same_bits(result, reduced(reduction, arrays))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("cut", CUTS)
def test_sizes_around_a_cut(cut: int, dtype: str):
    elements = cut // dtype_of(dtype).itemsize
    for count in (elements - 1, elements, elements + 1):
        arrays = of_each_rank(hvd.size(), dtype, (count,), count)
        assert_same_bits(
            hvd.allreduce(of_this_rank(arrays), op=hvd.Average), reduced("average", arrays)
        )


@in_both_modes
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_more_than_four_mebibytes(dtype: str, mode: Callable[..., Any]):
    arrays = of_each_rank(hvd.size(), dtype, ((9 << 20) // 4 + 3, 2), 0)
    function = mode(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum))
    assert_same_bits(function(tf.constant(of_this_rank(arrays))), reduced("sum", arrays))


@in_both_modes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_scale_factors(dtype: str, reduction: str, mode: Callable[..., Any]):
    # Neither is exact in single precision.
    factors = {"prescale_factor": 0.3, "postscale_factor": 1.7}
    for count in (1, 1000, 40000):
        arrays = of_each_rank(hvd.size(), dtype, (count,), count)
        function = mode(lambda tensor: hvd.allreduce(tensor, op=OPS[reduction], **factors))
        assert_same_bits(
            function(tf.constant(of_this_rank(arrays))), reduced(reduction, arrays, 0.3, 1.7)
        )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_average_of_integers_truncates_toward_zero(dtype: str):
    # The sum is one less than a multiple of the size in its absolute value.
    first = np.array([2 * hvd.size() - 1, 1 - 2 * hvd.size()], dtype)
    result = hvd.allreduce(first if hvd.rank() == 0 else np.zeros(2, dtype), op=hvd.Average)
    expected = [1, -1] if hvd.size() > 1 else first
    assert_same_bits(result, np.array(expected, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_average_of_integers_does_not_overflow(dtype: str):
    limits = np.iinfo(dtype)
    extremes = np.array([limits.min, limits.max], dtype)
    assert_same_bits(hvd.allreduce(extremes, op=hvd.Average), extremes)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_rounded_once(dtype: str):
    kind = dtype_of(dtype)
    # To the first rank's value any other's is lost, unless they are added up before it is rounded.
    large = kind.type(2048 if dtype == "float16" else 256)
    values = [large] + [kind.type(1)] * (hvd.size() - 1)
    result = hvd.allreduce(np.array([of_this_rank(values)]), op=hvd.Sum)
    assert_same_bits(result, np.array([float(large) + hvd.size() - 1]).astype(kind))


def test_average_of_float16_does_not_overflow():
    largest = np.array([np.finfo(np.float16).max])
    assert_same_bits(hvd.allreduce(largest, op=hvd.Average), largest)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nan_and_infinity_of_any_rank_reach_all(reduction: str, dtype: str):
    for special in (np.nan, np.inf, -np.inf):
        for source in range(hvd.size()):
            arrays = of_each_rank(hvd.size(), dtype, (37,), 5)
            arrays[source][3] = special
            result = hvd.allreduce(of_this_rank(arrays), op=OPS[reduction])
            np.testing.assert_array_equal(
                result.numpy().astype(float), reduced(reduction, arrays).astype(float)
            )


@pytest.mark.parametrize("count", [5, 50000, 2_000_000])
def test_in_place_and_not(count: int):
    arrays = of_each_rank(hvd.size(), "float32", (count,), count)
    doubled = [array * np.float32(2) for array in arrays]

    @tf.function
    def in_place(tensor: Any) -> Any:
        return hvd.allreduce(tensor * 2, op=hvd.Sum)

    @tf.function
    def apart(tensor: Any) -> Any:
        double = tensor * 2
        return double, hvd.allreduce(double, op=hvd.Sum)

    tensor = tf.constant(of_this_rank(arrays))
    assert_same_bits(in_place(tensor), reduced("sum", doubled))
    before, after = apart(tensor)
    assert_same_bits(before, of_this_rank(doubled))
    assert_same_bits(after, reduced("sum", doubled))
    assert_same_bits(tensor, of_this_rank(arrays))


@in_both_modes
def test_what_it_reads_is_left_alone(mode: Callable[..., Any]):
    arrays = of_each_rank(hvd.size(), "float32", (3000,), 1)
    variable = tf.Variable(of_this_rank(arrays))
    tensor = tf.constant(of_this_rank(arrays))

    @mode
    def reduce_them() -> Any:
        constant = tf.constant(of_this_rank(arrays))
        return [hvd.allreduce(each, op=hvd.Sum) for each in (variable, constant, tensor)]

    for _ in range(2):
        for result in reduce_them():
            assert_same_bits(result, reduced("sum", arrays))
        assert_same_bits(variable, of_this_rank(arrays))
        assert_same_bits(tensor, of_this_rank(arrays))


def test_whatever_converts_to_a_tensor_is_accepted():
    expected = np.array([2.0, 4.0], np.float32)
    for value in (
        [2.0, 4.0],
        (2.0, 4.0),
        expected,
        tf.constant(expected),
        tf.Variable(expected),
        keras.Variable(expected),
    ):
        assert_same_bits(hvd.allreduce(value, op=hvd.Average), expected)
    assert_same_bits(hvd.allreduce(3.0, op=hvd.Max), np.float32(3))


@in_both_modes
def test_non_contiguous_array(mode: Callable[..., Any]):
    arrays = [array.T[::2] for array in of_each_rank(hvd.size(), "float32", (6, 10), 1)]
    function = mode(lambda tensor: hvd.allreduce(tensor, op=hvd.Max))
    assert_same_bits(function(of_this_rank(arrays)), reduced("max", arrays))


def test_shape_is_known_as_far_as_it_was():
    signature = [tf.TensorSpec([None, 3], tf.float32)]

    @tf.function(input_signature=signature)
    def reduce_rows(tensor: Any) -> Any:
        result = hvd.allreduce(tensor, op=hvd.Sum)
        assert result.shape.as_list() == [None, 3]
        return result

    for rows in (0, 1, 5):
        arrays = of_each_rank(hvd.size(), "float32", (rows, 3), rows)
        assert_same_bits(reduce_rows(of_this_rank(arrays)), reduced("sum", arrays))


def test_average_is_the_default():
    arrays = of_each_rank(hvd.size(), "float64", (4,), 1)
    assert_same_bits(hvd.allreduce(of_this_rank(arrays)), reduced("average", arrays))


@pytest.mark.parametrize("average", [True, False])
def test_deprecated_argument(average: bool):
    arrays = of_each_rank(hvd.size(), "float64", (4,), 1)
    with pytest.warns(DeprecationWarning, match="op=Average or op=Sum"):
        result = hvd.allreduce(of_this_rank(arrays), average)
    assert_same_bits(result, reduced("average" if average else "sum", arrays))
    with pytest.raises(ValueError, match="average and op"):
        hvd.allreduce(of_this_rank(arrays), average, op=hvd.Sum)


@in_both_modes
@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint32", "uint64", "bool", "complex64"])
def test_other_dtypes_are_refused(dtype: str, mode: Callable[..., Any]):
    # In a graph TensorFlow itself says so while the function is traced.
    refused = (tf.errors.InvalidArgumentError, TypeError)
    with pytest.raises(refused, match=re.escape(dtype)):
        mode(lambda tensor: hvd.allreduce(tensor))(tf.constant(random(dtype, (3,), 1)))


def test_op_has_to_be_one_of_ours():
    with pytest.raises(TypeError, match="one of Average, Sum, Min, Max and Product"):
        hvd.allreduce(1.0, op="sum")
