"""Reading the call log of the CUDA stand-in (CUDA_STANDIN_LOG)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_calls(path: Path, *names: str) -> list[dict[str, Any]]:
    """Return the calls of these functions (none: of all) in the order of the log."""
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    return [call for call in calls if not names or call["call"] in names]
