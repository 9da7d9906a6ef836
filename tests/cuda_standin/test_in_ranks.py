"""TensorFlow in ranks that have a GPU of the stand-in each, as the tests of the ops have."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

RANKS = (1, 2)

VALUES = np.arange(1000, dtype=np.float32)


def test_each_rank_has_one_gpu():
    assert len(tf.config.list_physical_devices("GPU")) == 4
    (gpu,) = tf.config.get_visible_devices("GPU")
    assert gpu.name.endswith(os.environ["TFC_LOCAL_RANK"])
    assert len(tf.config.list_logical_devices("GPU")) == 1


def test_values_go_to_the_gpu_and_back():
    with tf.device("/GPU:0"):
        there = tf.identity(tf.constant(VALUES))
    assert there.device.endswith("GPU:0")
    np.testing.assert_array_equal(there.numpy(), VALUES)


def test_what_is_not_put_there_stays_on_the_cpu():
    with tf.device("/GPU:0"):
        there = tf.constant(VALUES)
    back = there + 1.0
    assert back.device.endswith("CPU:0")
    np.testing.assert_array_equal(back.numpy(), VALUES + 1)


def test_a_variable_on_the_gpu():
    with tf.device("/GPU:0"):
        variable = tf.Variable(VALUES)
        variable.assign(tf.constant(VALUES[::-1]))
    np.testing.assert_array_equal(variable.numpy(), VALUES[::-1])


def test_a_graph_on_the_gpu():
    @tf.function
    def there_and_back(x):
        with tf.device("/GPU:0"):
            y = tf.identity(x)
        return y + 1.0

    np.testing.assert_array_equal(there_and_back(tf.constant(VALUES)).numpy(), VALUES + 1)
