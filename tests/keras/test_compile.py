from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from training import EXAMPLES, assert_weights, data, descend, ignore_warnings_of_keras, linear_model

import tf_collectives as hvd
from tf_collectives.keras import DistributedOptimizer

RANKS = (1, 2)

pytestmark = ignore_warnings_of_keras


@pytest.fixture
def visible_gpu(monkeypatch):
    """Let Keras find a GPU when it decides on compilation."""
    devices = tf.config.list_physical_devices()
    gpu = tf.config.PhysicalDevice(name="/physical_device:GPU:0", device_type="GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [*devices, gpu])


def sgd():
    return keras.optimizers.SGD(0.1)


class CustomModel(keras.Sequential):
    def compile(self, optimizer, **arguments):
        super().compile("sgd" if optimizer is None else optimizer, "mse", **arguments)


@pytest.mark.usefixtures("visible_gpu")
def test_auto_is_false():
    loss_scale = keras.optimizers.LossScaleOptimizer
    for optimizer in (
        DistributedOptimizer(sgd()),
        DistributedOptimizer(loss_scale(sgd())),
        loss_scale(DistributedOptimizer(sgd())),
    ):
        model = linear_model()
        model.compile(optimizer=optimizer, loss="mse")
        assert model.jit_compile is False
        model.compile(optimizer, "mse", None, None, None, False, 1, "auto")
        assert model.jit_compile is False
        custom = CustomModel(model.layers)
        custom.compile(optimizer)
        assert custom.jit_compile is False


@pytest.mark.usefixtures("visible_gpu")
def test_auto_of_other_optimizers_stays_true():
    model = linear_model()
    model.compile(optimizer=sgd(), loss="mse")
    assert model.jit_compile is True
    model.compile()
    assert model.jit_compile is True


@pytest.mark.usefixtures("visible_gpu")
def test_an_explicit_value_is_kept():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse", jit_compile=True)
    assert model.jit_compile is True
    model.compile(optimizer=sgd(), loss="mse", jit_compile=False)
    assert model.jit_compile is False


@pytest.mark.usefixtures("visible_gpu")
def test_fit_with_auto():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse")
    model.fit(*data(hvd.rank()), batch_size=EXAMPLES, verbose=0)
    assert_weights(model, descend(steps=1))


@pytest.mark.usefixtures("visible_gpu")
def test_auto_after_loading(tmp_path):
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse")
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").jit_compile is False


def test_explicit_compilation_fails_with_the_reason():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(sgd()), loss="mse", jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="AllReduce"):
        model.fit(*data(hvd.rank()), batch_size=EXAMPLES, verbose=0)
