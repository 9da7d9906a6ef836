"""The optimizer that reduces gradients over all ranks before another one applies them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras

from tf_collectives import names, reduced
from tf_collectives.errors import UnsupportedOptimizerError
from tf_collectives.gradients import check_gradient_reduction, op_label, reduce_gradients
from tf_collectives.keras import hooks
from tf_collectives.keras.checks import check_backend, check_optimizer
from tf_collectives.ops import Average, Max, ReduceOp

__all__ = ["DistributedOptimizer", "find_distributed"]

_OPTIONS = ("device_dense", "device_sparse", "sparse_as_dense", "op")
_OWN_ATTRIBUTES = {"inner_optimizer", "name", *_OPTIONS}


@keras.saving.register_keras_serializable(package="tf_collectives")
class DistributedOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Wraps an optimizer of Keras 3 so that gradients are reduced before they are applied.

    ::

        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3))
        model.compile(optimizer=optimizer, loss=...)

    Works in ``model.fit``, and in loops of your own through ``apply`` or ``apply_gradients``.
    Gradients are reduced before clipping, weight decay, gradient accumulation and everything else
    that the inner optimizer does, so from equal weights all ranks come to equal weights. Gradients
    that a :func:`~tf_collectives.DistributedGradientTape` has reduced are not reduced again.

    The hyperparameters, ``learning_rate``, ``iterations`` and ``variables`` are those of the inner
    optimizer, to read and to set. Where it accumulates gradients (``gradient_accumulation_steps``),
    the gradients of every step are reduced, and what it accumulates is equal on all ranks.
    Variables with ``overwrite_with_gradient`` (the scales of float8) get the largest value of all
    ranks. Of a :class:`keras.optimizers.LossScaleOptimizer` it may be the inner or the outer one:
    an infinity on one rank makes all ranks skip the step.

    It is saved with the model, with the inner optimizer and its state. A program that loads the
    model must import this module first.

    Args:
        optimizer: The optimizer that applies the gradients. One that is built keeps its variables.
        name: Prefix of the names of the collectives, the same on all ranks.
        device_dense: Device on which to reduce dense gradients, as for ``tf.device``.
        device_sparse: Device on which to reduce ``tf.IndexedSlices``.
        sparse_as_dense: Convert ``tf.IndexedSlices`` to dense tensors first.
        op: Average (the default) or Sum.

    Raises:
        UnsupportedOptimizerError: (a TypeError) ``optimizer`` is not one of Keras 3, or is
            distributed already.
        UnsupportedBackendError: (a TypeError) Keras uses another backend than TensorFlow.
        ValueError: ``op`` is another reduction.
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        *,
        sparse_as_dense: bool = False,
        op: ReduceOp = Average,
    ) -> None:
        check_backend()
        check_optimizer(optimizer)
        if find_distributed(optimizer) is not None:
            raise UnsupportedOptimizerError(
                f"{optimizer!r} is distributed already. Wrap an optimizer once, or its gradients "
                "would be reduced twice."
            )
        check_gradient_reduction(op)
        super().__init__(learning_rate=0.0, name=name or f"distributed_{optimizer.name}")
        # What the base class has set here are hyperparameters, and those of the inner optimizer
        # are the ones that count.
        for attribute in list(vars(self)):
            if not attribute.startswith("_") and attribute not in _OWN_ATTRIBUTES:
                del self.__dict__[attribute]
        self._scope = name or "DistributedOptimizer"
        self._is_reduced = False
        self.device_dense = device_dense
        self.device_sparse = device_sparse
        self.sparse_as_dense = sparse_as_dense
        self.op = op
        self.inner_optimizer = optimizer

    def reduce(self, gradients: Iterable[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the gradients of these variables reduced over all ranks."""
        gradients = list(gradients)
        is_reduced = reduced.take(variables, gradients)
        result = reduce_gradients(
            [None if done else g for g, done in zip(gradients, is_reduced, strict=True)],
            names.scope(self._scope),
            op=[self._op_for(v) for v in variables],
            labels=[op_label(v) for v in variables],
            sparse_as_dense=self.sparse_as_dense,
            device_dense=self.device_dense,
            device_sparse=self.device_sparse,
        )
        return [
            own if done else other
            for own, other, done in zip(gradients, result, is_reduced, strict=True)
        ]

    def _op_for(self, variable: Any) -> ReduceOp:
        return Max if getattr(variable, "overwrite_with_gradient", False) else self.op

    @contextlib.contextmanager
    def reduced_beforehand(self) -> Iterator[None]:
        """Let ``apply`` take the gradients as they are."""
        previous, self._is_reduced = self._is_reduced, True
        try:
            yield
        finally:
            self._is_reduced = previous

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Reduce the gradients over all ranks, and let the inner optimizer apply them."""
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        variables = trainable_variables
        if variables is None:
            variables = self.inner_optimizer._trainable_variables
        # The inner optimizer has better words for lists of different lengths.
        if not self._is_reduced and len(grads) == len(variables):
            grads = self.reduce(grads, variables)
        self.inner_optimizer.apply(grads, trainable_variables)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> Any:
        """Do the same for pairs of gradient and variable, and return the iterations."""
        grads, variables = zip(*grads_and_vars, strict=True)
        self.apply(grads, variables)
        return self.iterations

    def build(self, variables: Sequence[Any]) -> None:
        """Create the variables of the inner optimizer."""
        self.inner_optimizer.build(variables)

    @property
    def variables(self) -> list[Any]:
        """The variables of the inner optimizer."""
        return list(self.inner_optimizer.variables)

    @property
    def iterations(self) -> Any:
        """The number of steps that the inner optimizer has made."""
        return self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, value: Any) -> None:
        # Older versions of Keras 3 set it in the constructor, before there is an inner optimizer.
        if "inner_optimizer" in self.__dict__:
            self.inner_optimizer.iterations = value

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    def scale_loss(self, loss: Any) -> Any:
        """Scale a loss as the inner optimizer does."""
        return self.inner_optimizer.scale_loss(loss)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Overwrite the variables with their moving averages if the inner optimizer keeps them."""
        self.inner_optimizer.finalize_variable_values(var_list)

    def exclude_from_weight_decay(self, *args: Any, **kwargs: Any) -> None:
        """Exclude variables from the weight decay of the inner optimizer."""
        self.inner_optimizer.exclude_from_weight_decay(*args, **kwargs)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the variables of the inner optimizer."""
        self.inner_optimizer.set_weights(weights)

    def save_own_variables(self, store: Any) -> None:
        """Save nothing: Keras saves the inner optimizer by itself, since it is an attribute."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing, for the same reason."""

    def get_config(self) -> dict[str, Any]:
        """Return the options and the serialized inner optimizer."""
        return {
            "optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "name": self.name,
            **{option: getattr(self, option) for option in _OPTIONS},
            "op": self.op.value,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Create an optimizer from what :meth:`get_config` returned."""
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(
            config.pop("optimizer"), custom_objects=custom_objects
        )
        return cls(optimizer, op=ReduceOp(config.pop("op")), **config)

    def __getattr__(self, name: str) -> Any:
        # Private attributes are bookkeeping of each object. The moving averages are an exception,
        # because a callback of Keras (SwapEMAWeights) reads them.
        inner = self.__dict__.get("inner_optimizer")
        if inner is None or (name.startswith("_") and name != "_model_variables_moving_average"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get("inner_optimizer")
        if inner is None or name.startswith("_") or name in _OWN_ATTRIBUTES:
            super().__setattr__(name, value)
        else:
            setattr(inner, name, value)


def find_distributed(optimizer: Any) -> DistributedOptimizer | None:
    """Return the DistributedOptimizer that an optimizer is or that it holds, if any."""
    while optimizer is not None:
        if isinstance(optimizer, DistributedOptimizer):
            return optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return None


hooks.install(find_distributed)
