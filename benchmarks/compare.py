"""Times tf_collectives and its peers side by side and writes the table, its data and a plot.

    python benchmarks/compare.py -np 2 --horovod-python HOROVOD_VENV/bin/python

benchmarks/README.md says how to install the peers and how to read the result.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import report
from jobs import Job, contenders
from rows import ROWS, Row
from samples import RowResult, Samples

RESULTS = Path(__file__).with_name("results")
FEWEST_CALLS, MOST_CALLS = 3, 500


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used."""
    with Path("/proc/stat").open() as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (
            int(word) for word in stat.readline().split()[1:9]
        )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def calls_per_turn(job: Job, row: Row, turn_seconds: float) -> dict[str, int]:
    """Makes the job ready for the row and finds how many calls of each operation fill a turn."""
    calls = {}
    for part in job.ask("prepare", row.key)[0]:
        trial = Samples()
        trial.add(part, job.ask("time", part, FEWEST_CALLS))
        fitting = round(1e3 * turn_seconds / trial.milliseconds)
        calls[part] = max(FEWEST_CALLS, min(MOST_CALLS, fitting))
    return calls


def take_turn(job: Job, calls: dict[str, int], result: RowResult) -> None:
    for part, count in calls.items():
        busy, start = busy_seconds(), time.monotonic()
        replies = job.ask("time", part, count)
        wall, busy = time.monotonic() - start, busy_seconds() - busy
        result.add(job.contender.key, part, replies)
        result.load.add(wall, busy - sum(reply["cpu_with_warmup"] for reply in replies))


def in_turn(jobs: list[Job]) -> Iterator[Job]:
    """The first job before each of the others, so that drift of the machine hits both alike."""
    first, *others = jobs
    for other in others or [first]:
        yield first
        if other is not first:
            yield other


def run_row(jobs: list[Job], row: Row, rounds: int, turn_seconds: float) -> RowResult:
    result = RowResult(row)
    calls: dict[str, dict[str, int]] = {}
    for job in jobs:
        if job.start_failure:
            result.failures[job.contender.key] = job.start_failure
        elif job.contender.takes_part(row.key):
            with result.recording_failure_of(job):
                if not job.running:
                    job.start()
                calls[job.contender.key] = calls_per_turn(job, row, turn_seconds)
    playing = [job for job in jobs if calls.get(job.contender.key)]
    for _ in range(rounds if playing else 0):
        for job in in_turn(playing):
            if job.running:
                with result.recording_failure_of(job):
                    take_turn(job, calls[job.contender.key], result)
    return result


def run(jobs: list[Job], rows: list[Row], options: argparse.Namespace) -> list[RowResult]:
    results = []
    try:
        for position, row in enumerate(rows):
            results.append(run_row(jobs, row, options.rounds, options.turn_seconds))
            print(report.progress(results[-1]), file=sys.stderr, flush=True)
            for job in jobs:
                if not any(job.contender.takes_part(later.key) for later in rows[position + 1 :]):
                    job.kill()
    finally:
        for job in jobs:
            job.kill()
    return results


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Times tf_collectives and its peers side by side on this machine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    option = parser.add_argument
    option("-np", "--num-proc", type=int, default=2, help="number of ranks")
    option("--horovod-python", metavar="PATH", help="Python of an environment with Horovod")
    option("--rounds", type=int, default=5, help="turns of each package in each row")
    option("--turn-seconds", type=float, default=0.4, help="length of a turn")
    option("--timeout", type=float, default=120, help="silent for so many seconds means hung")
    option("--rows", nargs="+", metavar="ROW", choices=[row.key for row in ROWS], help="only these")
    option("--only", nargs="+", metavar="PACKAGE", help="only these, by their keys in the JSON")
    option("--results", type=Path, default=RESULTS, metavar="FOLDER", help="for table and plot")
    option("--logs", type=Path, metavar="FOLDER", help="keep what the packages print")
    return parser.parse_args()


def command_line(options: argparse.Namespace) -> str:
    """The command as others would give it, without this machine's paths."""
    words = ["python", "benchmarks/compare.py"]
    for word in sys.argv[1:]:
        horovod = word == options.horovod_python
        words.append("HOROVOD_VENV/bin/python" if horovod else "FOLDER" if "/" in word else word)
    return " ".join(words)


def main() -> None:
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    available = contenders(options.num_proc, options.horovod_python)
    chosen = [each for each in available if not options.only or each.key in options.only]
    if not chosen:
        sys.exit(f"Nothing to time. --only takes {' '.join(each.key for each in available)} here.")
    rows = [row for row in ROWS if not options.rows or row.key in options.rows]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        logs = options.logs or scratch
        logs.mkdir(parents=True, exist_ok=True)
        jobs = [Job(each, options.num_proc, scratch, logs, options.timeout) for each in chosen]
        results = run(jobs, rows, options)
    settings = {
        "command": command_line(options),
        "ranks": options.num_proc,
        "rounds": options.rounds,
        "turn_seconds": options.turn_seconds,
        "wall_seconds": round(time.monotonic() - start),
    }
    report.write(options.results, settings, jobs, results)


if __name__ == "__main__":
    main()
