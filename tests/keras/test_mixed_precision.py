from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from training import (
    EXAMPLES,
    LEARNING_RATE,
    assert_equal_on_all_ranks,
    data,
    gradients,
    linear_model,
    number,
    start,
)

import tf_collectives as hvd
from tf_collectives.keras import DistributedOptimizer

RANKS = (1, 2, 3)

SCALE = 64.0


def loss_scale(optimizer):
    return keras.optimizers.LossScaleOptimizer(
        optimizer, initial_scale=SCALE, dynamic_growth_steps=3
    )


NESTINGS = {
    "distributed_inside": lambda inner: loss_scale(DistributedOptimizer(inner)),
    "distributed_outside": lambda inner: DistributedOptimizer(loss_scale(inner)),
}
nestings = pytest.mark.parametrize("nest", NESTINGS.values(), ids=NESTINGS)


def scale_of(optimizer):
    if isinstance(optimizer, DistributedOptimizer):
        optimizer = optimizer.inner_optimizer
    return number(optimizer.dynamic_scale)


def steps_of(optimizer):
    # Older versions of LossScaleOptimizer have a count of their own, which stays zero.
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return number(optimizer.iterations)


@nestings
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_all_ranks_skip_a_step_that_is_not_finite_on_one(nest, wrap, bad):
    weight = keras.Variable(np.ones(2, np.float32))
    optimizer = nest(keras.optimizers.SGD(LEARNING_RATE))
    optimizer.build([weight])

    @wrap
    def step(gradient):
        optimizer.apply([optimizer.scale_loss(gradient)], [weight])

    mine = tf.constant([hvd.rank(), 1], tf.float32)
    mean = np.array([(hvd.size() - 1) / 2, 1])

    step(mine)
    step(mine)
    np.testing.assert_allclose(weight.numpy(), 1 - 2 * LEARNING_RATE * mean, rtol=1e-6)
    assert scale_of(optimizer) == SCALE

    step(tf.constant([bad, 1]) if hvd.rank() == hvd.size() - 1 else mine)
    np.testing.assert_allclose(weight.numpy(), 1 - 2 * LEARNING_RATE * mean, rtol=1e-6)
    assert scale_of(optimizer) == SCALE / 2
    assert steps_of(optimizer) == 2

    for _ in range(3):
        step(mine)
    np.testing.assert_allclose(weight.numpy(), 1 - 5 * LEARNING_RATE * mean, rtol=1e-6)
    assert scale_of(optimizer) == SCALE
    assert steps_of(optimizer) == 5
    assert_equal_on_all_ranks([v.numpy() for v in [weight, *optimizer.variables]])


@pytest.fixture
def mixed_float16():
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(previous)


@pytest.mark.usefixtures("mixed_float16")
@pytest.mark.parametrize(
    "nest", [DistributedOptimizer, *NESTINGS.values()], ids=["compile_wraps", *NESTINGS]
)
def test_fit_with_an_infinity_on_one_rank(nest):
    model = linear_model()
    model.compile(optimizer=nest(keras.optimizers.SGD(1e-3)), loss="mse")
    if nest is DistributedOptimizer:
        model.optimizer.initial_scale = SCALE
    x, y = data(hvd.rank(), 3 * EXAMPLES)
    if hvd.rank() == hvd.size() - 1:
        x[EXAMPLES + 1] = np.inf
    model.fit(x, y, batch_size=EXAMPLES, shuffle=False, verbose=0)
    assert scale_of(model.optimizer) == SCALE / 2
    assert steps_of(model.optimizer) == 2
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) or isinstance(
        model.optimizer.inner_optimizer, keras.optimizers.LossScaleOptimizer
    )
    # float16 has ten bits, so a step agrees to a few per mille.
    expected = start()
    for batch in (slice(0, EXAMPLES), slice(2 * EXAMPLES, 3 * EXAMPLES)):
        ranks = [[part[batch] for part in data(r, 3 * EXAMPLES)] for r in range(hvd.size())]
        all_ranks = [gradients(expected, examples) for examples in ranks]
        reduced = [sum(parts) / hvd.size() for parts in zip(*all_ranks, strict=True)]
        expected = [w - 1e-3 * g for w, g in zip(expected, reduced, strict=True)]
    for found, wanted, before in zip(model.get_weights(), expected, start(), strict=True):
        np.testing.assert_allclose(found - before, wanted - before, rtol=2e-2, atol=1e-5)
    assert_equal_on_all_ranks(model.get_weights())
    assert_equal_on_all_ranks([v.numpy() for v in model.optimizer.variables])


@nestings
def test_gradients_of_a_distributed_tape_are_not_reduced_again(nest):
    weight = keras.Variable(np.float32(0))
    optimizer = nest(keras.optimizers.SGD(LEARNING_RATE))
    distributed = (
        optimizer if isinstance(optimizer, DistributedOptimizer) else optimizer.inner_optimizer
    )
    distributed.op = hvd.Sum
    optimizer.build([weight])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(weight * (hvd.rank() + 1.0))
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        optimizer.apply(tape.gradient(loss, [weight]), [weight])

    step()
    expected = -LEARNING_RATE * sum(range(1, hvd.size() + 1))
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)


def test_other_loss_scaling_is_left_alone():
    weight = keras.Variable(np.float32(0))
    optimizer = loss_scale(keras.optimizers.SGD(LEARNING_RATE))
    optimizer.build([weight])
    tf.function(lambda: optimizer.apply([optimizer.scale_loss(1.0 + hvd.rank())], [weight]))()
    np.testing.assert_allclose(weight.numpy(), -LEARNING_RATE * (1 + hvd.rank()), rtol=1e-6)
