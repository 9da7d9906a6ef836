"""What the ranks measured, as medians."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from jobs import Job, JobError
from rows import MEASURED, Row


@dataclass
class Samples:
    """All timed calls of one operation by one job, turn by turn."""

    turns: list[list[float]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def add(self, part: str, replies: list[dict[str, Any]]) -> None:
        """Adds one turn, given every rank's reply.

        A collective call lasts from the completion of the call before it to its own, each on the
        rank that is last, so that one rank's early return doesn't count. Local operations are not
        in step: every rank's calls count by themselves.
        """
        moments = [reply["moments"] for reply in replies]
        if part == MEASURED:
            moments = [[max(each) for each in zip(*moments, strict=True)]]
        self.turns.append(
            [(after - before) / 1e6 for series in moments for before, after in pairwise(series)]
        )
        calls = len(moments[0]) - 1
        self.cpu_seconds += sum(reply["cpu"] for reply in replies) / calls

    @property
    def milliseconds(self) -> float:
        return statistics.median(value for turn in self.turns for value in turn)

    @property
    def cpu_milliseconds(self) -> float:
        """CPU time of one call, all ranks and all their threads together."""
        return 1e3 * self.cpu_seconds / len(self.turns)

    def summary(self) -> dict[str, Any]:
        values = sorted(value for turn in self.turns for value in turn)
        return {
            "median_ms": round(self.milliseconds, 5),
            "p10_ms": round(values[len(values) // 10], 5),
            "p90_ms": round(values[len(values) * 9 // 10], 5),
            "calls": len(values),
            "turn_medians_ms": [round(statistics.median(turn), 5) for turn in self.turns],
            "cpu_ms_per_call": round(self.cpu_milliseconds, 5),
        }


@dataclass
class Load:
    """How much of the machine other processes took while a job was being timed."""

    wall: float = 0.0
    other: float = 0.0

    def add(self, wall: float, other: float) -> None:
        self.wall += wall
        self.other += other

    @property
    def share(self) -> float:
        return max(0.0, self.other) / (self.wall * (os.cpu_count() or 1)) if self.wall else 0.0


@dataclass
class RowResult:
    """What each contender measured in a row, by part of the row, or why it didn't."""

    row: Row
    samples: dict[str, dict[str, Samples]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    load: Load = field(default_factory=Load)

    def add(self, contender: str, part: str, replies: list[dict[str, Any]]) -> None:
        self.samples.setdefault(contender, {}).setdefault(part, Samples()).add(part, replies)

    @contextmanager
    def recording_failure_of(self, job: Job) -> Iterator[None]:
        """Ends the job if it fails. The next row starts it anew."""
        try:
            yield
        except JobError as failure:
            job.kill()
            self.samples.pop(job.contender.key, None)
            self.failures[job.contender.key] = str(failure)
            text = f"{job.contender.title}, {self.row.title}: {failure}"
            print(text, file=sys.stderr, flush=True)

    def milliseconds(self, contender: str, part: str = MEASURED) -> float | None:
        samples = self.samples.get(contender, {}).get(part)
        return samples.milliseconds if samples else None

    def differences(self) -> dict[str, float | None]:
        """By contender, what the operation takes more than its baseline."""
        found: dict[str, float | None] = {}
        for contender in self.samples:
            whole = self.milliseconds(contender)
            baseline = self.milliseconds(contender, self.row.baseline)
            found[contender] = None if whole is None or baseline is None else whole - baseline
        return found

    def summary(self) -> dict[str, Any]:
        return {
            "key": self.row.key,
            "title": self.row.title,
            "bytes": self.row.payload,
            "other_load": round(self.load.share, 3),
            "failures": self.failures,
            "results": {
                contender: {part: samples.summary() for part, samples in parts.items()}
                for contender, parts in self.samples.items()
            },
        }
