"""Changing the fusion threshold for a while."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def fusion_threshold(size_in_bytes: int) -> Iterator[None]:
    before = hvd.fusion.threshold()
    hvd.fusion.set_threshold(size_in_bytes)
    try:
        yield
    finally:
        hvd.fusion.set_threshold(before)
