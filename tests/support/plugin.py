"""The hooks with which pytest runs tests inside ranks; `tests/conftest.py` installs them."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING

import pytest

from support import gpu
from support.rank_items import RankModule, collect_module

if TYPE_CHECKING:
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of these tests."""
    gpu.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process, or the rank that it is."""
    config.addinivalue_line(
        "markers", "deadline(seconds): how long the test may take inside a rank (default 60)"
    )
    # Ranks that abort print their stacks and need no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell script's background job ignores Ctrl-C, and jobs that are tested here would too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _in_rank():
        # It imports tf_collectives, which only the ranks have to.
        from support.rank_session import RankSession

        config.pluginmanager.register(RankSession(), "rank-session")
        if gpu.mode() != "none":
            config.pluginmanager.register(gpu.GpuSession(), "gpu-session")
    else:
        gpu.prepare_environment(config.getoption("--gpu"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of the CUDA stand-in where it isn't used."""
    return True if collection_path.name == "cuda_standin" and gpu.mode() != "standin" else None


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | RankModule | None:
    """Collect modules whose tests run inside ranks by their text when this isn't a rank."""
    return None if _in_rank() else collect_module(module_path, parent)


def _in_rank() -> bool:
    return "TFC_RANK" in os.environ
