"""The GPU of this process."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_collectives import basics
from tf_collectives.ops import allgather, broadcast

__all__ = ["pin_gpu"]


def pin_gpu() -> tf.config.PhysicalDevice | None:
    """Give this process the GPU of its local rank, with memory growth, and connect it.

    ::

        hvd.init()
        hvd.pin_gpu()

    All ranks call it, after ``init()`` and before TensorFlow uses a GPU. Without it the GPUs are
    connected at the first collective on one; problems with them show then.

    Returns:
        The GPU, or None on a machine without any, where it does nothing.

    Raises:
        RuntimeError: there are fewer GPUs than ranks on this machine, only some ranks have GPUs,
            or TensorFlow has used its GPUs already.
        tf.errors.OpError: the GPUs could not be connected; see the message.
    """
    gpus = tf.config.list_physical_devices("GPU")
    problem = _pin(gpus, basics.local_rank()) if gpus else ""
    # Only now, because the first op makes TensorFlow choose its devices for good.
    with tf.device("/CPU:0"):
        outcomes = allgather(np.array([[len(gpus), bool(problem)]]), name="pin_gpu").numpy()
    if problem:
        raise RuntimeError(f"pin_gpu(): {problem}")
    failed = np.flatnonzero(outcomes[:, 1]).tolist()
    if failed:
        raise RuntimeError(f"pin_gpu() failed on ranks {failed}. Their own errors say why.")
    if not gpus and not outcomes.any():
        return None
    without = np.flatnonzero(outcomes[:, 0] == 0).tolist()
    if without:
        raise RuntimeError(
            f"pin_gpu(): ranks {without} see no GPU and the others do. Install the same TensorFlow "
            "and drivers for all, or hide the GPUs from all: CUDA_VISIBLE_DEVICES=."
        )
    with tf.device("/GPU:0"):
        broadcast(np.zeros([1], np.float32), 0, name="pin_gpu/connect")
    return gpus[basics.local_rank()]


def _pin(gpus: list[tf.config.PhysicalDevice], local_rank: int) -> str:
    """Show TensorFlow the one GPU, and return what is in the way of that."""
    if local_rank >= len(gpus):
        return (
            f"local rank {local_rank} needs a GPU of its own, and this machine shows {len(gpus)}. "
            "Start at most that many ranks on it, or show more (CUDA_VISIBLE_DEVICES)."
        )
    try:
        tf.config.set_visible_devices(gpus[local_rank], "GPU")
        tf.config.experimental.set_memory_growth(gpus[local_rank], True)
    except RuntimeError:
        return (
            "TensorFlow has chosen its devices already. Call it right after init(), before any "
            "tensor is made."
        )
    return ""
