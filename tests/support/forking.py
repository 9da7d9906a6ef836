"""Starting ranks in a fraction of a second, for tests that need processes of their own.

`start(function, np)` runs a function of a test module on `np` ranks. They are forked from a process
that has imported TensorFlow before, and end as any Python program does: at the end of the function
or with its exception. What they print is what the test sees; `job.tell` answers.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

TIMEOUT = 60.0
_START_SECONDS = 240.0
_END_SECONDS = 10.0
_TESTS = Path(__file__).parents[1]
_server: _Server | None = None


def start(
    function: Callable[..., None],
    np: int = 2,
    *args: Any,
    env: Mapping[str, str] | None = None,
) -> Job:
    """Start the ranks. `args` have to fit into JSON; `env` is added to the environment."""
    global _server
    if _server is None:
        _server = _Server()
        atexit.register(_server.close)
    job_id = secrets.token_hex(16)
    ranks = []
    for rank in range(np):
        place = {"RANK": rank, "SIZE": np, "LOCAL_RANK": rank, "LOCAL_SIZE": np}
        environment = {f"TFC_{name}": str(value) for name, value in place.items()}
        environment |= {"TFC_JOB_ID": job_id} | dict(env or {})
        ranks.append(_server.fork(function, args, environment))
    return Job(ranks)


def run(
    function: Callable[..., None],
    np: int = 2,
    *args: Any,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> list[Ended]:
    """Run ranks to their end; the test fails unless all succeed."""
    with start(function, np, *args, env=env) as job:
        ended = job.finish(timeout)
    assert all(rank.returncode == 0 for rank in ended), _describe(ended)
    return ended


@dataclass(frozen=True)
class Ended:
    """What a rank did. A negative return code is that of the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class Job:
    """Running ranks. Leaving its `with` block kills those that still run."""

    def __init__(self, ranks: list[_Rank]) -> None:
        self._ranks = ranks
        self.pids = [rank.pid for rank in ranks]

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for rank in self._ranks:
            rank.send(signal.SIGKILL)
        for rank in self._ranks:
            rank.end()

    def wait_for(
        self, text: str, ranks: list[int] | None = None, count: int = 1, timeout: float = TIMEOUT
    ) -> None:
        """Wait until each of these ranks (None: all) has printed `count` lines that contain it."""
        deadline = time.monotonic() + timeout
        for number in range(len(self._ranks)) if ranks is None else ranks:
            rank = self._ranks[number]
            if not rank.wait_for(text, count, deadline):
                reason = "ended" if rank.has_ended() else f"took over {timeout:g} s"
                message = f"rank {number} {reason} before it printed '{text}'"
                raise AssertionError(f"{message}\n{_describe(self._abort())}")

    def tell(self, rank: int, line: str = "go on") -> None:
        """Give a rank a line on its standard input."""
        self._ranks[rank].stdin.write(f"{line}\n".encode())

    def send(self, rank: int, number: int) -> None:
        """Send a signal to a rank."""
        assert self._ranks[rank].send(number), f"rank {rank} has ended already"

    def finish(self, timeout: float = TIMEOUT) -> list[Ended]:
        """Wait for the end of all ranks. After `timeout` seconds the test fails, with stacks."""
        deadline = time.monotonic() + timeout
        if not all(rank.wait_for_end(deadline) for rank in self._ranks):
            message = f"not all ranks ended within {timeout:g} s; their stacks are below"
            raise AssertionError(f"{message}\n{_describe(self._abort())}")
        return [rank.end() for rank in self._ranks]

    def _abort(self) -> list[Ended]:
        # faulthandler prints the stacks of all threads, also of one that is blocked in native code.
        for rank in self._ranks:
            rank.send(signal.SIGCONT)
            rank.send(signal.SIGABRT)
        deadline = time.monotonic() + _END_SECONDS
        for rank in self._ranks:
            if not rank.wait_for_end(deadline):
                rank.send(signal.SIGKILL)
        return [rank.end() for rank in self._ranks]


class _Rank:
    """The test's end of one forked process."""

    def __init__(self, connection: socket.socket, pipes: list[int]) -> None:
        self._connection = connection
        stdin, stdout, stderr = pipes
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self._lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._open = 2
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, name), daemon=True)
            for pipe, name in ((stdout, "stdout"), (stderr, "stderr"))
        ]
        for reader in self._readers:
            reader.start()
        self._received = b""
        self.pid = self._receive(_START_SECONDS)
        self._process = os.pidfd_open(self.pid)
        self._returncode: int | None = None
        self._ended: Ended | None = None

    def send(self, number: int) -> bool:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._process, number)
            return True
        return False

    def has_ended(self) -> bool:
        return self._open == 0

    def wait_for(self, text: str, count: int, deadline: float) -> bool:
        def found() -> bool:
            return sum(text in line for lines in self._lines.values() for line in lines) >= count

        with self._changed:
            self._changed.wait_for(
                lambda: found() or self._open == 0, max(0.0, deadline - time.monotonic())
            )
            return found()

    def wait_for_end(self, deadline: float) -> bool:
        if self._returncode is None:
            with contextlib.suppress(TimeoutError):
                self._returncode = self._receive(max(0.01, deadline - time.monotonic()))
        return self._returncode is not None

    def end(self) -> Ended:
        if self._ended is None:
            ended = self.wait_for_end(time.monotonic() + _END_SECONDS)
            assert ended, f"process {self.pid} won't end"
            self._connection.close()
            os.close(self._process)
            self.stdin.close()
            for reader in self._readers:
                # A child of the rank that is still there keeps the pipes open.
                reader.join(_END_SECONDS)
            texts = ("".join(self._lines[name]) for name in ("stdout", "stderr"))
            self._ended = Ended(self._returncode, *texts)
        return self._ended

    def _receive(self, timeout: float) -> int:
        self._connection.settimeout(timeout)
        while b"\n" not in self._received:
            received = self._connection.recv(64)
            assert received, "the process that forks the ranks has ended"
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return int(line)

    def _read(self, descriptor: int, name: str) -> None:
        with os.fdopen(descriptor, errors="backslashreplace") as pipe:
            for line in pipe:
                with self._changed:
                    self._lines[name].append(line)
                    self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


class _Server:
    """The process that ranks are forked from; it lives until the test run ends."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("")  # Linux chooses a free name that needs no file.
        self._listener.listen()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.fork_server", str(self._listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[self._listener.fileno()],
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]),
                "PYTHONUNBUFFERED": "1",
                "TF_CPP_MIN_LOG_LEVEL": "2",
                # A pool of OpenBLAS would be a second thread of the server.
                "OPENBLAS_NUM_THREADS": "1",
            },
            start_new_session=True,
        )

    def fork(
        self, function: Callable[..., None], args: tuple[Any, ...], environment: dict[str, str]
    ) -> _Rank:
        request = {
            "module": function.__module__,
            "path": function.__code__.co_filename,
            "function": function.__name__,
            "arguments": args,
            "environment": environment,
        }
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_START_SECONDS)
        connection.connect(self._listener.getsockname())
        (stdin, to), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        socket.send_fds(connection, [json.dumps(request).encode()], [stdin, stdout, stderr])
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        return _Rank(connection, [to, out, err])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._listener.close()


def _describe(ended: list[Ended]) -> str:
    parts = []
    for number, rank in enumerate(ended):
        parts.append(f"--- rank {number}: return code {rank.returncode} ---")
        parts += [text.rstrip() for text in (rank.stdout, rank.stderr) if text]
    return "\n".join(parts)
