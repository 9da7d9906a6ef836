from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import pytest
import tensorflow as tf
from support.modes import in_both_modes
from support.values import GATHERABLE, SHAPES, assert_same_bits, of_each_rank, random

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 3, 4)


@in_both_modes
@pytest.mark.parametrize("dtype", GATHERABLE)
def test_values(dtype: str, mode: Callable[..., Any]):
    for root in range(hvd.size()):
        data = [of_each_rank(hvd.size(), dtype, shape, i) for i, shape in enumerate(SHAPES)]

        @mode
        def broadcast_all(tensors: list[Any], root: int = root) -> list[Any]:
            return [hvd.broadcast(tensor, root) for tensor in tensors]

        results = broadcast_all([tf.constant(arrays[hvd.rank()]) for arrays in data])
        for result, arrays in zip(results, data, strict=True):
            assert_same_bits(result, arrays[root])


@pytest.mark.parametrize("count", [131071, 131072, 131073, 262144, 5_000_001])
def test_sizes_around_a_cut(count: int):
    for root in {0, hvd.size() - 1}:
        arrays = of_each_rank(hvd.size(), "uint8", (count,), count)
        tensor = tf.constant(arrays[hvd.rank()])
        assert_same_bits(hvd.broadcast(tensor, root), arrays[root])
        assert_same_bits(tensor, arrays[hvd.rank()])


@pytest.mark.parametrize("count", [5, 2_000_000])
def test_in_place_and_not(count: int):
    root = hvd.size() - 1
    arrays = of_each_rank(hvd.size(), "float32", (count,), count)
    negative = [-array for array in arrays]

    @tf.function
    def in_place(tensor: Any) -> Any:
        # What follows may overwrite what it gets, and on the root that is the input itself.
        return -hvd.broadcast(-tensor, root)

    @tf.function
    def apart(tensor: Any) -> Any:
        before = -tensor
        after = hvd.broadcast(before, root)
        return before, after, -after

    tensor = tf.constant(arrays[hvd.rank()])
    assert_same_bits(in_place(tensor), arrays[root])
    before, after, back = apart(tensor)
    assert_same_bits(before, negative[hvd.rank()])
    assert_same_bits(after, negative[root])
    assert_same_bits(back, arrays[root])
    assert_same_bits(tensor, arrays[hvd.rank()])


def variables(dtype: str) -> tuple[list[tf.Variable], list[list[Any]]]:
    data = [of_each_rank(hvd.size(), dtype, shape, i) for i, shape in enumerate(SHAPES)]
    return [tf.Variable(arrays[hvd.rank()]) for arrays in data], data


def overwrite(targets: list[tf.Variable], root: int) -> None:
    hvd.broadcast_variables(targets, root)


@in_both_modes
@pytest.mark.parametrize("dtype", GATHERABLE)
def test_variables_in_place(dtype: str, mode: Callable[..., Any]):
    for root in range(hvd.size()):
        targets, data = variables(dtype)
        mode(overwrite)(targets, root)
        for variable, arrays in zip(targets, data, strict=True):
            assert_same_bits(variable, arrays[root])


@in_both_modes
def test_new_values_are_returned(mode: Callable[..., Any]):
    root = hvd.size() - 1
    targets, data = variables("float32")
    values = mode(lambda: hvd.broadcast_(targets, root))()
    for value, variable, arrays in zip(values, targets, data, strict=True):
        assert_same_bits(value, arrays[root])
        assert_same_bits(variable, arrays[root])


def test_reads_and_writes_around_it_stay_in_order():
    variable = tf.Variable(0.0)

    @tf.function
    def around(start: Any) -> Any:
        variable.assign(start)
        before = variable.read_value()
        hvd.broadcast_variables([variable], 0)
        after = variable.read_value()
        variable.assign_add(10.0)
        return before, after, variable.read_value()

    for step in range(20):
        before, after, last = around(float(100 * step + hvd.rank()))
        assert (before, after, last) == (100 * step + hvd.rank(), 100 * step, 100 * step + 10)


def test_value_read_before_keeps_its_own():
    root = hvd.size() - 1
    arrays = of_each_rank(hvd.size(), "float32", (300_000,), 1)
    variable = tf.Variable(arrays[hvd.rank()])
    before = variable.read_value()
    hvd.broadcast_variables([variable], root)
    assert_same_bits(before, arrays[hvd.rank()])
    assert_same_bits(variable, arrays[root])


def test_variables_of_keras():
    arrays = of_each_rank(hvd.size(), "float32", (3, 2), 1)
    model = keras.Sequential([keras.layers.Dense(2, use_bias=False)])
    model.build((None, 3))
    model.set_weights([arrays[hvd.rank()]])
    hvd.broadcast_variables(model.weights, 0)
    assert_same_bits(model.get_weights()[0], arrays[0])


def test_only_variables_can_be_overwritten():
    with pytest.raises(TypeError, match="not a resource variable"):
        hvd.broadcast_variables([tf.constant(1.0)], 0)


def test_no_variables():
    assert hvd.broadcast_variables([], 0) is None
    assert hvd.broadcast_([], 0) == []


@in_both_modes
def test_root_that_does_not_exist(mode: Callable[..., Any]):
    variable = tf.Variable(1.0)
    for root in (-1, hvd.size()):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"root_rank {root} .*Pass one"):
            mode(lambda root=root: hvd.broadcast(1.0, root))()
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"root_rank {root} .*Pass one"):
            mode(overwrite)([variable], root)
    assert_same_bits(hvd.broadcast(random("int32", (2,), hvd.rank()), 0), random("int32", (2,), 0))
