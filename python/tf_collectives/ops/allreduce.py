"""Allreduce: every rank gets the sum, average, minimum, maximum or product over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import names
from tf_collectives.ops import sparse
from tf_collectives.ops.adjoint import differentiable_indices
from tf_collectives.ops.library import native, overlapping, placed_on
from tf_collectives.ops.reduction import ReduceOp, differentiable, resolve

__all__ = ["allreduce", "grouped_allreduce"]


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    *,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> Any:
    """Reduce a tensor over all ranks.

    Args:
        tensor: A ``tf.Tensor``, a variable, or anything that converts to a tensor, of one shape
            and dtype on all ranks: uint8, int8, int32, int64, float16, bfloat16, float32 or
            float64. 16-bit floats are summed in float32; the average of integers is truncated
            toward zero. Or a ``tf.IndexedSlices``, whose rows may differ in number by rank: rows of
            all ranks are gathered, and their sum or average is the ``tf.IndexedSlices`` returned.
        average: Deprecated, True for ``op=Average`` and False for ``op=Sum``.
        device_dense: Device on which to reduce a tensor, as for ``tf.device``.
        device_sparse: Device on which to reduce a ``tf.IndexedSlices``.
        op: Average (the default), Sum, Min, Max or Product; the first two for ``tf.IndexedSlices``.
        prescale_factor: Number by which each rank's tensor is multiplied first.
        postscale_factor: Number by which the result is multiplied.
        name: The same on all ranks that shall reduce together, see :mod:`tf_collectives.names`. May
            be left out where all ranks make the same unnamed calls in the same order.

    Returns:
        The reduced tensor, of the shape and dtype of ``tensor`` and equal on all ranks.

    Raises:
        tf.errors.InvalidArgumentError: ranks disagree on shape, dtype, op or factors, or the dtype
            is not supported.
        tf.errors.FailedPreconditionError: before ``init()``.
        tf.errors.UnavailableError: a rank died or has left.
        tf.errors.DeadlineExceededError: a rank didn't come within ``TFC_TIMEOUT_SECONDS``.
        ValueError: Min, Max or Product of a ``tf.IndexedSlices``.

    Gradient:
        Of Sum: the upstream gradients of all ranks, summed; of Average: averaged; both with the
        same two factors. Min, Max and Product raise NonDifferentiableError.
    """
    reduce_op = resolve(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        factor = prescale_factor * postscale_factor
        with placed_on(device_sparse):
            return sparse.allreduce([tensor], reduce_op, factor, name)[0]
    # A call on a few bytes takes some ten microseconds, so nothing is entered without need.
    if device_dense:
        with placed_on(device_dense):
            return _allreduce(tensor, reduce_op, prescale_factor, postscale_factor, name)
    return _allreduce(tensor, reduce_op, prescale_factor, postscale_factor, name)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    *,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> list[Any]:
    """Reduce several tensors over all ranks as one unit.

    All of them are reduced together, or none. Dtypes and shapes may differ within the group, and
    are the same on all ranks at each position. ``tf.IndexedSlices`` form a unit of their own.

    Args:
        tensors: The tensors, as many on each rank. Of none, none are returned.
        average: As for :func:`allreduce`, like all other arguments.
        device_dense: Device for the tensors.
        device_sparse: Device for the ``tf.IndexedSlices``.
        op: The reduction.
        prescale_factor: Applied before.
        postscale_factor: Applied after.
        name: Name of the group.

    Returns:
        The reduced tensors in the same order.

    Raises:
        tf.errors.InvalidArgumentError: also where the number of tensors differs; and the others
            of :func:`allreduce`.

    Gradient:
        As for :func:`allreduce`, reduced as one unit again.
    """
    reduce_op = resolve(average, op)
    results = list(tensors)
    slices = [i for i, t in enumerate(results) if isinstance(t, tf.IndexedSlices)]
    dense = [i for i in range(len(results)) if i not in set(slices)]
    if dense:
        with placed_on(device_dense):
            reduced = overlapping(
                native.collectives_grouped_all_reduce(
                    [results[i] for i in dense],
                    tensor_name=names.of_call("grouped_allreduce", name),
                    reduce_op=reduce_op.value,
                    prescale_factor=_decimal(prescale_factor),
                    postscale_factor=_decimal(postscale_factor),
                )
            )
        for i, tensor in zip(dense, reduced, strict=True):
            results[i] = tensor
    if slices:
        with placed_on(device_sparse):
            gathered = sparse.allreduce(
                [results[i] for i in slices], reduce_op, prescale_factor * postscale_factor, name
            )
        for i, tensor in zip(slices, gathered, strict=True):
            results[i] = tensor
    return results


def _allreduce(
    tensor: Any,
    reduce_op: ReduceOp,
    prescale_factor: float,
    postscale_factor: float,
    name: str | None,
) -> Any:
    return overlapping(
        native.collectives_all_reduce(
            tensor,
            tensor_name=names.of_call("allreduce", name),
            reduce_op=reduce_op.value,
            prescale_factor=_decimal(prescale_factor),
            postscale_factor=_decimal(postscale_factor),
        )
    )


def _decimal(factor: float) -> str:
    # A float attribute of a TensorFlow op has single precision only.
    return "1" if factor == 1 else repr(float(factor))


def _all_reduce_gradient(op: Any, upstream: Any) -> Any:
    return overlapping(
        native.collectives_all_reduce(
            tf.convert_to_tensor(upstream),
            reduce_op=differentiable(op),
            prescale_factor=op.get_attr("prescale_factor"),
            postscale_factor=op.get_attr("postscale_factor"),
            tensor_name=names.of_gradient(op),
        )
    )


def _grouped_all_reduce_gradient(op: Any, *upstream: Any) -> list[Any]:
    gradients: list[Any] = [None] * len(upstream)
    indices = differentiable_indices(upstream)
    reduced = overlapping(
        native.collectives_grouped_all_reduce(
            [tf.convert_to_tensor(upstream[i]) for i in indices],
            reduce_op=differentiable(op),
            prescale_factor=op.get_attr("prescale_factor"),
            postscale_factor=op.get_attr("postscale_factor"),
            tensor_name=names.of_gradient(op),
        )
    )
    for i, gradient in zip(indices, reduced, strict=True):
        gradients[i] = gradient
    return gradients


tf.RegisterGradient("Collectives>AllReduce")(_all_reduce_gradient)
tf.RegisterGradient("Collectives>GroupedAllReduce")(_grouped_all_reduce_gradient)
