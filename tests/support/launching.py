"""Starting ranks from a test, so that a hang fails the test and says where each rank hung."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

TIMEOUT = 120.0
_END_SECONDS = 20.0


def run_ranks(
    program: str | Path,
    np: int = 2,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    timeout: float = TIMEOUT,
    expect: int | None = 0,
) -> Result:
    """Run a script, given by its path or its text, on `np` ranks until they end.

    `env` is added to the environment, `options` go to tfcrun, `args` to the script. The test fails
    when the ranks take longer than `timeout` seconds, or when tfcrun's exit code isn't `expect`
    (None allows any).
    """
    with start_ranks(program, np, args=args, env=env, options=options) as job:
        result = job.finish(timeout)
    assert expect is None or result.returncode == expect, f"expected exit code {expect}\n{result}"
    return result


def start_ranks(
    program: str | Path,
    np: int = 2,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> Job:
    """Start what `run_ranks` runs, for tests that do something to the running ranks."""
    source = [str(program)] if isinstance(program, Path) else ["-c", textwrap.dedent(program)]
    return Job([sys.executable, *source, *args], np, env=env, options=options, stdin=stdin)


@dataclass(frozen=True)
class Result:
    """What a job did; `stdout` and `stderr` hold the text of each rank."""

    returncode: int
    stdout: list[str]
    stderr: list[str]
    launcher: str

    def __str__(self) -> str:
        parts = [f"exit code {self.returncode}"]
        for name, texts in (("stdout", self.stdout), ("stderr", self.stderr)):
            parts += [
                f"--- {name} of rank {rank} ---\n{text.rstrip()}"
                for rank, text in enumerate(texts)
                if text
            ]
        if self.launcher:
            parts.append(f"--- tfcrun ---\n{self.launcher.rstrip()}")
        return "\n".join(parts)


class Job:
    """A running tfcrun. Leaving its `with` block kills it and all that it started."""

    def __init__(
        self,
        command: Sequence[str],
        np: int,
        *,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        directory: Path | None = None,
    ) -> None:
        launcher = [sys.executable, "-m", "tf_collectives.launch", "-np", str(np), *options]
        self._np = np
        self._lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._open_pipes = 2
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [*launcher, *command],
            cwd=directory,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"} | dict(env or {}),
        )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, "stdout")),
            threading.Thread(target=self._read, args=(self.process.stderr, "stderr")),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        for reader in self._readers:
            reader.join()

    def wait_for(self, text: str, count: int = 1, timeout: float = TIMEOUT) -> list[str]:
        """Wait until `count` lines, of standard output or error, contain `text`; return them."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._lines_with(text)) >= count or not self._open_pipes, timeout
            )
            found = self._lines_with(text)
            if len(found) >= count:
                return found
            reason = f"took over {timeout:g} s" if self._open_pipes else "ended"
        raise AssertionError(f"the job {reason} before it printed '{text}'\n{self._stop()}")

    def send(self, signal_number: int) -> None:
        """Send a signal to tfcrun, as a terminal or a batch system would."""
        self.process.send_signal(signal_number)

    def finish(self, timeout: float = TIMEOUT) -> Result:
        """Wait for the end. After `timeout` seconds the test fails, with every rank's stacks."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"the job didn't end within {timeout:g} s; its stacks are in the stderr below"
            raise AssertionError(f"{message}\n{self._stop()}") from None
        return self._result()

    def _lines_with(self, text: str) -> list[str]:
        return [line for lines in self._lines.values() for line in lines if text in line]

    def _stop(self) -> Result:
        # tfcrun passes SIGABRT on, and faulthandler prints the stacks of all threads on it, also
        # of a rank that is blocked in native code.
        if self.process.poll() is None:
            self.send(signal.SIGABRT)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self._result()

    def _result(self) -> Result:
        returncode = self.process.wait()
        for reader in self._readers:
            reader.join()
        launcher: list[str] = []
        texts: dict[str, list[list[str]]] = {}
        for name, lines in self._lines.items():
            texts[name] = [[] for _ in range(self._np)]
            for line in lines:
                match = re.match(r"\[(\d+)\] ", line)
                if match and int(match[1]) < self._np:
                    texts[name][int(match[1])].append(line[match.end() :])
                else:
                    launcher.append(line)
        stdout, stderr = (list(map("".join, ranks)) for ranks in texts.values())
        return Result(returncode, stdout, stderr, "".join(launcher))

    def _read(self, pipe: IO[bytes], name: str) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    self._lines[name].append(line.decode(errors="backslashreplace"))
                    self._changed.notify_all()
        with self._changed:
            self._open_pipes -= 1
            self._changed.notify_all()
