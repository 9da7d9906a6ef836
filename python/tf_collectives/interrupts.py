"""Makes Ctrl-C end a blocked collective.

Python runs its signal handlers between two bytecodes of the main thread, and a thread that waits
inside an eager op executes none. But the interpreter also writes each signal's number to a wakeup
descriptor, at once. A thread of ours sees it there and fails the operations in flight. The op
returns, and the handler raises KeyboardInterrupt.

The number of a SIGINT stays in the socket until the handler has run and takes it out. So as long as
it is there the main thread is still inside some call, and as soon as it is gone no later collective
can be hit, such as one in the user's ``except KeyboardInterrupt``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

from tf_collectives import _core

__all__ = ["install", "uninstall"]

_STOP = 0  # No signal has this number.
_PEEK_BYTES = 4096
# An operation may be submitted just after the signal came, so the first try can be too early.
_RETRY_SECONDS = 0.05
# A main thread that computes for longer than this is not waiting for a collective.
_GIVE_UP_SECONDS = 10.0
_MODULES_OF_ERRORS = {
    "tensorflow.python.eager.core",
    "tensorflow.python.framework.errors_impl",
}


class _Watcher:
    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._handled = threading.Event()
        self._previous_descriptor = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        signal.signal(signal.SIGINT, self._on_interrupt)
        self._thread = threading.Thread(
            target=self._watch, name="tf_collectives-interrupts", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._restore()
        self._writer.send(bytes([_STOP]))
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def after_fork(self) -> None:
        """Undo the installation in a forked child, which shares the socket and has no thread."""
        self._restore()
        self._reader.close()
        self._writer.close()

    def _restore(self) -> None:
        descriptor = signal.set_wakeup_fd(self._previous_descriptor)
        if descriptor != self._writer.fileno():
            # Someone, such as an event loop, has taken over since.
            signal.set_wakeup_fd(descriptor)
        if self._handles_interrupts():
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handles_interrupts(self) -> bool:
        return signal.getsignal(signal.SIGINT) == self._on_interrupt

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._take(_PEEK_BYTES)
        self._handled.set()
        caller = _caller_of_error(frame)
        if caller is None:
            signal.default_int_handler(number, frame)
        else:
            _raise_interrupt_in(caller)

    def _take(self, count: int) -> None:
        """Remove bytes, and pass them on to the descriptor that was there before ours."""
        with contextlib.suppress(BlockingIOError):
            numbers = self._reader.recv(count)
            if self._previous_descriptor != -1:
                with contextlib.suppress(OSError):
                    os.write(self._previous_descriptor, numbers)

    def _peek(self) -> bytes:
        try:
            return self._reader.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return b""

    def _watch(self) -> None:
        readable = select.poll()
        readable.register(self._reader, select.POLLIN)
        waiting_since: float | None = None
        while True:
            readable.poll()
            numbers = self._peek()
            if _STOP in numbers:
                return
            if signal.SIGINT not in numbers or not self._handles_interrupts():
                self._take(len(numbers))
                waiting_since = None
                continue
            now = time.monotonic()
            if waiting_since is None:
                waiting_since = now
                self._handled.clear()
            if now - waiting_since > _GIVE_UP_SECONDS:
                self._take(len(numbers))
                waiting_since = None
                continue
            _core.interrupt()
            if self._handled.wait(_RETRY_SECONDS):
                waiting_since = None


def _caller_of_error(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which an error of TensorFlow arises, if this one is in its constructor.

    The constructor is often the first Python code that runs after an op has failed, and so the
    place where the handler is called. C++ has called it and can't cope with another exception.
    """
    outer = frame
    while (
        outer is not None
        and outer.f_code.co_name == "__init__"
        and outer.f_globals.get("__name__") in _MODULES_OF_ERRORS
    ):
        outer = outer.f_back
    return None if outer is frame else outer


def _raise_interrupt_in(frame: FrameType) -> None:
    """Raise KeyboardInterrupt as soon as this frame goes on."""
    previous, previous_in_frame = sys.gettrace(), frame.f_trace

    def trace(*_: Any) -> NoReturn:
        frame.f_trace = previous_in_frame
        sys.settrace(previous)
        raise KeyboardInterrupt

    frame.f_trace = trace
    # Frames that are running are traced only while there is a trace function for new ones.
    sys.settrace(lambda *_: None)


_watcher: _Watcher | None = None
_fork_handler_registered = False


def install() -> None:
    """Install it, in the main thread, if SIGINT still has Python's default handler."""
    global _watcher, _fork_handler_registered
    if (
        _watcher is not None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        return
    _watcher = _Watcher()
    if not _fork_handler_registered:
        os.register_at_fork(after_in_child=_after_fork)
        _fork_handler_registered = True


def uninstall() -> None:
    """Restore what was there before; only the main thread can, for others it does nothing."""
    global _watcher
    if _watcher is None or threading.current_thread() is not threading.main_thread():
        return
    _watcher.close()
    _watcher = None


def _after_fork() -> None:
    global _watcher
    if _watcher is not None:
        _watcher.after_fork()
        _watcher = None
