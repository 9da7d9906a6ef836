"""Callbacks that keep the ranks of a ``model.fit`` in step."""

from __future__ import annotations

import zlib
from typing import Any

import keras
import numpy as np

from tf_collectives.keras.checks import check_backend
from tf_collectives.ops import Average, allgather, allreduce, broadcast_variables, grouped_allreduce
from tf_collectives.ops.library import placed_on

__all__ = [
    "AverageMovingStatisticsCallback",
    "BroadcastGlobalVariablesCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Starts training on all ranks from the weights and optimizer state of one.

    Needed where weights are initialized at random, or where one rank alone has loaded them. It runs
    at the begin of each ``fit``, before the first step, and builds the optimizer if need be. A
    model that gets its weights from the first batch of data has none by then; its weights are
    broadcast right after the first step.

    Args:
        root_rank: The rank that has the weights.
        device: Device on which to broadcast, as for ``tf.device``.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        check_backend()
        self.root_rank = root_rank
        self.device = device
        self._broadcast = 0
        self._is_first_batch = True

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002, D102
        self._broadcast = 0
        self._is_first_batch = True
        if self.model.built:
            optimizer = self.model.optimizer
            if optimizer is not None and not optimizer.built:
                optimizer.build(self.model.trainable_variables)
            self._send()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002, D102
        if self._is_first_batch:
            self._is_first_batch = False
            if len(self._variables()) != self._broadcast:
                self._send()

    def _send(self) -> None:
        variables = self._variables()
        with placed_on(self.device):
            broadcast_variables(variables, self.root_rank, name="BroadcastGlobalVariablesCallback")
        self._broadcast = len(variables)

    def _variables(self) -> list[Any]:
        optimizer = self.model.optimizer
        return [*self.model.weights, *([] if optimizer is None else optimizer.variables)]


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the metrics of an epoch over all ranks.

    Put it before the callbacks that read metrics (ModelCheckpoint, EarlyStopping,
    ReduceLROnPlateau, ...), because otherwise these decide differently on each rank. ``fit``'s
    history and its progress output at the end of an epoch get the averages too.

    The average is one over ranks, with equal weight. It is that over all examples if ranks have the
    same number of them, and for metrics that are themselves averages, such as loss and accuracy.

    Args:
        device: Device on which to reduce, as for ``tf.device``.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        check_backend()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002, D102
        if logs is None:
            return
        keys = sorted(k for k, v in logs.items() if isinstance(v, (int, float, np.number)))
        with placed_on(self.device):
            _check_same_metrics(keys)
            if keys:
                values = np.array([logs[key] for key in keys], np.float64)
                averages = allreduce(values, op=Average, name="MetricAverageCallback")
                logs.update(zip(keys, averages.numpy().tolist(), strict=True))


class AverageMovingStatisticsCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the moving mean and variance of BatchNormalization layers at the end of each epoch.

    They are no gradients, so nothing else synchronises them: each rank normalizes with what it saw
    of the data. Put it before callbacks that save the model. The validation that ``fit`` does at
    the end of an epoch comes before, and so uses each rank's own.

    Args:
        device: Device on which to reduce, as for ``tf.device``.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        check_backend()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002, D102
        statistics = [
            statistic
            for layer in self.model._flatten_layers()
            if isinstance(layer, keras.layers.BatchNormalization)
            for statistic in (layer.moving_mean, layer.moving_variance)
        ]
        with placed_on(self.device):
            averages = grouped_allreduce(
                statistics, op=Average, name="AverageMovingStatisticsCallback"
            )
        for statistic, average in zip(statistics, averages, strict=True):
            statistic.assign(average)


def _check_same_metrics(keys: list[str]) -> None:
    checksum = np.array([zlib.crc32("\n".join(keys).encode())], np.uint32)
    checksums = allgather(checksum, name="MetricAverageCallback/names").numpy()
    if (checksums != checksum).any():
        raise ValueError(
            f"MetricAverageCallback: ranks have different metrics. This rank has {keys}. Compile "
            "the model with the same metrics on all ranks, and validate on all of them or on none."
        )
