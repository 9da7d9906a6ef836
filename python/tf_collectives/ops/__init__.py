"""The collectives: one module each, with its functions and then its gradients."""

from __future__ import annotations

from tf_collectives.ops.allgather import allgather, grouped_allgather
from tf_collectives.ops.allreduce import allreduce, grouped_allreduce
from tf_collectives.ops.broadcast import (
    broadcast,
    broadcast_,
    broadcast_variables,
    grouped_broadcast,
)
from tf_collectives.ops.reduction import Average, Max, Min, Product, ReduceOp, Sum

__all__ = [
    "Average",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_",
    "broadcast_variables",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_broadcast",
]
