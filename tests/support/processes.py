"""Watching processes that aren't children of the test."""

from __future__ import annotations

import contextlib
import os
import select
import time


def assert_gone(pids: list[int], timeout: float = 30.0) -> None:
    """Wait until all of the processes have ended; fail if one hasn't after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
            finally:
                os.close(descriptor)
            assert ready, f"process {pid} is still there after {timeout:g} s"
