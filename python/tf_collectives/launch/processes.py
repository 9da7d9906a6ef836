"""Starting ranks, and finding and ending every process that descends from them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class CommandError(Exception):
    """The command can't be started; `exit_code` is the one that a shell gives for this."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def check_command(program: str) -> None:
    """Raise CommandError if there is no such program."""
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if "/" not in program:
        message = f"command not found: '{program}'. It is in no directory of PATH."
        if path.is_file():
            message += f" For the file in this directory write './{program}' or 'python {program}'."
        raise CommandError(message, 127)
    if not path.exists():
        raise CommandError(f"command not found: there is no file '{program}'", 127)
    if path.is_dir():
        raise CommandError(f"'{program}' is a directory, not a command", 126)
    message = (
        f"'{program}' is not executable. Write 'python {program}' for a Python program, "
        f"or make it executable with 'chmod +x {program}'."
    )
    raise CommandError(message, 126)


class Rank:
    """One process of the job, in a session of its own."""

    def __init__(self, number: int, command: Sequence[str], variables: dict[str, str]) -> None:
        """Start it. Rank 0 inherits standard input, the others read nothing."""
        launcher = os.getpid()

        def end_with_launcher() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            # The launcher may have gone before the kernel was asked to watch it.
            if os.getppid() != launcher:
                os.kill(os.getpid(), signal.SIGKILL)

        self.number = number
        self.exit_code: int | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=None if number == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PYTHONUNBUFFERED": "1"} | os.environ | variables,
                bufsize=0,
                start_new_session=True,
                preexec_fn=end_with_launcher,
            )
        except FileNotFoundError as error:
            # The file itself was found before, so this is the interpreter in its first line.
            message = f"the interpreter that '{command[0]}' names in its first line doesn't exist"
            raise CommandError(message, 127) from error
        except OSError as error:
            message = f"rank {number} can't be started from '{command[0]}': {error.strerror}"
            raise CommandError(message, 126) from error
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout = self._process.stdout
        self.stderr = self._process.stderr

    def set_ended(self, wait_status: int) -> None:
        """Note how it ended; who waits for children in general has waited for this one too."""
        self.exit_code = self._process.returncode = os.waitstatus_to_exitcode(wait_status)

    def __str__(self) -> str:
        return f"rank {self.number} (pid {self.pid})"

    def describe_end(self) -> str:
        """How it ended, as in "rank 1 (pid 42) exited with code 3"."""
        assert self.exit_code is not None
        if self.exit_code >= 0:
            return f"{self} exited with code {self.exit_code}"
        return f"{self} was ended by signal {signal_name(-self.exit_code)}"

    @property
    def by_signal(self) -> bool:
        """Whether a signal ended it."""
        return self.exit_code is not None and self.exit_code < 0

    @property
    def shell_code(self) -> int:
        """Its exit code as a shell gives it: 128 and the signal's number for an end by signal."""
        assert self.exit_code is not None
        return self.exit_code if self.exit_code >= 0 else 128 - self.exit_code


def signal_name(number: int) -> str:
    """Return the usual name of a signal, or its number if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def adopt_orphans() -> None:
    """Make this process the parent of each descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants() -> list[int]:
    """All processes that descend from this one."""
    children = defaultdict(list)
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            status = Path(entry.path, "stat").read_bytes()
            # The second field is the program's name in parentheses and may hold any characters.
            parent = int(status.rpartition(b")")[2].split()[1])
            children[parent].append(int(entry.name))
    found: list[int] = []
    parents = [os.getpid()]
    while parents:
        parents = [child for parent in parents for child in children[parent]]
        found += parents
    return found


def send(signal_number: int, processes: Iterable[int]) -> None:
    """Send a signal to those of the processes that still exist."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal_number)


def send_to_groups(signal_number: int, leaders: Iterable[int]) -> None:
    """Send a signal to the process groups with these leaders, as a terminal does."""
    for leader in leaders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal_number)


def kill_descendants() -> None:
    """Kill everything that descends from this process and wait until it is gone."""
    with contextlib.suppress(ChildProcessError):
        while True:
            # A killed process leaves its children to this one, so there may be new ones each time.
            send(signal.SIGKILL, descendants())
            os.waitpid(-1, 0)


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
