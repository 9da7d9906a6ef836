from __future__ import annotations

import copy
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from training import (
    EXAMPLES,
    assert_equal_on_all_ranks,
    data,
    ignore_warnings_of_keras,
    linear_model,
    number,
)

import tf_collectives as hvd
from tf_collectives.keras import DistributedOptimizer

RANKS = (1, 2)

pytestmark = ignore_warnings_of_keras


def adam():
    return keras.optimizers.Adam(0.05, clipnorm=3.0, weight_decay=0.01)


def loss_scale(optimizer):
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0)


OPTIMIZERS = {
    "adam": lambda: DistributedOptimizer(adam()),
    "sum": lambda: DistributedOptimizer(adam(), name="d", op=hvd.Sum, sparse_as_dense=True),
    "schedule": lambda: DistributedOptimizer(
        keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9)
    ),
    "average": lambda: DistributedOptimizer(
        keras.optimizers.SGD(0.1, use_ema=True, gradient_accumulation_steps=2)
    ),
    "loss_scale_inside": lambda: DistributedOptimizer(loss_scale(adam())),
    "loss_scale_outside": lambda: loss_scale(DistributedOptimizer(adam())),
}
optimizers = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def train(model, epochs=2):
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, epochs=epochs, shuffle=False, verbose=0)


def trained_model(optimizer):
    model = linear_model()
    model.compile(optimizer=optimizer, loss="mse")
    train(model)
    return model


def state(model):
    optimizer = model.optimizer
    return [*model.get_weights(), *(v.numpy() for v in optimizer.variables)]


def assert_same_state(model, other):
    for a, b in zip(state(model), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


@optimizers
def test_config(make):
    optimizer = make()
    config = json.loads(json.dumps(optimizer.get_config()))
    again = type(optimizer).from_config(config)
    assert again.get_config() == optimizer.get_config()
    assert type(again.inner_optimizer) is type(optimizer.inner_optimizer)


@optimizers
def test_deserialize(make):
    optimizer = make()
    serialized = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    again = keras.saving.deserialize_keras_object(serialized)
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()


def test_registered_name():
    serialized = keras.saving.serialize_keras_object(DistributedOptimizer(adam()))
    assert serialized["registered_name"] == "tf_collectives>DistributedOptimizer"


@optimizers
@pytest.mark.parametrize("root_only", [False, True])
def test_model_goes_on_training_after_loading(make, root_only, tmp_path_factory):
    model = trained_model(make())
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    if root_only:
        # As it is done in practice: rank 0 saves, all load.
        path = hvd_broadcast_text(str(path))
    if not root_only or hvd.rank() == 0:
        model.save(path)
    assert_equal_on_all_ranks([np.zeros(1)])  # All wait until the file is there.
    loaded = keras.models.load_model(path)
    assert_same_state(loaded, model)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    train(model)
    train(loaded)
    assert_same_state(loaded, model)
    assert_equal_on_all_ranks(state(loaded))


def hvd_broadcast_text(text):
    characters = np.zeros(1000, np.uint8)
    characters[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    return hvd.broadcast(characters, 0).numpy().tobytes().rstrip(b"\0").decode()


@optimizers
def test_deepcopy(make):
    model = trained_model(make())
    again = copy.deepcopy(model)
    assert type(again.optimizer) is type(model.optimizer)
    assert again.optimizer is not model.optimizer
    assert_same_state(again, model)


@optimizers
def test_checkpoint_of_tensorflow(make, tmp_path):
    model = trained_model(make())
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(tmp_path / "c")
    other = trained_model(make())
    train(other)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    assert_same_state(other, model)


def test_clone_of_a_model_is_compiled_with_a_new_optimizer():
    model = trained_model(DistributedOptimizer(adam()))
    clone = keras.models.clone_model(model)
    clone.compile(
        optimizer=type(model.optimizer).from_config(model.optimizer.get_config()), loss="mse"
    )
    train(clone)
    assert number(clone.optimizer.iterations) == 2
    assert_equal_on_all_ranks(clone.get_weights())


def test_export_for_serving(tmp_path):
    model = trained_model(DistributedOptimizer(adam()))
    model.export(tmp_path / "exported")
    x, _ = data(0)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(x), model.predict(x, verbose=0), rtol=1e-6)
