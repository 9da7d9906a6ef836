"""Data-parallel training with Keras 3: an optimizer that reduces gradients, and callbacks.

``import tf_collectives.keras as hvd`` has all that a training script with ``model.fit`` needs.
"""

from __future__ import annotations

from tf_collectives.basics import (
    cross_rank,
    cross_size,
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from tf_collectives.keras import callbacks
from tf_collectives.keras.optimizer import DistributedOptimizer
from tf_collectives.ops import (
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allreduce,
    broadcast,
    broadcast_variables,
)

__all__ = [
    "Average",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_variables",
    "callbacks",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]
