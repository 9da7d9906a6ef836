"""The process behind `support.forking`: it has TensorFlow imported, and forks a rank on request."""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

# Only what creates no thread: a fork copies the calling one alone.
import pytest  # noqa: F401
import tensorflow as tf  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable


def serve(listener: socket.socket) -> Callable[[], None]:
    """Fork a process per connection; in the ranks it returns with what they have to run."""
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"a server with {len(threads)} threads can't fork"
    # What is there by now is left alone by the garbage collector, which makes a rank's end take a
    # third of the time.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is sys.stdin:
                # The test run is over, and everything that still runs on its behalf is too.
                os.killpg(0, signal.SIGKILL)
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    waiting.close()
                    listener.close()
                    return _guard(connection)


def _guard(connection: socket.socket) -> Callable[[], None]:
    """Start the rank, and report its process id and how it ended."""
    request, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        connection.close()
        return _prepare(json.loads(request), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    return _report(connection, status)


def _report(connection: socket.socket, status: int) -> NoReturn:
    try:
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:
        os._exit(0)


def _prepare(request: dict[str, Any], descriptors: list[int]) -> Callable[[], None]:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable()
    specification = importlib.util.spec_from_file_location(request["module"], request["path"])
    module = sys.modules[request["module"]] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    function = getattr(module, request["function"])
    return lambda: function(*request["arguments"])


if __name__ == "__main__":
    run = serve(socket.socket(fileno=int(sys.argv[1])))
    # At the top level, so that a rank ends, or dies of an exception, as any program does.
    run()
