"""The supervisor: starts the ranks, prints their output, and ends all of them when one fails."""

from __future__ import annotations

import enum
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from tf_collectives.launch.guard import TERMINAL_SIGNALS, passed_on_signals
from tf_collectives.launch.output import LogFile, Printer, RankStream
from tf_collectives.launch.processes import (
    CommandError,
    Rank,
    adopt_orphans,
    descendants,
    send,
    send_to_groups,
    signal_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tf_collectives.launch.options import Options

# A rank may see its peer's sockets close, fail and end before the peer itself counts as ended.
SETTLING_SECONDS = 0.2
TERMINATION_SECONDS = 5.0


class Stage(enum.IntEnum):
    """How far the end of the job has come; it only ever advances."""

    RUNNING = 0
    SETTLING = 1
    GRACE = 2
    TERMINATING = 3
    KILLING = 4


class Supervisor:
    """Runs one job from its start until no process of it is left."""

    def __init__(self, options: Options, parent_alive: int) -> None:
        self._options = options
        self._parent_alive = parent_alive
        self._signals = -1
        self._stage = Stage.RUNNING
        self._deadline: float | None = None
        self._interrupted = False
        self._has_children = True
        self._abandon_output = False
        self._exit_code = 0
        self._failed: list[Rank] = []
        self._summary = ""
        self._running: dict[int, Rank] = {}
        self._streams: list[RankStream] = []
        self._stdout = Printer(1)
        # Where both lead to the same terminal or file, one queue keeps their lines apart.
        self._stderr = self._stdout if os.path.sameopenfile(1, 2) else Printer(2)

    def run(self) -> int:
        """Run the job and return the exit code of tfcrun."""
        adopt_orphans()
        self._signals = _catch_signals()
        try:
            self._start()
        except CommandError as error:
            self._report(str(error))
            self._exit_code = error.exit_code
            self._kill()
            self._on_child_ended()
        while self._has_children or (self._has_output() and not self._abandon_output):
            for action in self._wait():
                action()
            self._check_time()
        return self._exit_code

    def _start(self) -> None:
        logs = self._open_logs()
        for number, variables in enumerate(self._options.rank_variables()):
            rank = Rank(number, self._options.command, variables)
            self._running[rank.pid] = rank
            for pipe, printer in ((rank.stdout, self._stdout), (rank.stderr, self._stderr)):
                prefix = printer.rank_prefix(number) if self._options.prefix else b""
                self._streams.append(RankStream(rank, pipe, printer, prefix, logs[number]))
            self._report_detail(f"{rank} started: {' '.join(self._options.command)}")

    def _open_logs(self) -> list[LogFile] | list[None]:
        directory, size = self._options.output_dir, self._options.size
        if directory is None:
            return [None] * size
        digits = len(str(size - 1))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return [
                LogFile(directory / f"rank.{number:0{digits}}.log", self._report)
                for number in range(size)
            ]
        except OSError as error:
            message = f"can't write the output of the ranks to '{directory}': {error.strerror}"
            raise CommandError(message, 2) from error

    def _wait(self) -> list[Callable[[], object]]:
        """Sleep until something happens or is due, and return what to do about it."""
        poll = select.poll()
        actions: dict[int, Callable[[], object]] = {}
        for descriptor, event, action in self._interests():
            poll.register(descriptor, event)
            actions[descriptor] = action
        due = [stream.prompt_due for stream in self._streams] + [self._deadline]
        next_due = min((moment for moment in due if moment is not None), default=None)
        # Rounded up, or the last millisecond would be spent turning round.
        timeout = None if next_due is None else max(0, (next_due - time.monotonic()) * 1000 + 1)
        return [actions[descriptor] for descriptor, _ in poll.poll(timeout)]

    def _interests(self) -> Iterator[tuple[int, int, Callable[[], object]]]:
        yield self._signals, select.POLLIN, self._on_signals
        if not self._abandon_output:
            yield self._parent_alive, select.POLLIN, self._on_parent_gone
        for printer in {self._stdout, self._stderr}:
            if printer.queued:
                yield printer.descriptor, select.POLLOUT, printer.write_some
        for stream in self._streams:
            if stream.is_wanted:
                yield stream.descriptor, select.POLLIN, stream.read

    def _check_time(self) -> None:
        now = time.monotonic()
        for stream in self._streams:
            if stream.prompt_due is not None and now >= stream.prompt_due:
                stream.show_rest()
        if self._deadline is not None and now >= self._deadline:
            if self._stage is Stage.SETTLING:
                self._name_failure()
            elif self._stage is Stage.GRACE:
                self._terminate()
            else:
                self._kill()

    def _has_output(self) -> bool:
        return bool(self._stdout.queued or self._stderr.queued)

    def _on_signals(self) -> None:
        for number in os.read(self._signals, 4096):
            if number == signal.SIGCHLD:
                self._on_child_ended()
            elif number == signal.SIGINT and self._interrupted:
                self._report("interrupted again: killing all ranks")
                self._exit_code = self._exit_code or 128 + number
                self._abandon_output = True
                self._kill()
            else:
                self._interrupted = self._interrupted or number == signal.SIGINT
                self._report_detail(f"passing {signal_name(number)} on to the ranks")
                pass_on = send_to_groups if number in TERMINAL_SIGNALS else send
                pass_on(number, self._running)

    def _on_parent_gone(self) -> None:
        self._abandon_output = True
        self._terminate()

    def _on_child_ended(self) -> None:
        if not self._has_children:
            return
        ended, self._has_children = self._reap()
        for stream in self._streams:
            if stream.rank in ended:
                # Its last words come before ours.
                stream.read_all()
        for rank in ended:
            self._report_detail(rank.describe_end())
            if rank.exit_code != 0:
                self._failed.append(rank)
        if self._failed and self._stage is Stage.RUNNING:
            self._stage = Stage.SETTLING
            self._deadline = time.monotonic() + SETTLING_SECONDS
        if self._failed and not self._running:
            self._name_failure()
        if not self._has_children:
            self._finish_output()
        elif self._stage is Stage.KILLING:
            send(signal.SIGKILL, descendants())
        elif not self._running:
            self._terminate()

    def _reap(self) -> tuple[list[Rank], bool]:
        """Return the ranks that have ended, and whether there are children left."""
        ended = []
        try:
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = found
                # Others are descendants of ranks whose parent has ended.
                if rank := self._running.pop(pid, None):
                    rank.set_ended(status)
                    ended.append(rank)
        except ChildProcessError:
            return ended, False
        return ended, True

    def _name_failure(self) -> None:
        if self._exit_code == 0:
            # Of several, one that was ended by a signal is likelier to have failed by itself.
            rank = next((rank for rank in self._failed if rank.by_signal), self._failed[0])
            self._exit_code = rank.shell_code
            failure = rank.describe_end()
            self._summary = f"exit code {self._exit_code}, because {failure}"
            seconds = f"{self._options.grace_period:g} s"
            outlook = f"; the other ranks have {seconds} to end" if self._running else ""
            self._report(failure + outlook)
        if self._stage is Stage.SETTLING:
            self._stage = Stage.GRACE
            self._deadline = time.monotonic() + self._options.grace_period

    def _finish_output(self) -> None:
        for stream in self._streams:
            stream.read_all()
            stream.close()
        if self._summary and self._options.size > 1:
            self._report(self._summary)

    def _terminate(self) -> None:
        if self._stage >= Stage.TERMINATING:
            return
        self._stage = Stage.TERMINATING
        self._deadline = time.monotonic() + TERMINATION_SECONDS
        self._report_stop(signal.SIGTERM)
        send(signal.SIGTERM, descendants())

    def _kill(self) -> None:
        self._stage = Stage.KILLING
        self._deadline = None
        self._report_stop(signal.SIGKILL)
        send(signal.SIGKILL, descendants())

    def _report_stop(self, number: int) -> None:
        if self._running:
            ranks = ", ".join(str(rank.number) for rank in self._running.values())
            self._report(f"sending {signal_name(number)} to what still runs: ranks {ranks}")
        else:
            self._report_detail(f"sending {signal_name(number)} to what the ranks left running")

    def _report_detail(self, message: str) -> None:
        if self._options.verbose:
            self._report(message)

    def _report(self, message: str) -> None:
        self._stderr.print(self, b"tfcrun: ", f"{message}\n".encode(errors="surrogateescape"))


def _catch_signals() -> int:
    """Turn signals into bytes of a pipe, and return its descriptor."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    caught = [*passed_on_signals(), signal.SIGCHLD]
    for number in caught:
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
    return reader
