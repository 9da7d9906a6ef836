from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from training import (
    EXAMPLES,
    LEARNING_RATE,
    assert_equal_on_all_ranks,
    assert_weights,
    data,
    descend,
    gradients,
    ignore_warnings_of_keras,
    linear_model,
    number,
    reduced_gradients,
    start,
)

import tf_collectives as hvd
from tf_collectives.errors import UnsupportedBackendError, UnsupportedOptimizerError
from tf_collectives.keras import DistributedOptimizer

RANKS = (1, 2, 3)

pytestmark = ignore_warnings_of_keras


def sgd(**arguments):
    return keras.optimizers.SGD(LEARNING_RATE, **arguments)


def loss_of(model, x, y):
    return tf.reduce_mean(tf.square(model(x) - y))


@pytest.mark.parametrize(
    "how", [{}, {"run_eagerly": True}, {"steps_per_execution": 2}], ids=["graph", "eager", "loop"]
)
def test_fit_applies_the_average(how):
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse", **how)
    x, y = data(hvd.rank())
    # Two batches an epoch, of the same examples, so that a batch is the rank's whole data.
    model.fit(
        np.tile(x, (2, 1)),
        np.tile(y, (2, 1)),
        batch_size=EXAMPLES,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    assert_weights(model, descend(steps=4))
    assert number(model.optimizer.iterations) == 4


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("method", ["apply", "apply_gradients"])
def test_custom_loop(wrap, method):
    model = linear_model()
    optimizer = DistributedOptimizer(sgd())
    optimizer.build(model.trainable_variables)
    x, y = data(hvd.rank())

    @wrap
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        grads = tape.gradient(loss, model.trainable_variables)
        if method == "apply":
            optimizer.apply(grads)
        else:
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))

    for _ in range(3):
        step()
    assert_weights(model, descend(steps=3))


def test_sum():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd(), op=hvd.Sum), loss="mse")
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=2, verbose=0)
    assert_weights(model, descend(steps=2, divide=False))


def test_gradients_are_clipped_after_the_reduction():
    limit = 0.05
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd(global_clipnorm=limit)), loss="mse")
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=1, verbose=0)
    reduced = reduced_gradients(start())
    norm = np.sqrt(sum((g**2).sum() for g in reduced))
    assert norm > limit
    scale = LEARNING_RATE * limit / norm
    assert_weights(model, [w - scale * g for w, g in zip(start(), reduced, strict=True)])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("clip", [False, True])
def test_a_gradient_of_a_distributed_tape_is_not_reduced_again(wrap, clip):
    model = linear_model()
    variables = model.trainable_variables
    optimizer = DistributedOptimizer(sgd(), op=hvd.Sum)
    optimizer.build(variables)
    x, y = data(hvd.rank())

    @wrap
    def step_of_distributed_tape():
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        grads = tape.gradient(loss, variables)
        if clip:
            grads, _ = tf.clip_by_global_norm(grads, 1e6)
        optimizer.apply(grads, variables)

    @wrap
    def step_of_plain_tape():
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        optimizer.apply(tape.gradient(loss, variables), variables)

    step_of_distributed_tape()
    step_of_plain_tape()
    step_of_distributed_tape()
    assert_weights(model, descend(steps=3, divide=False))


def test_a_plain_gradient_beside_a_distributed_one_is_reduced():
    model = linear_model()
    kernel, bias = model.trainable_variables
    optimizer = DistributedOptimizer(sgd(), op=hvd.Sum)
    optimizer.build([kernel, bias])
    x, y = data(hvd.rank())

    @tf.function
    def step():
        with tf.GradientTape(persistent=True) as tape:
            loss = loss_of(model, x, y)
        plain = tape.gradient(loss, [kernel, bias])
        # The optimizer gets the plain gradients, although a distributed tape has marked the
        # variables: what it computed went elsewhere.
        for_logging = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [kernel, bias])
        optimizer.apply(plain, [kernel, bias])
        return for_logging

    logged = step()
    for found, wanted in zip(logged, reduced_gradients(start(), divide=False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert_weights(model, descend(steps=1, divide=False))


@pytest.mark.parametrize("sparse_as_dense", [False, True])
@pytest.mark.parametrize("eager", [False, True])
def test_embedding(sparse_as_dense, eager):
    words, width = 7, 2
    # A word occurs twice on each rank, one on all of them, one on none.
    words_of = [[0, 0, 1 + rank, 5] for rank in range(hvd.size())]
    model = keras.Sequential([keras.layers.Embedding(words, width, embeddings_initializer="ones")])
    optimizer = DistributedOptimizer(sgd(), sparse_as_dense=sparse_as_dense)
    model.compile(optimizer=optimizer, loss=lambda _, y: tf.reduce_sum(y * y), run_eagerly=eager)
    inputs = np.array([words_of[hvd.rank()]])
    kinds = []
    reduce = optimizer.reduce
    optimizer.__dict__["reduce"] = lambda g, v: (kinds.extend(map(type, g)), reduce(g, v))[1]
    model.fit(inputs, np.zeros((1, 4, width), np.float32), verbose=0)
    assert set(kinds) == {tf.IndexedSlices}
    expected = np.ones((words, width))
    for rank in range(hvd.size()):
        for word in words_of[rank]:
            expected[word] -= LEARNING_RATE * 2 / hvd.size()
    assert_weights(model, [expected])


def test_gradient_accumulation():
    model = linear_model()
    optimizer = DistributedOptimizer(sgd(gradient_accumulation_steps=2))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=5, verbose=0)
    # The weights stay the same within an update, so its average is that of equal gradients.
    assert_weights(model, descend(steps=2))


def test_moving_average_of_the_weights():
    model = linear_model()
    optimizer = DistributedOptimizer(sgd(use_ema=True, ema_momentum=0.5))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=3, verbose=0)
    average = descend(steps=1)
    for steps in (2, 3):
        average = [(a + w) / 2 for a, w in zip(average, descend(steps), strict=True)]
    # At its end, fit lets the optimizer overwrite the weights with the average.
    assert_weights(model, average)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_variables_overwritten_with_gradients_get_the_largest(wrap):
    scale = keras.Variable(np.zeros(2, np.float32))
    scale.overwrite_with_gradient = True
    weight = keras.Variable(np.float32(1))
    optimizer = DistributedOptimizer(sgd(), op=hvd.Sum)
    optimizer.build([scale, weight])
    mine = tf.constant([hvd.rank(), -hvd.rank()], tf.float32)
    wrap(lambda: optimizer.apply([mine, tf.constant(1.0)], [scale, weight]))()
    np.testing.assert_array_equal(scale.numpy(), [hvd.size() - 1, 0])
    np.testing.assert_allclose(weight.numpy(), 1 - LEARNING_RATE * hvd.size(), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_variables_without_gradient_stay(wrap):
    first, second = keras.Variable(1.0, name="first"), keras.Variable(1.0, name="second")
    optimizer = DistributedOptimizer(sgd())
    optimizer.build([first, second])
    mine = tf.constant(float(hvd.rank()))
    with pytest.warns(UserWarning, match="first"):
        wrap(lambda: optimizer.apply([None, mine], [first, second]))()
    assert number(first) == 1.0
    np.testing.assert_allclose(second.numpy(), 1 - LEARNING_RATE * (hvd.size() - 1) / 2, rtol=1e-6)


def test_ranks_may_have_other_names_and_trace_more_often():
    if hvd.rank() == 0:
        # Keras numbers the layers of a process, so the names of those that follow are shifted.
        linear_model()
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse")
    examples = EXAMPLES + hvd.rank()
    for _ in range(2):
        # The last batch of rank 1 and 2 is a smaller one, for which Keras traces again.
        batches = [EXAMPLES, hvd.rank()] if hvd.rank() else [EXAMPLES // 2, EXAMPLES // 2]
        x, y = data(hvd.rank(), examples)
        begin = 0
        for size in batches:
            model.train_on_batch(x[begin : begin + size], y[begin : begin + size])
            begin += size
    assert_equal_on_all_ranks(model.get_weights())
    assert number(model.optimizer.iterations) == 4


def test_attributes_are_those_of_the_inner_optimizer():
    inner = keras.optimizers.Adam(0.5, beta_1=0.7, weight_decay=0.1, clipvalue=1.0)
    optimizer = DistributedOptimizer(inner)
    assert optimizer.beta_1 == 0.7
    assert optimizer.weight_decay == 0.1
    assert optimizer.clipvalue == 1.0
    assert optimizer.iterations is inner.iterations
    assert optimizer.inner_optimizer is inner
    assert not optimizer.built
    optimizer.build([keras.Variable(1.0)])
    assert inner.built
    assert optimizer.built
    assert [id(v) for v in optimizer.variables] == [id(v) for v in inner.variables]
    optimizer.learning_rate = 0.25
    assert number(inner.learning_rate) == number(optimizer.learning_rate) == 0.25
    optimizer.beta_1 = 0.6
    assert inner.beta_1 == 0.6
    optimizer.set_weights([v.numpy() + 1 for v in inner.variables])
    assert number(inner.iterations) == 1
    with pytest.raises(AttributeError, match="momentum"):
        _ = optimizer.momentum


def test_a_built_optimizer_keeps_its_variables():
    weight = keras.Variable(1.0)
    inner = sgd(momentum=0.5)
    inner.build([weight])
    inner.apply([tf.constant(1.0)])
    optimizer = DistributedOptimizer(inner)
    optimizer.apply([tf.constant(float(hvd.rank()))])
    mean = (hvd.size() - 1) / 2
    expected = 1 - LEARNING_RATE - (0.5 * LEARNING_RATE + LEARNING_RATE * mean)
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)
    assert number(optimizer.iterations) == 2


def test_learning_rate_callbacks():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse")
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=2, verbose=0, callbacks=[schedule])
    weights = start()
    for learning_rate in (0.1, 0.05):
        reduced = reduced_gradients(weights)
        weights = [w - learning_rate * g for w, g in zip(weights, reduced, strict=True)]
    assert_weights(model, weights)


def test_only_average_and_sum():
    with pytest.raises(ValueError, match="Average or Sum"):
        DistributedOptimizer(sgd(), op=hvd.Max)


def test_an_optimizer_is_wrapped_once():
    optimizer = DistributedOptimizer(sgd())
    with pytest.raises(UnsupportedOptimizerError, match="already"):
        DistributedOptimizer(optimizer)
    with pytest.raises(UnsupportedOptimizerError, match="already"):
        DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))


def test_optimizers_of_other_libraries_are_refused():
    old = type("Adam", (), {"__module__": "tf_keras.src.optimizers.adam"})()
    with pytest.raises(TypeError, match=r"Keras 2.*DistributedGradientTape"):
        DistributedOptimizer(old)
    with pytest.raises(TypeError, match="Keras 2"):
        DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
    with pytest.raises(UnsupportedOptimizerError, match="Pass an instance"):
        DistributedOptimizer("adam")


def test_other_backends_are_refused(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(UnsupportedBackendError, match="KERAS_BACKEND=tensorflow"):
        DistributedOptimizer(sgd())
    assert issubclass(UnsupportedBackendError, TypeError)


def test_a_wrong_number_of_gradients_is_reported_by_keras():
    optimizer = DistributedOptimizer(sgd())
    optimizer.build([keras.Variable(1.0)])
    with pytest.raises(ValueError, match="gradients"):
        optimizer.apply([tf.constant(1.0), tf.constant(1.0)])


def test_gradients_alone_agree_with_numpy():
    # The helper that the other tests rely on, against TensorFlow.
    model = linear_model()
    x, y = data(hvd.rank())
    with tf.GradientTape() as tape:
        loss = loss_of(model, x, y)
    found = tape.gradient(loss, model.trainable_variables)
    for mine, wanted in zip(found, gradients(start(), (x, y)), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
