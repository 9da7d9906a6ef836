"""How the ranks of a test run compare notes: through the pytest that launched them.

It is independent of what is tested, so it works where a collective doesn't.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

_ADDRESS = "TFC_TEST_CHANNEL"


class Server:
    """Lets `size` ranks meet, and keeps what each said: `meetings[number][rank]`."""

    def __init__(self, size: int) -> None:
        self.meetings: defaultdict[int, dict[int, Any]] = defaultdict(dict)
        self._size = size
        self._someone_left = False
        self._changed = threading.Condition()
        self._directory = tempfile.TemporaryDirectory(prefix="tfc-tests-")
        address = str(Path(self._directory.name, "channel"))
        self.environment = {_ADDRESS: address}
        meet, leave = self._meet, self._leave

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                rank = json.loads(self.rfile.readline())
                for number, line in enumerate(self.rfile):
                    values = meet(rank, number, json.loads(line))
                    if values is None:
                        break
                    self.wfile.write(json.dumps(values).encode() + b"\n")
                leave()

        self._server = socketserver.ThreadingUnixStreamServer(address, Connection)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._directory.cleanup()

    def _meet(self, rank: int, number: int, value: Any) -> list[Any] | None:
        with self._changed:
            meeting = self.meetings[number]
            meeting[rank] = value
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(meeting) == self._size or self._someone_left)
            if len(meeting) < self._size:
                return None
            return [meeting[rank] for rank in range(self._size)]

    def _leave(self) -> None:
        with self._changed:
            self._someone_left = True
            self._changed.notify_all()


class Client:
    """A rank's end of the channel."""

    def __init__(self, rank: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ[_ADDRESS])
        self._file = self._socket.makefile("rw", buffering=1)
        self._file.write(f"{rank}\n")

    @staticmethod
    def is_offered() -> bool:
        """Whether the ranks were launched by a pytest that serves the channel."""
        return _ADDRESS in os.environ

    def meet(self, value: Any) -> list[Any]:
        """Say something, wait until all ranks have, and return what each said."""
        self._file.write(json.dumps(value) + "\n")
        answer = self._file.readline()
        if not answer:
            raise EOFError("another rank has ended")
        values: list[Any] = json.loads(answer)
        return values

    def close(self) -> None:
        """Leave; ranks that still wait for this one get an EOFError."""
        self._file.close()
        self._socket.close()
