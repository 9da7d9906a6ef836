# ruff: noqa: ARG002
from __future__ import annotations

import keras
import numpy as np
import pytest
from training import (
    EXAMPLES,
    FEATURES,
    assert_equal_on_all_ranks,
    data,
    ignore_warnings_of_keras,
    linear_model,
    number,
)

import tf_collectives as hvd
from tf_collectives.keras import DistributedOptimizer
from tf_collectives.keras.callbacks import (
    AverageMovingStatisticsCallback,
    BroadcastGlobalVariablesCallback,
    MetricAverageCallback,
)

RANKS = (1, 2, 3)

pytestmark = ignore_warnings_of_keras


class Record(keras.callbacks.Callback):
    """Keeps what it sees: the weights before and after the first batch, and the metrics."""

    def __init__(self):
        super().__init__()
        self.before = self.after = None
        self.epochs = []

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0 and self.before is None:
            self.before = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0 and self.after is None:
            self.after = self.model.get_weights()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))


def model_of_rank():
    """Return a model whose weights and optimizer state depend on the rank."""
    model = linear_model()
    model.set_weights([w + hvd.rank() for w in model.get_weights()])
    inner = keras.optimizers.SGD(0.1 * (1 + hvd.rank()), momentum=0.9)
    inner.build(model.trainable_variables)
    for variable in inner.momentums:
        variable.assign(variable + hvd.rank())
    inner.iterations.assign(hvd.rank())
    model.compile(optimizer=DistributedOptimizer(inner), loss="mse")
    return model


def fit(model, callbacks, epochs=1, **arguments):
    return model.fit(
        *data(hvd.rank()),
        batch_size=EXAMPLES,
        epochs=epochs,
        verbose=0,
        callbacks=callbacks,
        **arguments,
    )


def test_broadcast_before_the_first_step():
    root = hvd.size() - 1
    model, record = model_of_rank(), Record()
    fit(model, [BroadcastGlobalVariablesCallback(root), record])
    for found, initial in zip(record.before, linear_model().get_weights(), strict=True):
        np.testing.assert_array_equal(found, initial + root)
    assert_equal_on_all_ranks(model.get_weights())
    assert_equal_on_all_ranks([v.numpy() for v in model.optimizer.variables])
    np.testing.assert_allclose(model.optimizer.learning_rate.numpy(), 0.1 * (1 + root))
    assert number(model.optimizer.iterations) == root + 1


@pytest.mark.parametrize("epochs", [1, 2])
def test_each_fit_starts_from_the_root(epochs):
    model, callback = model_of_rank(), BroadcastGlobalVariablesCallback(0)
    fit(model, [callback])
    model.set_weights([w + hvd.rank() for w in model.get_weights()])
    fit(model, [callback], epochs)
    assert_equal_on_all_ranks(model.get_weights())


def test_broadcast_builds_the_optimizer():
    model = linear_model()
    model.compile(optimizer=DistributedOptimizer(keras.optimizers.Adam()), loss="mse")
    assert not model.optimizer.built
    fit(model, [BroadcastGlobalVariablesCallback(0)])
    assert len(model.optimizer.variables) == 6
    assert_equal_on_all_ranks([v.numpy() for v in model.optimizer.variables])


def test_broadcast_of_a_model_that_is_built_by_its_first_batch():
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(optimizer=DistributedOptimizer(keras.optimizers.Adam()), loss="mse")
    assert not model.built
    record = Record()
    fit(model, [BroadcastGlobalVariablesCallback(0), record], epochs=2)
    assert_equal_on_all_ranks(record.after)
    assert_equal_on_all_ranks(model.get_weights())
    assert_equal_on_all_ranks([v.numpy() for v in model.optimizer.variables])


def test_broadcast_leaves_the_seeds_of_dropout_alone():
    model = keras.Sequential(
        [keras.layers.Input((FEATURES,)), keras.layers.Dropout(0.5, seed=hvd.rank())]
    )
    seed = model.layers[0].seed_generator.state.numpy()
    model.compile(loss="mse", optimizer=DistributedOptimizer(keras.optimizers.SGD()))
    callback = BroadcastGlobalVariablesCallback(0)
    callback.set_model(model)
    callback.on_train_begin()
    np.testing.assert_array_equal(model.layers[0].seed_generator.state.numpy(), seed)


def test_metrics_are_averaged():
    model, local, averaged = model_of_rank(), Record(), Record()
    model.compile(
        optimizer=DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse", metrics=["mae"]
    )
    history = fit(
        model,
        [BroadcastGlobalVariablesCallback(0), local, MetricAverageCallback(), averaged],
        epochs=2,
        validation_data=data(100 + hvd.rank()),
    )
    for epoch in range(2):
        assert set(local.epochs[epoch]) == {"loss", "mae", "val_loss", "val_mae"}
        for key, mine in local.epochs[epoch].items():
            everyone = hvd.allgather(np.array([mine]), name=key).numpy()
            np.testing.assert_allclose(averaged.epochs[epoch][key], everyone.mean(), rtol=1e-12)
            assert history.history[key][epoch] == averaged.epochs[epoch][key]
    assert_equal_on_all_ranks([np.array(list(averaged.epochs[1].values()))])


def test_metrics_that_are_no_numbers_are_left_alone():
    callback = MetricAverageCallback()
    logs = {"loss": float(hvd.rank()), "note": "text", "steps": np.int64(2)}
    callback.on_epoch_end(0, logs)
    assert logs == {"loss": (hvd.size() - 1) / 2, "note": "text", "steps": 2.0}
    callback.on_epoch_end(0, {})
    callback.on_epoch_end(0, None)


def test_different_metrics_are_reported_on_every_rank():
    callback = MetricAverageCallback()
    logs = {"loss": 1.0, ("val_loss" if hvd.rank() == 0 else "other"): 2.0}
    if hvd.size() == 1:
        callback.on_epoch_end(0, logs)
        return
    with pytest.raises(ValueError, match="validate on all of them or on none"):
        callback.on_epoch_end(0, logs)


def test_moving_statistics_are_averaged():
    model = keras.Sequential(
        [
            keras.layers.Input((FEATURES,)),
            keras.Sequential([keras.layers.BatchNormalization()]),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer=DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    layer = model.layers[0].layers[0]
    kept = []

    class Keep(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            kept.append([layer.moving_mean.numpy(), layer.moving_variance.numpy()])

    fit(model, [BroadcastGlobalVariablesCallback(0), Keep(), AverageMovingStatisticsCallback()])
    statistics = [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
    for i, (mine, average) in enumerate(zip(kept[0], statistics, strict=True)):
        everyone = hvd.allgather(mine[None], name=f"statistic/{i}").numpy()
        if hvd.size() > 1:
            assert (everyone[0] != everyone[1]).any()
        np.testing.assert_allclose(average, everyone.mean(axis=0), rtol=1e-6)
    assert_equal_on_all_ranks(model.get_weights())


def test_moving_statistics_of_a_model_without_any():
    fit(model_of_rank(), [BroadcastGlobalVariablesCallback(0), AverageMovingStatisticsCallback()])
