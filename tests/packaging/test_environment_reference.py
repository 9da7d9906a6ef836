from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_page_is_what_the_runtime_says() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_environment_reference.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"]()
