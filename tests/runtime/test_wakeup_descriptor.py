"""How the library shares Python's wakeup descriptor and SIGINT handler with others."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import tf_collectives as hvd
from tf_collectives import _core

RANKS = (1,)


@pytest.fixture
def not_initialized():
    """Begin and end outside the job, with Python's own handlers."""
    hvd.shutdown()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    yield
    hvd.shutdown()


@pytest.fixture
def interrupts(monkeypatch):
    """Count the calls by which a blocked collective would be ended."""
    calls = []
    monkeypatch.setattr(_core, "interrupt", lambda: calls.append(threading.current_thread().name))
    return calls


def wakeup_descriptor():
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor


@pytest.mark.usefixtures("not_initialized")
def test_shutdown_restores_what_was_there():
    mine, other = socket.socketpair()
    mine.setblocking(False)
    with mine, other:
        signal.set_wakeup_fd(mine.fileno())
        try:
            for _ in range(2):
                hvd.init()
                assert wakeup_descriptor() not in (-1, mine.fileno())
                hvd.shutdown()
                assert wakeup_descriptor() == mine.fileno()
                assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.set_wakeup_fd(-1)
    assert not [t for t in threading.enumerate() if t.name.startswith("tf_collectives")]


@pytest.mark.usefixtures("not_initialized")
def test_bytes_reach_the_descriptor_that_was_there_before():
    mine, other = socket.socketpair()
    mine.setblocking(False)
    with mine, other:
        other.settimeout(20)
        signal.set_wakeup_fd(mine.fileno())
        previous = signal.signal(signal.SIGUSR1, lambda *_: None)
        try:
            hvd.init()
            signal.raise_signal(signal.SIGUSR1)
            assert other.recv(1) == bytes([signal.SIGUSR1])
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert other.recv(1) == bytes([signal.SIGINT])
        finally:
            hvd.shutdown()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGUSR1, previous)


@pytest.mark.usefixtures("not_initialized")
def test_a_handler_of_the_user_is_left_alone():
    received = []
    previous = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        hvd.init()
        signal.raise_signal(signal.SIGINT)
        assert received == [signal.SIGINT]
        hvd.shutdown()
        signal.raise_signal(signal.SIGINT)
        assert received == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_handler_that_came_later_stays(interrupts):
    received = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        signal.raise_signal(signal.SIGINT)
        hvd.shutdown()
        signal.raise_signal(signal.SIGINT)
        assert received == [signal.SIGINT] * 2
        assert interrupts == []
    finally:
        signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_main_thread_that_runs_python_code_is_not_interrupted_twice(interrupts):
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        # By now the number of the signal is out of the socket, so nothing ends this wait, which
        # stands for a collective that the user runs after the interruption.
        count = len(interrupts)
        select.select([], [], [], 0.2)
        assert len(interrupts) == count


def test_a_blocked_main_thread_is_interrupted_until_it_returns(interrupts, monkeypatch):
    reader, writer = os.pipe()

    def interrupt():
        interrupts.append(threading.current_thread().name)
        if len(interrupts) == 3:
            os.write(writer, b"x")

    monkeypatch.setattr(_core, "interrupt", interrupt)
    # Another thread takes the signal, so that it does not end the call below.
    main_thread = Path(f"/proc/self/task/{threading.get_native_id()}/wchan")

    def signal_when_blocked():
        while "pipe_read" not in main_thread.read_text():
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=signal_when_blocked)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            # Like an op, this C function knows nothing of Python's handlers.
            ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        sender.join()
        os.close(reader)
        os.close(writer)
    assert interrupts == ["tf_collectives-interrupts"] * 3


def test_a_forked_child_has_pythons_own_handling():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        os.write(writer, bytes([is_default, wakeup_descriptor() == -1]))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 2) == b"\1\1"
    os.close(reader)
    os.close(writer)
    assert wakeup_descriptor() != -1
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


def test_an_event_loop_takes_and_gives_back():
    async def wait_for_signal():
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, event.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(event.wait(), 20)
        loop.remove_signal_handler(signal.SIGUSR1)

    asyncio.run(wait_for_signal())
    hvd.shutdown()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("not_initialized")
def test_init_in_another_thread_leaves_signals_alone():
    thread = threading.Thread(target=hvd.init)
    thread.start()
    thread.join()
    assert hvd.is_initialized()
    assert wakeup_descriptor() == -1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_thread_sleeps():
    begin = time.process_time()
    select.select([], [], [], 0.5)
    assert time.process_time() - begin < 0.1
