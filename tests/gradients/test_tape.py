from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_collectives as hvd

RANKS = (1, 2, 3)

modes = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])


def mean_rank():
    return (hvd.size() - 1) / 2


def weighted(variable):
    """A loss whose gradient is the rank."""
    return tf.reduce_sum(variable) * hvd.rank()


@modes
@pytest.mark.parametrize(("op", "factor"), [(hvd.Average, 1), (hvd.Sum, None)])
def test_gradients_are_reduced(wrap, op, factor):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(3.0)

    @wrap
    def compute():
        with tf.GradientTape() as tape:
            loss = weighted(a) + 2 * weighted(b)
        tape = hvd.DistributedGradientTape(tape, op=op)
        return tape.gradient(loss, [a, b])

    expected = mean_rank() * (factor or hvd.size())
    for _ in range(2):
        for found, wanted in zip(compute(), [[expected, expected], 2 * expected], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


@modes
def test_it_is_a_gradient_tape_and_records(wrap):
    x = tf.constant(3.0)

    @wrap
    def compute():
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            assert isinstance(tape, tf.GradientTape)
            tape.watch(x)
            loss = x * x * hvd.rank()
        return tape.gradient(loss, x)

    np.testing.assert_allclose(compute(), 6 * mean_rank())


def test_both_tapes_share_one_recording():
    x = tf.Variable(3.0)
    plain = tf.GradientTape(persistent=True)
    distributed = hvd.DistributedGradientTape(plain)
    with plain:
        loss = weighted(x)
        with distributed.stop_recording():
            unrecorded = weighted(x)
    assert [v is x for v in distributed.watched_variables()] == [True]
    np.testing.assert_allclose(distributed.gradient(loss, x), mean_rank())
    np.testing.assert_allclose(plain.gradient(loss, x), hvd.rank())
    assert distributed.gradient(unrecorded, x) is None
    with distributed:
        distributed.reset()
        loss = weighted(x)
    np.testing.assert_allclose(distributed.gradient(loss, x), mean_rank())


def test_a_tape_gives_gradients_once_unless_it_is_persistent():
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        loss = weighted(x)
    tape = hvd.DistributedGradientTape(tape)
    tape.gradient(loss, x)
    with pytest.raises(RuntimeError, match="persistent"):
        tape.gradient(loss, x)


def test_a_subclass_stays_one():
    class Counting(tf.GradientTape):
        calls = 0

        def gradient(self, *args, **kwargs):
            self.calls += 1
            return super().gradient(*args, **kwargs)

    x = tf.Variable(3.0)
    with Counting() as tape:
        loss = weighted(x)
    tape = hvd.DistributedGradientTape(tape)
    assert isinstance(tape, Counting)
    np.testing.assert_allclose(tape.gradient(loss, x), mean_rank())
    assert tape.calls == 1


@modes
def test_structures_of_sources(wrap):
    a, b = tf.Variable(1.0), tf.Variable(2.0)

    @wrap
    def compute():
        with tf.GradientTape(persistent=True) as tape:
            loss = weighted(a) + 3 * weighted(b)
        tape = hvd.DistributedGradientTape(tape)
        return (
            tape.gradient(loss, {"a": a, "rest": (b, [a])}),
            tape.gradient(loss, a),
            tape.gradient({"loss": loss, "again": loss}, [b]),
        )

    nested, single, listed = compute()
    np.testing.assert_allclose(nested["a"], mean_rank())
    np.testing.assert_allclose(nested["rest"][0], 3 * mean_rank(), rtol=1e-6)
    np.testing.assert_allclose(nested["rest"][1][0], mean_rank())
    np.testing.assert_allclose(single, mean_rank())
    np.testing.assert_allclose(listed[0], 6 * mean_rank(), rtol=1e-6)


@modes
def test_sources_without_gradient(wrap):
    a, b, c = tf.Variable(1.0), tf.Variable([2.0, 2.0]), tf.Variable(3.0)

    def compute(**arguments):
        @wrap
        def inner():
            with tf.GradientTape() as tape:
                loss = weighted(a) + weighted(c)
            return hvd.DistributedGradientTape(tape).gradient(loss, [a, b, c], **arguments)

        return inner()

    first, second, third = compute()
    assert second is None
    np.testing.assert_allclose([first, third], mean_rank())
    zero = compute(unconnected_gradients=tf.UnconnectedGradients.ZERO)[1]
    np.testing.assert_array_equal(zero, [0, 0])
    np.testing.assert_allclose(compute(output_gradients=tf.constant(2.0))[0], 2 * mean_rank())


@modes
@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_sparse_gradients(wrap, sparse_as_dense):
    table, dense = tf.Variable(tf.ones([6, 2])), tf.Variable(1.0)
    indices = [0, 0, 1 + hvd.rank()]

    @wrap
    def compute():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, indices)) + weighted(dense)
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense)
        return tape.gradient(loss, [table, dense])

    gradient, other = compute()
    np.testing.assert_allclose(other, mean_rank())
    assert isinstance(gradient, tf.IndexedSlices) != sparse_as_dense
    expected = np.zeros((6, 2))
    expected[0] = 2
    for rank in range(hvd.size()):
        expected[1 + rank] = 1 / hvd.size()
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, rtol=1e-6)
    if not sparse_as_dense:
        # Row 0 is used twice on each rank, and sent once.
        assert len(gradient.indices) == 2 * hvd.size()


def test_dtypes_together():
    variables = [
        tf.Variable([1.0, 2.0], dtype=dtype)
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64)
    ]
    with tf.GradientTape() as tape:
        loss = sum(tf.cast(weighted_as(v), tf.float64) for v in variables)
    for gradient, v in zip(
        hvd.DistributedGradientTape(tape).gradient(loss, variables), variables, strict=True
    ):
        assert gradient.dtype == v.dtype
        np.testing.assert_allclose(tf.cast(gradient, tf.float64), [mean_rank()] * 2)


def weighted_as(variable):
    return tf.reduce_sum(variable) * tf.cast(hvd.rank(), variable.dtype)


@modes
def test_two_tapes_in_one_step(wrap):
    x, y = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])

    @wrap
    def compute():
        with tf.GradientTape() as first, tf.GradientTape() as second:
            one, two = weighted(x), 2 * weighted(y)
        first, second = map(hvd.DistributedGradientTape, (first, second))
        return first.gradient(one, [x]) + second.gradient(two, [y])

    one, two = compute()
    np.testing.assert_allclose(one, [mean_rank()] * 2)
    np.testing.assert_allclose(two, [2 * mean_rank()] * 2)


@modes
def test_gradient_of_a_reduced_gradient(wrap):
    x = tf.Variable(3.0)

    @wrap
    def compute():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.pow(x, 3) * (hvd.rank() + 1)
            slope = hvd.DistributedGradientTape(inner).gradient(loss, x)
        return slope, outer.gradient(slope, x)

    slope, curvature = compute()
    factor = mean_rank() + 1
    np.testing.assert_allclose(slope, 27 * factor)
    # Each rank's slope is the average of all, so each sees 1/size of every rank's gradient, and
    # the gradient of the sum of all slopes with respect to the rank's own x is its own curvature.
    np.testing.assert_allclose(curvature, 18 * (hvd.rank() + 1))


def test_jacobians_are_those_of_the_rank():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x * hvd.rank()
        z = x[None] * hvd.rank()
    tape = hvd.DistributedGradientTape(tape)
    np.testing.assert_allclose(tape.jacobian(y, x), np.diag([2.0, 4.0]) * hvd.rank())
    np.testing.assert_allclose(tape.gradient(z, x), [mean_rank()] * 2)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="Pass the tape itself"):
        hvd.DistributedGradientTape(tf.GradientTape)
    with pytest.raises(ValueError, match="Average or Sum"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Max)
    with pytest.raises(ValueError, match="Wrap it once"):
        hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))
