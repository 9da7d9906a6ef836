"""Outside the ranks: collects the tests that run inside them, launches these and reports them.

A test module with a line like `RANKS = (1, 2, 4)` holds ordinary tests that every rank of a job of
each of these sizes runs. They appear here as `test_name[np2]`; all selected ones of one size share
a launch, because importing TensorFlow takes longer than most of them.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from support.channel import Server
from support.launching import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAUNCH_SECONDS = 1800.0
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "--no-header",
    "--tb=short",
    "-p",
    "no:cacheprovider",
]

# By case, then by rank: the outcome ("passed", "failed" or "skipped") and its text.
Results = dict[str, dict[int, dict[str, str]]]
_RUNS = pytest.StashKey[dict[int, Results]]()


class RanksFailedError(Exception):
    """A test failed on some rank; the text says on which and why."""


def collect_module(path: Path, parent: pytest.Collector) -> RankModule | None:
    """Return the collector of a module whose tests run in ranks, None for others."""
    sizes = _sizes(ast.parse(path.read_bytes()))
    return RankModule.from_parent(parent, path=path, sizes=sizes) if sizes else None


def _sizes(module: ast.Module) -> tuple[int, ...]:
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="RANKS")], value=value):
                return tuple(ast.literal_eval(value))
    return ()


class RankModule(pytest.File):
    """A module of tests that run in ranks; it isn't imported here."""

    def __init__(self, *, sizes: tuple[int, ...], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._sizes = sizes

    def collect(self) -> Iterator[RankItem]:
        """Yield each test function once for each number of ranks."""
        functions = []
        for statement in ast.parse(self.path.read_bytes()).body:
            if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
                raise self.CollectError(f"{statement.name}: tests in ranks have to be functions")
            if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
                functions.append(statement)
        for size in self._sizes:
            for function in functions:
                yield RankItem.from_parent(
                    self, name=f"{function.name}[np{size}]", function=function, size=size
                )


class RankItem(pytest.Item):
    """One test function, with all its parameters, on a number of ranks."""

    def __init__(self, *, function: ast.FunctionDef, size: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.size = size
        self.test = f"{self.path.relative_to(self.config.rootpath)}::{function.name}"
        self._line = function.lineno - 1

    def runtest(self) -> None:
        """Report the outcome; the first test of a size launches all of them."""
        runs = self.session.stash.setdefault(_RUNS, {})
        if self.size not in runs:
            items = [item for item in self.session.items if isinstance(item, RankItem)]
            tests = [item.test for item in items if item.size == self.size]
            runs[self.size] = run_in_ranks(tests, self.size, self.config.rootpath)
        results = runs[self.size]
        cases = [case for case in results if case.partition("[")[0] == self.test]
        failures = [text for case in cases if (text := _failure(case, results[case]))]
        if failures or not cases:
            raise RanksFailedError("\n\n".join(failures) or f"the ranks did not run {self.test}")
        records = [record for case in cases for record in results[case].values()]
        if all(record["outcome"] == "skipped" for record in records):
            pytest.skip(records[0]["text"])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what the ranks said instead of where it was found out here."""
        if isinstance(excinfo.value, RanksFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Point to the function."""
        return self.path, self._line, self.name


def run_in_ranks(tests: list[str], size: int, directory: Path) -> Results:
    """Run the tests, and return what each rank says about each case of them.

    Where the ranks end in the middle of a test, it has failed, and new ones run the rest.
    """
    results: Results = defaultdict(dict)
    pending = tests
    while pending:
        with Server(size) as server:
            command = [*PYTEST, *pending]
            with Job(command, size, env=server.environment, directory=directory) as job:
                try:
                    ended = job.finish(LAUNCH_SECONDS)
                    report, failed = str(ended), ended.returncode != 0
                except AssertionError as error:
                    report, failed = str(error), True
            cases, said = _read(server.meetings, size)
        for rank, record in said:
            results[record["test"]][rank] = record
        unfinished = [case for case in cases or pending if len(results[case]) < size]
        broken = unfinished[:1] if cases else unfinished
        if not unfinished and failed:
            broken = cases[-1:]
        for case in broken:
            text = f"the ranks did not live to the end of this test\n{report}"
            for rank in range(size):
                if case not in unfinished or rank not in results[case]:
                    results[case][rank] = {"outcome": "failed", "text": text}
        pending = [case for case in unfinished if case not in broken]
    return results


def _read(
    meetings: dict[int, dict[int, Any]], size: int
) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Return the cases that all ranks collected, and what they said about them."""
    collected, *others = [meetings[number] for number in sorted(meetings)] or [{}]
    cases = collected[0] if len(collected) == size else []
    said = ((rank, value) for meeting in others for rank, value in meeting.items() if value)
    return cases, said


def _failure(case: str, records: dict[int, dict[str, str]]) -> str:
    """Say what went wrong and where, or nothing if all ranks agree that nothing did."""
    ranks_by_record = defaultdict(list)
    for rank in sorted(records):
        ranks_by_record[records[rank]["outcome"], records[rank]["text"]].append(rank)
    outcomes = {outcome for outcome, _ in ranks_by_record}
    if outcomes in ({"passed"}, {"skipped"}):
        return ""
    lines = [f"{case}, {len(records)} ranks"]
    for (outcome, text), ranks in ranks_by_record.items():
        lines += [f"--- {outcome} on rank {', '.join(map(str, ranks))} ---", text.rstrip()]
    return "\n".join(line for line in lines if line)
