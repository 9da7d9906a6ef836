"""The reductions that an allreduce can do."""

from __future__ import annotations

import enum
import warnings
from typing import Any

from tf_collectives.errors import NonDifferentiableError

__all__ = ["Average", "Max", "Min", "Product", "ReduceOp", "Sum", "differentiable", "resolve"]


class ReduceOp(str, enum.Enum):
    """How the tensors of all ranks are combined, element by element.

    The value is what the op's ``reduce_op`` attribute holds.
    """

    AVERAGE = "average"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    PRODUCT = "product"

    def __str__(self) -> str:
        return self.name.capitalize()


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT


def resolve(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    """Return the reduction asked for by ``op``, or by Horovod's older argument ``average``."""
    if average is not None:
        if op is not None:
            raise ValueError("average and op say the same thing. Pass op only, as in op=Sum.")
        warnings.warn(
            "average=... is deprecated. Use op=Average or op=Sum.", DeprecationWarning, stacklevel=3
        )
        return Average if average else Sum
    if op is None:
        return Average
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op is {op!r}. It must be one of Average, Sum, Min, Max and Product.")
    return op


def differentiable(op: Any) -> str:
    """Return the ``reduce_op`` attribute of a forward op if that reduction has a gradient."""
    reduce_op = ReduceOp(_text(op.get_attr("reduce_op")))
    if reduce_op not in (Average, Sum):
        raise NonDifferentiableError(
            f"An allreduce with op={reduce_op} has no gradient. Use Average or Sum, or wrap its "
            "input in tf.stop_gradient."
        )
    return reduce_op.value


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
