"""The results of a run as a Markdown document with its plot, and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plot import plot
from rows import MEASURED, MEMCPY

if TYPE_CHECKING:
    from jobs import Contender, Job
    from samples import RowResult

HOROVOD, MWMS, OURS = "horovod", "mwms", "ours"


def figure(milliseconds: float | None) -> str:
    """Three significant digits, never in scientific notation."""
    if milliseconds is None:
        return "-"
    magnitude = abs(milliseconds)
    digits = sum(magnitude < bound for bound in (100, 10, 1, 0.1))
    return f"{milliseconds:.{digits}f}"


def progress(result: RowResult) -> str:
    cells = [f"{key} {figure(result.milliseconds(key))}" for key in result.samples]
    cells += [f"{key} failed" for key in result.failures]
    return f"{result.row.title}: {', '.join(cells)} (ms, other load {result.load.share:.0%})"


@dataclass
class Line:
    """One line of the table: milliseconds by contender, and those of copying as much."""

    title: str
    values: dict[str, float | None]
    failures: dict[str, str]
    floor: float | None = None

    def cell(self, contender: str) -> str:
        failure = self.failures.get(contender)
        return failure.split(":")[0] if failure else figure(self.values.get(contender))

    def ratio(self, peers: list[str]) -> str:
        """How many times as long as ours the fastest of the peers takes."""
        ours = self.values.get(OURS)
        theirs = [value for peer in peers if (value := self.values.get(peer)) is not None]
        return f"{min(theirs) / ours:.1f}" if ours and ours > 0 and theirs else "-"

    def over_floor(self) -> str:
        ours = self.values.get(OURS)
        return f"{ours / self.floor:.2f}" if ours and self.floor else "-"


def lines(contenders: list[Contender], results: list[RowResult]) -> list[Line]:
    found = []
    for result in results:
        row, measured = result.row, result.samples
        values = {key: result.milliseconds(key) for key in measured}
        # The first contender has the most turns, and its copies are the nearest to its own figures.
        floors = [result.milliseconds(each.key, MEMCPY) for each in contenders]
        found.append(Line(row.title, values, result.failures, next(filter(None, floors), None)))
        if row.baseline:
            found.append(Line(row.difference, result.differences(), result.failures))
    return found


def markdown(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def time_table(contenders: list[Contender], results: list[RowResult]) -> str:
    horovod = [each.key for each in contenders if each.key.startswith(HOROVOD)]
    header = ["ms", *(each.title for each in contenders)]
    header += ["best Horovod / ours", "MWMS / ours", "memcpy", "ours / memcpy"]
    table = [header]
    for line in lines(contenders, results):
        cells = [line.title, *(line.cell(each.key) for each in contenders)]
        cells += [line.ratio(horovod), line.ratio([MWMS]), figure(line.floor), line.over_floor()]
        table.append(cells)
    return markdown(table)


def cpu_table(contenders: list[Contender], results: list[RowResult]) -> str:
    def cell(result: RowResult, contender: Contender) -> str:
        samples = result.samples.get(contender.key, {}).get(MEASURED)
        return figure(samples.cpu_milliseconds if samples else None)

    header = ["CPU ms", *(each.title for each in contenders)]
    body = [[result.row.title, *(cell(result, each) for each in contenders)] for result in results]
    return markdown([header, *body])


def machine() -> dict[str, Any]:
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in facts if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30)),
        "kernel": platform.release().split("-")[0],
    }


def versions(job: Job) -> str:
    return ", ".join(f"{name} {version}" for name, version in job.facts.items()) or "did not start"


def failures(jobs: list[Job], results: list[RowResult]) -> str:
    titles = {job.contender.key: job.contender.title for job in jobs}
    found = [
        f"- {titles[contender]}, {result.row.title}: {failure}\n"
        for result in results
        for contender, failure in result.failures.items()
    ]
    return "\n## Failures\n\n" + "".join(found) if found else ""


def document(settings: dict[str, Any], jobs: list[Job], results: list[RowResult], plot: str) -> str:
    facts, contenders = machine(), [job.contender for job in jobs]
    load = max((result.load.share for result in results), default=0.0)
    packages = "\n".join(f"- {job.contender.title}: {versions(job)}" for job in jobs)
    return f"""\
# {settings["ranks"]} ranks on {facts["cores"]} cores

Printed on {dt.date.today()} by

    {settings["command"]}

in {settings["wall_seconds"]} s, other processes using at most {load:.0%} of the machine in any row.
{facts["cpu"]}, {facts["cores"]} cores, {facts["memory_gib"]} GiB, Linux {facts["kernel"]}.

{packages}

## Time

Medians in milliseconds, float32, every package in turn for {settings["rounds"]} rounds.
`memcpy` is the copy of as many bytes into warm memory by every rank at once.

{time_table(contenders, results)}

![time of an eager all-reduce against its size]({plot})

## CPU time

CPU milliseconds of one call, all ranks and all their threads together.

{cpu_table(contenders, results)}
{failures(jobs, results)}"""


def write(
    folder: Path, settings: dict[str, Any], jobs: list[Job], results: list[RowResult]
) -> None:
    """Writes FOLDER/cpu-N-ranks.{json,md,png} and prints the document."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"cpu-{settings['ranks']}-ranks"
    packages = {
        job.contender.key: {"title": job.contender.title, "versions": job.facts} for job in jobs
    }
    data = {
        "date": str(dt.date.today()),
        "machine": machine(),
        **settings,
        "packages": packages,
        "rows": [result.summary() for result in results],
    }
    (folder / f"{stem}.json").write_text(json.dumps(data, indent=1) + "\n")
    plot(folder / f"{stem}.png", settings["ranks"], [job.contender for job in jobs], results)
    text = document(settings, jobs, results, f"{stem}.png")
    (folder / f"{stem}.md").write_text(text)
    print(text)
