"""Start and end of the runtime, and this process's place in the job."""

from __future__ import annotations

import atexit
import importlib.util
from pathlib import Path

from tf_collectives import _core, interrupts, threads

__all__ = [
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

_registered_at_exit = False


def init() -> None:
    """Join the job that the launcher started; without a launcher, be a job of one process.

    All ranks must call it. It returns when all are there and never touches a GPU. Calling it again
    does nothing; calling it after :func:`shutdown` joins anew.

    Raises:
        RuntimeError: some rank did not come within ``TFC_START_TIMEOUT_SECONDS``.
    """
    global _registered_at_exit
    if _core.is_initialized():
        return
    threads.reset()
    interrupts.install()
    try:
        _core.set_nccl_library(_nccl_library())
        _core.init()
    except BaseException:
        interrupts.uninstall()
        raise
    if not _registered_at_exit:
        # Exit handlers run last in, first out, so this one runs while TensorFlow is still whole.
        atexit.register(shutdown)
        _registered_at_exit = True


def _nccl_library() -> str:
    """Return the path of libnccl.so.2 of the package nvidia-nccl-cu12, or nothing without it."""
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return ""
    for location in (package.submodule_search_locations or []) if package else []:
        library = Path(location) / "lib" / "libnccl.so.2"
        if library.exists():
            return str(library)
    return ""


def shutdown() -> None:
    """Leave the job. Happens by itself at exit; collectives raise from here on.

    Other ranks that still wait for this one get an ``UnavailableError`` that names it.
    """
    interrupts.uninstall()
    _core.shutdown()


def is_initialized() -> bool:
    """Return whether :func:`init` was called, and not :func:`shutdown` since."""
    return _core.is_initialized()


def rank() -> int:
    """Return the number of this process in the job, from 0.

    Raises:
        NotInitializedError: before :func:`init`, as the other functions below.
    """
    return _core.rank()


def size() -> int:
    """Return the number of processes in the job."""
    return _core.size()


def local_rank() -> int:
    """Return the number of this process among those on the same machine."""
    return _core.local_rank()


def local_size() -> int:
    """Return the number of processes of the job on this machine."""
    return _core.local_size()


def cross_rank() -> int:
    """Return the number of this machine among those that have a process of this local rank."""
    return _core.cross_rank()


def cross_size() -> int:
    """Return the number of machines that have a process of this local rank."""
    return _core.cross_size()
