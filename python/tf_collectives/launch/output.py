"""From the pipes of the ranks to the terminal and to files, in whole lines and without blocking."""

from __future__ import annotations

import fcntl
import os
import select
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tf_collectives.launch.processes import Rank

READ_BYTES = 64 * 1024
LONGEST_LINE = 1024 * 1024
QUEUE_LIMIT = 1024 * 1024
PROMPT_SECONDS = 0.1

_COLOURS = (36, 33, 35, 32, 34, 31)


class LineSplitter:
    r"""Cuts a stream of bytes into lines that keep their "\n", "\r\n" or "\r".

    A "\r" alone ends a line because progress bars write nothing else between their states.
    """

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        lines = (self.rest + data).splitlines(keepends=True)
        # A "\r" at the very end may be the first half of "\r\n".
        complete = lines[-1].endswith(b"\n") or len(lines[-1]) > LONGEST_LINE
        self.rest = b"" if complete else lines.pop()
        return lines

    def take_rest(self) -> bytes:
        """Return the text after the last complete line."""
        rest, self.rest = self.rest, b""
        return rest


class LineJoiner:
    """Puts lines of several sources together so that none continues another's unfinished line."""

    def __init__(self) -> None:
        self._source: object = None
        self._end = b"\n"

    def join(self, source: object, prefix: bytes, text: bytes) -> bytes:
        """Return what to write for a line, or a piece of one, that comes next."""
        # A line that ends in "\r" is open for its own source, which will overwrite it.
        broken_off = source is not self._source and self._end != b"\n"
        starts_line = broken_off or self._end in b"\r\n"
        self._source = source
        self._end = text[-1:]
        return (b"\n" if broken_off else b"") + (prefix if starts_line else b"") + text


class Printer:
    """Queues lines for one descriptor and writes them when it has room."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_broken = False
        self.is_terminal = os.isatty(descriptor)
        self._coloured = (
            self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self._joiner = LineJoiner()
        self._queue = bytearray()

    @property
    def queued(self) -> int:
        """How many bytes wait to be written."""
        return len(self._queue)

    def rank_prefix(self, rank: int) -> bytes:
        """Return what precedes the lines of a rank."""
        if not self._coloured:
            return b"[%d] " % rank
        return b"\x1b[%dm[%d]\x1b[0m " % (_COLOURS[rank % len(_COLOURS)], rank)

    def print(self, source: object, prefix: bytes, text: bytes) -> None:
        """Queue a line or a piece of one."""
        if not self.is_broken:
            self._queue += self._joiner.join(source, prefix, text)

    def write_some(self) -> None:
        """Write as much as a descriptor that is ready for writing takes without blocking."""
        try:
            del self._queue[: os.write(self.descriptor, self._queue[: select.PIPE_BUF])]
        except BlockingIOError:
            pass
        except OSError:
            # Nobody reads any more. The ranks will find their pipes closed, as they would find
            # this descriptor without a launcher between.
            self.is_broken = True
            self.discard()

    def discard(self) -> None:
        """Forget what has not been written."""
        self._queue.clear()


class LogFile:
    """The file that holds all output of one rank."""

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.is_broken = False
        self._path = path
        self._report = report
        self._joiner = LineJoiner()
        self._file = path.open("wb", buffering=0)

    def write(self, source: object, text: bytes) -> None:
        """Append a line or a piece of one; the first failure is reported and is the last."""
        if self.is_broken:
            return
        try:
            rest = memoryview(self._joiner.join(source, b"", text))
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.is_broken = True
            self._report(f"can't write to '{self._path}': {error.strerror}. Its end is missing.")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class RankStream:
    """The standard output or error of one rank."""

    def __init__(
        self,
        rank: Rank,
        pipe: IO[bytes],
        printer: Printer,
        prefix: bytes,
        log: LogFile | None,
    ) -> None:
        self.rank = rank
        os.set_blocking(pipe.fileno(), False)
        self.descriptor = pipe.fileno()
        self._pipe = pipe
        self._printer = printer
        self._prefix = prefix
        self._log = log
        self._splitter = LineSplitter()
        self._last_read = 0.0

    @property
    def is_open(self) -> bool:
        """Whether more output may come."""
        return not self._pipe.closed

    @property
    def is_wanted(self) -> bool:
        """Whether more output may come and there is room for it."""
        return self.is_open and self._printer.queued <= QUEUE_LIMIT

    @property
    def prompt_due(self) -> float | None:
        """When to show an unfinished line, which on a terminal may be a question to the user."""
        if self._printer.is_terminal and self._splitter.rest:
            return self._last_read + PROMPT_SECONDS
        return None

    def read(self) -> bool:
        """Pass on what is there; return whether more may be there."""
        if not self.is_open:
            return False
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._last_read = time.monotonic()
        for line in self._splitter.feed(data):
            self._emit(line)
        if self._printer.is_broken and (self._log is None or self._log.is_broken):
            self._pipe.close()
        return self.is_open

    def read_all(self) -> None:
        """Pass on all that is there now, but not all that others may go on to write."""
        if self.is_open:
            capacity = fcntl.fcntl(self.descriptor, fcntl.F_GETPIPE_SZ)
            for _ in range(capacity // READ_BYTES + 1):
                if not self.read():
                    break

    def show_rest(self) -> None:
        """Pass on the unfinished line."""
        if rest := self._splitter.take_rest():
            self._emit(rest)

    def close(self) -> None:
        """Pass on the unfinished line and read no more."""
        self.show_rest()
        self._pipe.close()

    def _emit(self, text: bytes) -> None:
        self._printer.print(self, self._prefix, text)
        if self._log:
            self._log.write(self, text)
