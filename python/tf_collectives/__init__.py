"""NCCL-backed collective operations for TensorFlow and Keras 3.

Names and arguments follow Horovod's TensorFlow API, so that ``import tf_collectives as hvd`` is
most of a migration. Importing the package loads neither TensorFlow nor the runtime, because the
launcher ``tfcrun`` imports it too; the first use of a name does.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tf_collectives import _compatibility

if TYPE_CHECKING:
    from tf_collectives import errors, fusion, keras
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
    from tf_collectives.gpu import pin_gpu
    from tf_collectives.gradients import DistributedGradientTape
    from tf_collectives.ops.allgather import allgather, grouped_allgather
    from tf_collectives.ops.allreduce import allreduce, grouped_allreduce
    from tf_collectives.ops.broadcast import (
        broadcast,
        broadcast_,
        broadcast_variables,
        grouped_broadcast,
    )
    from tf_collectives.ops.reduction import Average, Max, Min, Product, Sum

__all__ = [
    "Average",
    "DistributedGradientTape",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_",
    "broadcast_variables",
    "cross_rank",
    "cross_size",
    "errors",
    "fusion",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_broadcast",
    "init",
    "is_initialized",
    "keras",
    "local_rank",
    "local_size",
    "op_library",
    "pin_gpu",
    "rank",
    "shutdown",
    "size",
]

_compatibility.check()

__version__ = _compatibility.VERSION

_SUBMODULES = ("errors", "fusion", "keras")

_DEFINED_IN = {
    "basics": (
        "cross_rank",
        "cross_size",
        "init",
        "is_initialized",
        "local_rank",
        "local_size",
        "rank",
        "shutdown",
        "size",
    ),
    "gpu": ("pin_gpu",),
    "gradients": ("DistributedGradientTape",),
    "ops": (
        "Average",
        "Max",
        "Min",
        "Product",
        "Sum",
        "allgather",
        "allreduce",
        "broadcast",
        "broadcast_",
        "broadcast_variables",
        "grouped_allgather",
        "grouped_allreduce",
        "grouped_broadcast",
    ),
}
_MODULE_OF = {name: module for module, names in _DEFINED_IN.items() for name in names}


def op_library() -> str:
    """Return the path of the op library, for ``tf.load_op_library``.

    The ops that TensorFlow generates from it are run one after the other in a ``tf.function``;
    the functions of this package overlap.
    """
    # In an editable installation the libraries lie elsewhere than the Python files.
    core = importlib.util.find_spec("tf_collectives._core")
    if core is None or core.origin is None:
        raise ImportError("tf_collectives has no compiled modules. Install it again: pip install .")
    return str(Path(core.origin).with_name("tf_collectives_ops.so"))


if not TYPE_CHECKING:
    # A type checker would take any name for defined.

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _MODULE_OF:
            value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
