from __future__ import annotations

from support.plugin import pytest_configure, pytest_pycollect_makemodule

__all__ = ["pytest_configure", "pytest_pycollect_makemodule"]
