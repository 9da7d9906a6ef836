"""Inside a rank: gives each test a deadline, and keeps the ranks in step from test to test."""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import tf_collectives
from support.channel import Client

if TYPE_CHECKING:
    from collections.abc import Generator

START_SECONDS = 240.0
TEST_SECONDS = 60.0
RESET_SECONDS = 60.0


class RankSession:
    """The plugin of a pytest that runs in a rank.

    After each test the ranks meet. When it failed on any of them, all leave the job and join it
    anew, so that a collective which only some had submitted can't be matched with a later one.
    """

    def __init__(self) -> None:
        self._channel: Client | None = None
        self._reports: list[pytest.TestReport] = []
        # Tests have descriptor 2 captured, but the stacks of one that hangs have to get out.
        self._stderr = os.dup(sys.stderr.fileno())
        self._allow(START_SECONDS)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check that all ranks are going to run the same tests."""
        if not Client.is_offered():
            return
        self._channel = Client(int(os.environ["TFC_RANK"]))
        tests = [item.nodeid for item in session.items]
        if any(others != tests for others in self._meet(tests)):
            pytest.exit("the ranks have collected different tests", returncode=3)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run one test and meet the other ranks after it."""
        marker = item.get_closest_marker("deadline")
        self._reports = []
        self._allow(marker.args[0] if marker else TEST_SECONDS)
        result = yield
        record = {"test": item.nodeid} | _summary(self._reports)
        if record["outcome"] == "failed":
            # Ranks that still wait in the test for this one are told now.
            self._leave_job()
        faulthandler.cancel_dump_traceback_later()
        if any(other["outcome"] == "failed" for other in self._meet(record)):
            self._leave_job()
            # Nobody joins anew before all have left.
            self._meet(None)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Let every test begin as a member of the job."""
        if not tf_collectives.is_initialized():
            tf_collectives.init()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what pytest says about the test."""
        self._reports.append(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Leave the job. Failed tests are reported through the channel, not by the exit code."""
        self._leave_job()
        if self._channel and exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK

    def _leave_job(self) -> None:
        self._allow(RESET_SECONDS)
        if tf_collectives.is_initialized():
            tf_collectives.shutdown()

    def _meet(self, value: object) -> list[Any]:
        if self._channel is None:
            return []
        try:
            return self._channel.meet(value)
        except EOFError as error:
            pytest.exit(str(error), returncode=3)

    def _allow(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._stderr)


def _summary(reports: list[pytest.TestReport]) -> dict[str, str]:
    failed = [report for report in reports if report.failed]
    if failed:
        texts = [f"{report.longreprtext}\n{_captured(report)}" for report in failed]
        return {"outcome": "failed", "text": "\n".join(texts)}
    if any(report.skipped and not hasattr(report, "wasxfail") for report in reports):
        return {"outcome": "skipped", "text": "\n".join(map(str, (r.longrepr for r in reports)))}
    return {"outcome": "passed", "text": ""}


def _captured(report: pytest.TestReport) -> str:
    return "".join(f"--- {name} ---\n{text}" for name, text in report.sections)
