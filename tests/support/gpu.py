"""`pytest --gpu=standin|real|none|auto`: the GPUs that tests find.

`standin` gives them those of tests/cuda_standin, `real` the machine's, `none` hides all, and `auto`
is `real` where there are any, else `standin`. The choice is made for the processes that tests
start, by their environment: TensorFlow opens CUDA's libraries when it is imported.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODES = ("standin", "real", "none", "auto")

# What `--gpu` is when nobody gives it. To be "auto" as soon as the ops have GPU kernels.
DEFAULT = "none"

# The most ranks that a test has, each with a GPU of its own.
STANDIN_DEVICES = 4

_MODE = "TFC_TEST_GPU"
_DIRECTORY = "TFC_CUDA_STANDIN_DIR"
_ROOT = Path(__file__).parents[2]

# Of the native ops, those that run where they are put. In-place ops follow their variables.
_PLACED = (
    "collectives_all_gather",
    "collectives_all_reduce",
    "collectives_broadcast",
    "collectives_grouped_all_gather",
    "collectives_grouped_all_reduce",
    "collectives_grouped_broadcast",
)


def mode() -> str:
    """Return the mode of this test run, also in the processes that it starts."""
    return os.environ.get(_MODE, "none")


def standin_directory() -> Path:
    """Return where the stand-in's libraries are; fail with what to do where they aren't."""
    directory = Path(os.environ.get(_DIRECTORY, _ROOT / "build" / "release" / "cuda_standin"))
    if not (directory / "libnccl.so.2").exists():
        raise pytest.UsageError(
            f"--gpu=standin: there is no CUDA stand-in in {directory}. Run `make test-cpp`, or "
            "build with -DTFC_BUILD_TESTS=ON for the TensorFlow wheel with GPU support "
            f"(`tensorflow`, not `tensorflow-cpu`) and let {_DIRECTORY} name the directory "
            "cuda_standin of that build."
        )
    return directory


def add_option(parser: pytest.Parser) -> None:
    """Add `--gpu` to pytest's options."""
    parser.addoption(
        "--gpu",
        choices=MODES,
        default=DEFAULT,
        help="the GPUs that tests find: those of the CUDA stand-in, the machine's, none, or the "
        "machine's where it has any and else the stand-in's",
    )


def prepare_environment(chosen: str) -> None:
    """Set up what this pytest starts."""
    if chosen == "auto":
        chosen = "real" if _count_real_gpus() > 0 else "standin"
    os.environ[_MODE] = chosen
    if chosen == "standin":
        os.environ.update(standin_environment())
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    elif chosen == "real":
        if _count_real_gpus() == 0:
            raise pytest.UsageError("--gpu=real: this machine has no NVIDIA GPU or no driver")
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def standin_environment() -> dict[str, str]:
    """Return what makes a process find the stand-in. What is set already wins."""
    directory = standin_directory()
    defaults = {
        "CUDA_STANDIN_DEVICES": str(STANDIN_DEVICES),
        "CUDA_STANDIN_KERNELS": str(directory / "libtf_collectives_kernels.so"),
        "CUDA_STANDIN_NCCL_TIMEOUT": "60",
    }
    environment = {name: os.environ.get(name, value) for name, value in defaults.items()}
    paths = [str(directory), os.environ.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in paths if path)
    return environment


class GpuSession:
    """The plugin of a pytest that runs in a rank and has GPUs.

    The rank gets the GPU of its local rank. Collectives run on it and all else on the CPU, because
    the stand-in has no kernels but those of tf_collectives.
    """

    def __init__(self) -> None:
        self._is_ready = False

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Iterator[None]:
        """Run the test with its collectives on the GPU."""
        import tensorflow as tf

        if not self._is_ready:
            self._is_ready = True
            _use_gpu_of_local_rank()
            _put_collectives_on_gpu()
        with tf.device("/CPU:0"):
            return (yield)


def _use_gpu_of_local_rank() -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    assert gpus, "TensorFlow found no GPU"
    mine = gpus[int(os.environ["TFC_LOCAL_RANK"]) % len(gpus)]
    tf.config.set_visible_devices([mine], "GPU")
    tf.config.experimental.set_memory_growth(mine, True)


def _put_collectives_on_gpu() -> None:
    from tf_collectives.ops.library import native

    for name in _PLACED:
        setattr(native, name, _on_gpu(getattr(native, name)))


def _on_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    @functools.wraps(function)
    def placed(*arguments: Any, **named: Any) -> Any:
        with tf.device("/GPU:0"):
            return function(*arguments, **named)

    return placed


def _count_real_gpus() -> int:
    """Ask the driver, without TensorFlow and without a context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
