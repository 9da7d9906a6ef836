"""The op library works by itself, without our Python functions around it."""

from __future__ import annotations

import sys

from support.forking import run

import tf_collectives as hvd


def native_ops(order: str) -> None:
    import numpy as np
    import tensorflow as tf

    if order == "after":
        assert hvd.allreduce is not None
    ops = tf.load_op_library(hvd.op_library())
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    one = tf.constant([1.0 + rank, 2.0])
    total = np.array([size * (size + 1) / 2, 2.0 * size], np.float32)

    def call_all() -> None:
        reduced = ops.collectives_all_reduce(one)
        np.testing.assert_array_equal(reduced, total)
        reduced = ops.collectives_all_reduce(
            one, tensor_name="a", reduce_op="average", prescale_factor="0.5", postscale_factor="4"
        )
        np.testing.assert_allclose(reduced, total * 2 / size)
        first, second = ops.collectives_grouped_all_reduce([one, tf.cast(one, tf.int64)])
        np.testing.assert_array_equal(first, total)
        np.testing.assert_array_equal(second, total.astype(np.int64))
        gathered, sizes = ops.collectives_all_gather(one[: 1 + rank % 2])
        rows = [[1.0 + r, 2.0][: 1 + r % 2] for r in range(size)]
        np.testing.assert_array_equal(gathered, np.concatenate(rows))
        np.testing.assert_array_equal(sizes, [len(row) for row in rows])
        gathered, sizes = ops.collectives_grouped_all_gather([one, one[:rank]])
        np.testing.assert_array_equal(gathered[0][::2], np.arange(1, size + 1))
        np.testing.assert_array_equal(sizes, [[2] * size, [min(r, 2) for r in range(size)]])
        np.testing.assert_array_equal(ops.collectives_broadcast(one, root_rank=size - 1)[0], size)
        (sent,) = ops.collectives_grouped_broadcast([one], root_rank=0)
        np.testing.assert_array_equal(sent, [1, 2])
        variable = tf.Variable(one)
        ops.collectives_broadcast_variables([variable.handle], dtypes=[tf.float32], root_rank=0)
        np.testing.assert_array_equal(variable, [1, 2])

    call_all()

    @tf.function
    def in_graph() -> tf.Tensor:
        return ops.collectives_all_reduce(one, tensor_name="in a graph")

    np.testing.assert_array_equal(in_graph(), total)
    assert ("tf_collectives.ops.library" in sys.modules) == (order == "after")
    np.testing.assert_array_equal(hvd.allreduce(one, op=hvd.Sum), total)


def test_alone():
    run(native_ops, 2, "alone")


def test_after_our_functions_were_loaded():
    run(native_ops, 3, "after")
