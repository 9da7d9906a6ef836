from __future__ import annotations

from support.plugin import (
    pytest_addoption,
    pytest_configure,
    pytest_ignore_collect,
    pytest_pycollect_makemodule,
)

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_pycollect_makemodule",
]
