"""A job is one package running on all its ranks, waiting for commands.

All jobs of a run live side by side, so that they can take turns within a second. A package that
polls while it is idle would take CPU time from the one that is being timed, so its ranks are
stopped by SIGSTOP whenever it isn't their turn.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

WORKER = str(Path(__file__).with_name("worker.py"))
START_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Contender:
    """A package with the way to launch it. `rows` are the keys it takes part in; none means all."""

    key: str
    title: str
    package: str
    python: str
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    polls: bool = False

    def takes_part(self, row: str) -> bool:
        return not self.rows or row in self.rows


def contenders(ranks: int, horovod_python: str | None) -> list[Contender]:
    """Ours first, then the peers that this machine has."""
    found = []
    if importlib.util.find_spec("tf_collectives"):
        tfcrun = ("-m", "tf_collectives.launch", "-np", str(ranks))
        found.append(Contender("ours", "tf_collectives", "tf_collectives", sys.executable, tfcrun))
    if horovod_python:
        launcher = ("-m", "horovod.runner.launch", "-np", str(ranks), "-H", f"localhost:{ranks}")
        horovod = Contender("horovod", "Horovod", "horovod.tensorflow", horovod_python, polls=True)
        # The time that a rank spends stopped must not pass for a dead peer.
        gloo = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "3600"}
        # Open MPI counts slots, not cores: without this its ranks spin on cores that others need.
        crowded = ranks > (os.cpu_count() or 1)
        mpi = {"OMPI_MCA_mpi_yield_when_idle": "1"} if crowded else {}
        by_gloo = replace(
            horovod,
            key="horovod_gloo",
            title="Horovod, Gloo",
            launcher=(*launcher, "--gloo"),
            environment=gloo,
        )
        by_mpi = replace(
            horovod,
            key="horovod_mpi",
            title="Horovod, MPI",
            launcher=(*launcher, "--mpi"),
            environment=mpi,
        )
        unfused = replace(
            by_mpi,
            key="horovod_mpi_unfused",
            title="Horovod, MPI, fusion off",
            environment={**mpi, "HOROVOD_FUSION_THRESHOLD": "0"},
            rows=("resnet50", "small"),
        )
        found += [by_gloo, by_mpi, unfused]
    found.append(Contender("mwms", "MWMS RING", "tensorflow.distribute", sys.executable))
    return found


class JobError(Exception):
    """The package hung, crashed or raised."""


class Job:
    def __init__(
        self, contender: Contender, ranks: int, scratch: Path, logs: Path, timeout: float
    ) -> None:
        self.contender = contender
        self.ranks = ranks
        self.timeout = timeout
        self.log = logs / f"{contender.key}.log"
        self.socket = scratch / contender.key
        self.facts: dict[str, Any] = {}
        self.start_failure = ""
        self._launchers: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        self._pids: list[int] = []

    @property
    def running(self) -> bool:
        return bool(self._connections)

    def start(self) -> None:
        """Launches the ranks and leaves them idle."""
        self.socket.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.socket))
            listener.listen(self.ranks)
            listener.settimeout(1.0)
            self._launch()
            deadline = time.monotonic() + START_TIMEOUT_SECONDS
            try:
                while len(self._connections) < self.ranks:
                    self._accept(listener, deadline)
                self._pids = self._replies(START_TIMEOUT_SECONDS)
                self.facts = self._replies(START_TIMEOUT_SECONDS)[0]
            except JobError as failure:
                self.start_failure = f"did not start: {failure}"
                raise JobError(self.start_failure) from None
        self._rest()

    def _accept(self, listener: socket.socket, deadline: float) -> None:
        try:
            self._connections.append(Connection(listener.accept()[0].detach()))
        except TimeoutError:
            codes = [code for launcher in self._launchers if (code := launcher.poll()) is not None]
            if codes:
                raise JobError(f"exit code {codes[0]}") from None
            if time.monotonic() > deadline:
                raise JobError(f"no connection within {START_TIMEOUT_SECONDS:.0f} s") from None

    def _launch(self) -> None:
        contender = self.contender
        worker = [
            contender.python,
            WORKER,
            "--package",
            contender.package,
            "--socket",
            str(self.socket),
        ]
        shared = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        environment = os.environ | shared | contender.environment
        if contender.launcher:
            processes = [([contender.python, *contender.launcher, *worker], environment)]
        else:
            processes = [
                (worker, environment | {"TF_CONFIG": config})
                for config in cluster_configs(self.ranks)
            ]
        with self.log.open("ab") as log:
            for command, variables in processes:
                self._launchers.append(
                    subprocess.Popen(
                        command,
                        env=variables,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def ask(self, *message: Any) -> list[Any]:
        """Sends one command to all ranks, awake for that long, and returns their replies."""
        self._signal(signal.SIGCONT)
        try:
            for connection in self._connections:
                connection.send(message)
        except OSError:
            raise JobError("crashed") from None
        replies = self._replies(self.timeout)
        self._rest()
        return replies

    def _replies(self, timeout: float) -> list[Any]:
        replies: dict[Connection, Any] = {}
        deadline = time.monotonic() + timeout
        while len(replies) < len(self._connections):
            pending = [connection for connection in self._connections if connection not in replies]
            ready = wait(pending, max(0.0, deadline - time.monotonic()))
            if not ready:
                raise JobError(f"hung: no answer within {timeout:.0f} s")
            for connection in pending:
                if connection in ready:
                    replies[connection] = self._reply(connection)
        return [replies[connection] for connection in self._connections]

    @staticmethod
    def _reply(connection: Connection) -> Any:
        try:
            outcome, content = connection.recv()
        except (EOFError, OSError):
            raise JobError("crashed") from None
        if outcome == "failed":
            raise JobError(content)
        return content

    def _rest(self) -> None:
        if self.contender.polls:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        try:
            for pid in self._pids:
                os.kill(pid, number)
        except ProcessLookupError:
            raise JobError("crashed") from None

    def kill(self) -> None:
        """Ends ranks and launchers, whatever state they are in."""
        for connection in self._connections:
            connection.close()
        # The ranks go first, by their own ids: some launchers give each rank a session of its own.
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for launcher in self._launchers:
            end(launcher)
        self._connections, self._pids, self._launchers = [], [], []


def end(launcher: subprocess.Popen[bytes]) -> None:
    """Lets a launcher whose ranks are gone clean up after itself, and kills it if it doesn't."""
    launcher.terminate()
    try:
        launcher.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


def cluster_configs(ranks: int) -> list[str]:
    """TF_CONFIG for each rank, on ports that are free now."""
    sockets = [socket.socket() for _ in range(ranks)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    cluster = {"worker": workers}
    return [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
        for rank in range(ranks)
    ]
