"""The time of an eager all-reduce against its size."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import os
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from rows import MEASURED, MEMCPY

if TYPE_CHECKING:
    from pathlib import Path

    from jobs import Contender
    from samples import RowResult


def plot(path: Path, ranks: int, contenders: list[Contender], results: list[RowResult]) -> None:
    reductions = [result for result in results if result.row.key.startswith("allreduce_")]
    curves = [(each.title, each.key, MEASURED, "o-") for each in contenders]
    curves.append(("memcpy by every rank at once", contenders[0].key, MEMCPY, "k:"))
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for title, contender, part, style in curves:
        points = [
            (result.row.payload, milliseconds)
            for result in reductions
            if (milliseconds := result.milliseconds(contender, part)) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=title)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="milliseconds, median")
    axes.set_title(f"Eager all-reduce, float32, {ranks} ranks on {os.cpu_count()} cores")
    axes.margins(y=0.25)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
