"""Running a command on a terminal of its own, as a user would."""

from __future__ import annotations

import os
import pty
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class Terminal:
    """A terminal and the command that was started in it; leaving the `with` block kills it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.screen = b""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.execv(command[0], list(command))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, keys: bytes) -> None:
        """Type something; b"\\x03" is Ctrl-C."""
        os.write(self._descriptor, keys)

    def wait_for(self, text: bytes) -> None:
        """Wait until the text is on the screen."""
        while text not in self.screen:
            assert self._read(), f"the program ended before it printed {text!r}:\n{self.screen!r}"

    def finish(self) -> int:
        """Wait until the command ends, and return its exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self, timeout: float = 60.0) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], timeout)
        assert ready, f"nothing was printed for {timeout:g} s after\n{self.screen!r}"
        try:
            self.screen += os.read(self._descriptor, 4096)
        except OSError:
            # This is how Linux reports that nobody has the terminal open any more.
            return False
        return True
