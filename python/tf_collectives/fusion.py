"""The tensor-fusion buffer manager: which collectives travel together, and what came of it.

Tensors that are ready at the same time are sent in batches, because a small message costs almost as
much as a larger one. A batch holds tensors of one dtype and one reduction, up to a number of bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tf_collectives import _core

__all__ = [
    "Batch",
    "Statistics",
    "plan",
    "reset_statistics",
    "set_threshold",
    "statistics",
    "threshold",
]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Tensors that travel together.

    Attributes:
        indices: Their positions in the list that was planned.
        dtype: Their dtype.
        bytes: Their size in all.
    """

    indices: tuple[int, ...]
    dtype: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What was sent since the start or the last :func:`reset_statistics`.

    Attributes:
        tensors: Number of tensors.
        batches: Number of batches that they travelled in.
        bytes: Their size in all.
        cache_hits: Number of tensors that the response cache knew, so that one bit announced each.
        cache_misses: Number of tensors that had to be described in full.
    """

    tensors: int
    batches: int
    bytes: int
    cache_hits: int
    cache_misses: int

    @property
    def mean_batch_tensors(self) -> float:
        """Mean number of tensors in a batch."""
        return self.tensors / self.batches if self.batches else 0.0

    @property
    def mean_batch_bytes(self) -> float:
        """Mean size of a batch in bytes."""
        return self.bytes / self.batches if self.batches else 0.0


def threshold() -> int:
    """Return the largest size in bytes of a batch; 0 means that every tensor travels alone.

    It starts as ``TFC_FUSION_THRESHOLD``. A tensor over it, and a group of :mod:`grouped
    <tf_collectives.ops>` tensors, travels nevertheless, as a batch of its own.
    """
    return _core.fusion_threshold()


def set_threshold(size_in_bytes: int) -> None:
    """Set the largest size of a batch for what is submitted from now on.

    Rank 0 plans for all ranks, so its setting is the one that counts.
    """
    if size_in_bytes < 0:
        raise ValueError(f"The threshold is {size_in_bytes} bytes. It must be 0 or more.")
    _core.set_fusion_threshold(size_in_bytes)


def plan(tensors: Iterable[Any]) -> list[Batch]:
    """Return the batches in which these tensors would travel if all were ready at once.

    Args:
        tensors: Anything with a ``dtype`` and a fully known ``shape``: tensors, variables, arrays,
            or ``tf.TensorSpec``.
    """
    described = [_describe(tensor) for tensor in tensors]
    return [
        Batch(
            indices=tuple(indices),
            dtype=described[indices[0]][0],
            bytes=sum(described[i][1] for i in indices),
        )
        for indices in _core.fusion_plan(described)
    ]


def statistics() -> Statistics:
    """Return the counters of this process."""
    counters = _core.statistics()
    return Statistics(**{f.name: counters[f.name] for f in dataclasses.fields(Statistics)})


def reset_statistics() -> None:
    """Set all counters of this process to zero."""
    _core.reset_statistics()


def _describe(tensor: Any) -> tuple[str, int]:
    dtype = tf.as_dtype(tensor.dtype)
    elements = tf.TensorShape(tensor.shape).num_elements()
    if elements is None:
        raise ValueError(f"{tensor!r} has no known size. Give all dimensions of its shape.")
    return dtype.name, elements * dtype.size
