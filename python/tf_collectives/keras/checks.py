"""Refuses what looks like Keras 3 on TensorFlow and is something else."""

from __future__ import annotations

from typing import Any

import keras

from tf_collectives.errors import UnsupportedBackendError, UnsupportedOptimizerError

__all__ = ["check_backend", "check_optimizer"]

_OLD_MODULES = ("tf_keras", "keras.optimizers.legacy", "tensorflow.python.training")


def check_backend() -> None:
    """Raise UnsupportedBackendError unless Keras computes with TensorFlow."""
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise UnsupportedBackendError(
            f"Keras uses the {backend} backend, and tf_collectives reduces gradients of TensorFlow "
            "only. Set the environment variable KERAS_BACKEND=tensorflow before Keras is imported, "
            'or "backend" in ~/.keras/keras.json.'
        )


def check_optimizer(optimizer: Any) -> None:
    """Raise UnsupportedOptimizerError unless this is an optimizer of Keras 3."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return
    kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    if kind.startswith(_OLD_MODULES):
        raise UnsupportedOptimizerError(
            f"{kind} is an optimizer of Keras 2 or TensorFlow 1, and DistributedOptimizer wraps "
            "those of Keras 3. Unset TF_USE_LEGACY_KERAS and take keras.optimizers, or keep the "
            "optimizer and reduce with tf_collectives.DistributedGradientTape."
        )
    raise UnsupportedOptimizerError(
        f"{optimizer!r} is no optimizer of Keras 3. Pass an instance, as in "
        "DistributedOptimizer(keras.optimizers.Adam(1e-3))."
    )
