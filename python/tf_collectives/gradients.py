"""Reduction of gradients, by a tape or by an optimizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import names, reduced
from tf_collectives.ops import Average, ReduceOp, Sum, allreduce, grouped_allreduce

__all__ = ["DistributedGradientTape", "check_gradient_reduction", "op_label", "reduce_gradients"]

_OPTIONS = "_tf_collectives_options"


def DistributedGradientTape(  # noqa: N802
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    *,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
) -> tf.GradientTape:
    """Wrap a tape so that its gradients are reduced over all ranks.

    ::

        with tf.GradientTape() as tape:
            loss = ...
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)

    The result is a ``tf.GradientTape`` that shares its recording with the one given, so it does not
    matter which of the two records, watches or is reset. Only ``gradient`` differs: what it
    returns is equal on all ranks. ``jacobian`` and ``batch_jacobian`` return this rank's own. All
    ranks must ask for the gradients of the same sources. One that is None must be None on all.

    In a ``tf.function`` each gradient is reduced by an op of its own, as soon as it is there, while
    others are still being computed. In eager code all are reduced together, after the last.

    Args:
        gradtape: The tape, before, while or after it records.
        device_dense: Device on which to reduce dense gradients, as for ``tf.device``.
        device_sparse: Device on which to reduce ``tf.IndexedSlices``.
        sparse_as_dense: Convert ``tf.IndexedSlices`` to dense tensors first. Better where many rows
            have a gradient; without it, rows are gathered.
        op: Average (the default) or Sum.

    Raises:
        TypeError: ``gradtape`` is not a ``tf.GradientTape``.
        ValueError: ``op`` is another reduction, or ``gradtape`` is distributed already.
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise TypeError(
            f"gradtape is {gradtape!r}. Pass the tape itself: "
            "DistributedGradientTape(tf.GradientTape())."
        )
    if isinstance(gradtape, _DistributedTape):
        raise ValueError("This tape is distributed already. Wrap it once.")
    check_gradient_reduction(op)
    tape = _distributed_type(type(gradtape))
    distributed: Any = object.__new__(tape)
    # One dictionary for both objects: whichever of them records, the other knows.
    distributed.__dict__ = gradtape.__dict__
    setattr(
        distributed,
        _OPTIONS,
        {
            "op": op,
            "sparse_as_dense": sparse_as_dense,
            "device_dense": device_dense,
            "device_sparse": device_sparse,
        },
    )
    return distributed


class _DistributedTape:
    """Mixed into the class of a tape."""

    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = super().gradient(target, sources, *args, **kwargs)  # type: ignore[misc]
        flat_sources = tf.nest.flatten(sources)
        flat = tf.nest.flatten(gradients)
        result = reduce_gradients(
            flat,
            names.scope("DistributedGradientTape"),
            labels=[op_label(source) for source in flat_sources],
            **getattr(self, _OPTIONS),
        )
        reduced.mark(flat_sources, result)
        return tf.nest.pack_sequence_as(gradients, result)

    def jacobian(self, *args: Any, **kwargs: Any) -> Any:
        return self._local().jacobian(*args, **kwargs)

    def batch_jacobian(self, *args: Any, **kwargs: Any) -> Any:
        return self._local().batch_jacobian(*args, **kwargs)

    def _local(self) -> Any:
        """Return the tape that was wrapped: a Jacobian is made of many calls of ``gradient``."""
        tape = type(self).__bases__[1]
        local: Any = object.__new__(tape)
        local.__dict__ = self.__dict__
        return local


_types: dict[type, type] = {}


def _distributed_type(tape: type) -> type:
    if tape not in _types:
        _types[tape] = type(f"Distributed{tape.__name__}", (_DistributedTape, tape), {})
    return _types[tape]


def check_gradient_reduction(op: ReduceOp) -> None:
    """Raise ValueError for a reduction that makes no sense of gradients."""
    if op not in (Average, Sum):
        raise ValueError(f"op={op!r} of gradients. It must be Average or Sum.")


def reduce_gradients(
    gradients: Sequence[Any],
    scope: str,
    *,
    op: ReduceOp | Sequence[ReduceOp],
    labels: Sequence[str] | None = None,
    sparse_as_dense: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
) -> list[Any]:
    """Return the gradients reduced over all ranks; those that are None stay None.

    Args:
        gradients: Dense, ``tf.IndexedSlices`` or None.
        scope: Prefix of the names, from :func:`tf_collectives.names.scope`.
        op: One reduction for all, or one for each.
        labels: Names of the ops in the graph, seen in TensorFlow's error messages. Ranks may have
            different ones.
        sparse_as_dense: Convert ``tf.IndexedSlices`` to tensors first.
        device_dense: Device for tensors.
        device_sparse: Device for ``tf.IndexedSlices``.
    """
    reductions = [op] * len(gradients) if isinstance(op, ReduceOp) else list(op)
    results = list(gradients)
    if sparse_as_dense:
        results = [
            tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in results
        ]
    present = [i for i, gradient in enumerate(results) if gradient is not None]
    if tf.executing_eagerly():
        for reduction in dict.fromkeys(reductions[i] for i in present):
            indices = [i for i in present if reductions[i] is reduction]
            group = grouped_allreduce(
                [results[i] for i in indices],
                device_dense=device_dense,
                device_sparse=device_sparse,
                op=reduction,
                name=f"{scope}/{reduction.value}",
            )
            for i, gradient in zip(indices, group, strict=True):
                results[i] = gradient
        return results
    for i in present:
        with tf.name_scope(labels[i] if labels else f"gradient_{i}"):
            results[i] = allreduce(
                results[i],
                device_dense=device_dense,
                device_sparse=device_sparse,
                op=reductions[i],
                name=f"{scope}/gradient_{i}",
            )
    return results


def op_label(source: Any) -> str:
    """Return the name of a variable, in the characters that a TensorFlow scope may have."""
    name = str(getattr(source, "path", None) or getattr(source, "name", None) or "gradient")
    return re.sub(r"[^A-Za-z0-9_.\-/]", "_", name.partition(":")[0]).strip("_-/") or "gradient"
