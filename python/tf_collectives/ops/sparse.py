"""Allreduce of ``tf.IndexedSlices``, the gradients of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import basics
from tf_collectives.ops.allgather import grouped_allgather
from tf_collectives.ops.reduction import Average, ReduceOp, Sum

__all__ = ["allreduce"]


def allreduce(
    slices: Sequence[Any], reduce_op: ReduceOp, factor: float, name: str | None
) -> list[Any]:
    """Reduce ``tf.IndexedSlices`` as one unit, by gathering the rows and indices of all ranks.

    Each rank sends a row once, however often its index occurs: a batch of text has few different
    words, and all ranks receive what every one sends.
    """
    if reduce_op not in (Average, Sum):
        raise ValueError(
            f"op={reduce_op} of tf.IndexedSlices: only Average and Sum can be told from rows. "
            "Convert them to a tensor first (tf.convert_to_tensor)."
        )
    if reduce_op is Average:
        factor /= basics.size()
    if factor != 1.0 and not all(s.dtype.is_floating or s.dtype.is_complex for s in slices):
        raise ValueError(
            "tf.IndexedSlices of integers can be summed, but neither averaged nor scaled. Pass "
            "op=Sum and leave the factors out."
        )
    merged = [_merge(s) for s in slices]
    gathered = grouped_allgather(
        [part for values, indices in merged for part in (values, indices)],
        name=None if name is None else f"{name}/slices",
    )
    return [
        tf.IndexedSlices(
            values if factor == 1.0 else values * tf.cast(factor, values.dtype),
            indices,
            s.dense_shape,
        )
        for values, indices, s in zip(gathered[::2], gathered[1::2], slices, strict=True)
    ]


def _merge(slices: Any) -> tuple[Any, Any]:
    """Return values and indices with the rows of each index added up."""
    indices, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(indices))
    return values, indices
