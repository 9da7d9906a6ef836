"""One rank of a job: does what the driver asks over a Unix socket until the driver closes it.

Runs under every peer's Python and TensorFlow (3.10 and 2.12 at the oldest) and imports no other
package than the one it is told to.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import platform
import re
import socket
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from rows import ROWS


def facts(package: str) -> dict[str, Any]:
    import tensorflow as tf

    found = {"python": platform.python_version(), "tensorflow": tf.__version__}
    distribution = package.split(".")[0]
    if distribution != "tensorflow":
        found[distribution] = importlib.metadata.version(distribution)
    return found


def timed(operation: Callable[[], Any], calls: int) -> dict[str, Any]:
    """The moments at which calls completed, the first one being the end of the warm-up.

    CLOCK_MONOTONIC is one clock for all processes of a machine, so the driver may compare the
    ranks' moments.
    """
    cpu_before = time.process_time()
    for _ in range(max(2, calls // 10)):
        operation()
    gc.disable()
    cpu_start = time.process_time()
    moments = [time.monotonic_ns()]
    for _ in range(calls):
        operation()
        moments.append(time.monotonic_ns())
    cpu_end = time.process_time()
    gc.enable()
    return {"moments": moments, "cpu": cpu_end - cpu_start, "cpu_with_warmup": cpu_end - cpu_before}


def serve(connection: Connection, package_name: str) -> None:
    import adapters
    import operations

    package = adapters.load(package_name)
    connection.send(("done", facts(package_name)))
    rows = {row.key: row for row in ROWS}
    prepared: dict[str, operations.Operation] = {}
    while True:
        command, *arguments = connection.recv()
        if command == "prepare":
            # The last row's tensors go first, so that no two rows' tensors take memory at once.
            prepared.clear()
            gc.collect()
            try:
                prepared.update(operations.prepare(package, rows[arguments[0]]))
            except adapters.NotOfferedError:
                prepared.clear()
            connection.send(("done", list(prepared)))
        else:
            part, calls = arguments
            connection.send(("done", timed(prepared[part], calls)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--socket", required=True)
    options = parser.parse_args()
    driver = socket.socket(socket.AF_UNIX)
    driver.connect(options.socket)
    connection = Connection(driver.detach())
    connection.send(("done", os.getpid()))
    try:
        serve(connection, options.package)
    except (EOFError, ConnectionError):
        pass
    except Exception as error:
        # TensorFlow's message comes last, and this machine's paths tell a reader nothing.
        text = re.sub(r"(/[\w.+-]+)+/", "", " ".join(str(error).split()))[-300:]
        traceback.print_exc()
        connection.send(("failed", f"{type(error).__name__}: {text}"))
    # A package may hang or fail in its own exit handlers; nothing is left to measure.
    os._exit(0)


if __name__ == "__main__":
    main()
