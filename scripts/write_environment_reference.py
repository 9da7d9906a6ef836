"""Writes docs/environment.md from the list in the runtime."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tf_collectives import _core

PAGE = Path(__file__).resolve().parent.parent / "docs" / "environment.md"

HEAD = """\
# Environment variables

Written by `python scripts/write_environment_reference.py` from the one list in
`src/environment/environment.cc`. `tfcrun --help` shows the same. All ranks should have the same
values, except those that the launcher sets. Where they differ, those of rank 0 decide on fusion,
the cache, warnings and time-outs.
"""


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD]
    for group, variables in groupby(_core.environment_variables(), key=lambda v: v["group"]):
        lines += [
            f"## {group.capitalize()}\n",
            "| variable | type | default | meaning |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{v['name']}` | {v['type'].replace('|', ', ')} | {v['default']} | {v['meaning']} |"
            for v in variables
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
