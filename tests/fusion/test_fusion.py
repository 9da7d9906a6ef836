from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_collectives as hvd
from tf_collectives import fusion

RANKS = (1, 2)


@pytest.fixture
def threshold():
    """Let a test set the threshold."""
    previous = fusion.threshold()
    yield fusion.set_threshold
    fusion.set_threshold(previous)


def test_threshold(threshold):
    assert fusion.threshold() == 128 * 1024 * 1024
    threshold(1000)
    assert fusion.threshold() == 1000
    with pytest.raises(ValueError, match="-1 bytes"):
        fusion.set_threshold(-1)


def test_plan(threshold):
    threshold(100)
    tensors = [
        tf.zeros(10),
        np.zeros(3, np.float64),
        tf.TensorSpec([3, 5], tf.float32),
        keras.Variable(np.zeros(50, np.float32)),
        tf.Variable(1.0),
    ]
    batches = fusion.plan(tensors)
    assert sorted(i for batch in batches for i in batch.indices) == [0, 1, 2, 3, 4]
    by_first = {batch.indices[0]: batch for batch in batches}
    # The small tensors of one dtype travel together, past those of another or over the threshold.
    assert by_first[0] == fusion.Batch(indices=(0, 2), dtype="float32", bytes=100)
    assert by_first[1] == fusion.Batch(indices=(1,), dtype="float64", bytes=24)
    assert by_first[3] == fusion.Batch(indices=(3,), dtype="float32", bytes=200)


def test_plan_without_fusion(threshold):
    threshold(0)
    assert [b.indices for b in fusion.plan([tf.zeros(1)] * 3)] == [(0,), (1,), (2,)]


def test_plan_of_nothing():
    assert fusion.plan([]) == []


def test_plan_needs_shapes():
    with pytest.raises(ValueError, match="no known size"):
        fusion.plan([tf.TensorSpec([None], tf.float32)])


def test_statistics():
    fusion.reset_statistics()
    empty = fusion.statistics()
    assert (empty.tensors, empty.batches, empty.bytes) == (0, 0, 0)
    assert empty.mean_batch_tensors == empty.mean_batch_bytes == 0
    hvd.grouped_allreduce([tf.zeros(3), tf.zeros(5)], name="group")
    hvd.allreduce(tf.zeros(2), name="one")
    counted = fusion.statistics()
    assert (counted.tensors, counted.batches, counted.bytes) == (3, 2, 40)
    assert counted.mean_batch_tensors == 1.5
    assert counted.mean_batch_bytes == 20
