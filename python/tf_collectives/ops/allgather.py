"""Allgather: every rank gets the tensors of all ranks, one after the other along the first axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import basics, names
from tf_collectives.ops.adjoint import differentiable_indices, sum_over_ranks
from tf_collectives.ops.library import native, overlapping

__all__ = ["allgather", "grouped_allgather"]


def allgather(tensor: Any, name: str | None = None) -> Any:
    """Concatenate the tensors of all ranks along the first dimension, in rank order.

    Args:
        tensor: A ``tf.Tensor``, a variable, or anything that converts to a tensor, with at least
            one dimension. All dimensions but the first are the same on all ranks; the first may
            differ and be zero. Any integer, floating or complex dtype, or bool.
        name: The same on all ranks that shall gather together, see :mod:`tf_collectives.names`. May
            be left out where all ranks make the same unnamed calls in the same order.

    Returns:
        A tensor, equal on all ranks, whose first dimension is the sum of all ranks' first
        dimensions.

    Raises:
        tf.errors.InvalidArgumentError: ranks disagree on dtype or on a dimension other than the
            first, the tensor is a scalar, or the dtype is not supported.
        tf.errors.FailedPreconditionError: before ``init()``.
        tf.errors.UnavailableError: a rank died or has left.
        tf.errors.DeadlineExceededError: a rank didn't come within ``TFC_TIMEOUT_SECONDS``.

    Gradient:
        The upstream gradients of all ranks, summed, and of that the rows that came from this rank.
    """
    output, _ = overlapping(
        native.collectives_all_gather(tensor, tensor_name=names.of_call("allgather", name))
    )
    return output


def grouped_allgather(tensors: Sequence[Any], name: str | None = None) -> list[Any]:
    """Gather several tensors as one unit: all of them are gathered together, or none.

    Args:
        tensors: The tensors, as many on each rank. Of none, none are returned.
        name: Name of the group, as for :func:`allgather`.

    Returns:
        The gathered tensors in the same order.

    Raises:
        tf.errors.InvalidArgumentError: also where the number of tensors differs; and the others
            of :func:`allgather`.

    Gradient:
        As for :func:`allgather`, reduced as one unit again.
    """
    if not tensors:
        return []
    outputs, _ = overlapping(
        native.collectives_grouped_all_gather(
            list(tensors), tensor_name=names.of_call("grouped_allgather", name)
        )
    )
    return list(outputs)


def _rows_of_this_rank(gathered: Any, sizes: Any, tensor: Any) -> Any:
    rank = basics.rank()
    begin = tf.reduce_sum(sizes[:rank])
    rows = gathered[begin : begin + sizes[rank]]
    return tf.ensure_shape(rows, tensor.shape)


def _all_gather_gradient(op: Any, upstream: Any, _: Any) -> Any:
    (summed,) = sum_over_ranks(op, [upstream])
    return _rows_of_this_rank(summed, op.outputs[1], op.inputs[0])


def _grouped_all_gather_gradient(op: Any, *upstream: Any) -> list[Any]:
    upstream = upstream[:-1]
    gradients: list[Any] = [None] * len(upstream)
    indices = differentiable_indices(upstream)
    sizes = op.outputs[-1]
    for i, summed in zip(indices, sum_over_ranks(op, [upstream[i] for i in indices]), strict=True):
        gradients[i] = _rows_of_this_rank(summed, sizes[i], op.inputs[i])
    return gradients


tf.RegisterGradient("Collectives>AllGather")(_all_gather_gradient)
tf.RegisterGradient("Collectives>GroupedAllGather")(_grouped_all_gather_gradient)
