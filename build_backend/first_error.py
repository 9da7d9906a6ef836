"""Finds the first error in what CMake and the compiler print."""

from __future__ import annotations

import os
import re
import sys
import threading
from types import TracebackType

_CMAKE_ERROR = re.compile(r"^CMake Error\b[^:]*(?::\d+ \(.*\))?:?\s*(?P<text>.*)$")
_COMPILER_ERROR = re.compile(r"(?:fatal )?error: |undefined reference to |ld: cannot find ")


class FirstError:
    """Passes on all that this process and its children print, and keeps the first error.

    ``text`` is that error in one line, or empty. A message of CMake stands in the indented lines
    below its head.
    """

    def __init__(self) -> None:
        self.text = ""
        self._in_cmake_message = False

    def __enter__(self) -> FirstError:
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = [os.dup(1), os.dup(2)]
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        self._thread = threading.Thread(target=self._pass_on, args=(reader,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        # The pipe ends for the reader when these two, its last writers, are replaced.
        for number, saved in enumerate(self._saved, start=1):
            os.dup2(saved, number)
        self._thread.join()
        for saved in self._saved:
            os.close(saved)

    def _pass_on(self, reader: int) -> None:
        with open(reader, "rb") as lines:
            for line in lines:
                os.write(self._saved[0], line)
                self.examine(line.decode(errors="replace").rstrip())

    def examine(self, line: str) -> None:
        """Take the next line of the output."""
        if self._in_cmake_message:
            if line.startswith("  "):
                self.text = " ".join([self.text, *line.split()]).strip()
            elif self.text:
                self._in_cmake_message = False
            return
        if self.text:
            return
        cmake = _CMAKE_ERROR.match(line)
        if cmake:
            self.text = cmake["text"]
            self._in_cmake_message = True
        elif _COMPILER_ERROR.search(line):
            self.text = line.strip()
