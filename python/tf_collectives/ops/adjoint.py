"""What the gradients of several collectives share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import names
from tf_collectives.ops.library import native, overlapping
from tf_collectives.ops.reduction import Sum

__all__ = ["differentiable_indices", "sum_over_ranks"]


def differentiable_indices(upstream: Sequence[Any]) -> list[int]:
    """Return the positions in a group that have a gradient: those of integers have none."""
    return [
        i
        for i, gradient in enumerate(upstream)
        if gradient is not None and (gradient.dtype.is_floating or gradient.dtype.is_complex)
    ]


def sum_over_ranks(op: Any, upstream: Sequence[Any]) -> list[Any]:
    """Return the upstream gradients of a collective, each summed over all ranks.

    Args:
        op: The forward op, which gives the name.
        upstream: Gradients of floating or complex type, dense or ``tf.IndexedSlices``.
    """
    dense = [tf.convert_to_tensor(gradient) for gradient in upstream]
    name = names.of_gradient(op)
    # AllReduce has no complex types; the sum of complex numbers is that of their two parts.
    parts = [_to_real(gradient) for gradient in dense]
    if len(parts) == 1:
        summed = [native.collectives_all_reduce(parts[0], tensor_name=name, reduce_op=Sum.value)]
    else:
        summed = native.collectives_grouped_all_reduce(parts, tensor_name=name, reduce_op=Sum.value)
    overlapping(summed)
    return [_from_real(part, gradient.dtype) for part, gradient in zip(summed, dense, strict=True)]


def _to_real(tensor: Any) -> Any:
    if not tensor.dtype.is_complex:
        return tensor
    return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)])


def _from_real(tensor: Any, dtype: Any) -> Any:
    if not dtype.is_complex:
        return tensor
    return tf.complex(tensor[0], tensor[1])
