from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
from support.launching import start_ranks
from support.processes import assert_gone
from support.terminal import Terminal

TFCRUN = [sys.executable, "-m", "tf_collectives.launch"]

WAIT = """
    import os, signal, sys
    os.write(1, f"ready {os.getpid()}\\n".encode())
    signal.pause()
"""

COUNT_INTERRUPTS = """
    import signal
    count = 0
    def interrupted(*_):
        global count
        count += 1
        print("interrupted", flush=True)
    def asked(*_):
        print("interrupts:", count, flush=True)
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGUSR1, asked)
    print("ready", flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signal_is_passed_on_to_all_ranks(number: signal.Signals):
    with start_ranks(WAIT, np=3) as job:
        job.wait_for("ready", count=3)
        job.send(number)
        result = job.finish()
    assert result.returncode == 128 + number
    assert f"was ended by signal {number.name}" in result.launcher


def test_ctrl_c_becomes_keyboard_interrupt_in_all_ranks():
    code = """
        import signal
        try:
            print("ready", flush=True)
            signal.pause()
        finally:
            print("cleaned up")
    """
    with start_ranks(code, np=3) as job:
        job.wait_for("ready", count=3)
        job.send(signal.SIGINT)
        result = job.finish()
    assert result.returncode == 128 + signal.SIGINT
    for rank in range(3):
        assert result.stdout[rank] == "ready\ncleaned up\n"
        assert "KeyboardInterrupt" in result.stderr[rank]


def test_ranks_that_handle_a_signal_may_succeed():
    code = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        print("ready", flush=True)
        signal.pause()
    """
    with start_ranks(code) as job:
        job.wait_for("ready", count=2)
        job.send(signal.SIGTERM)
        assert job.finish().returncode == 0


def test_second_ctrl_c_kills_ranks_that_ignored_the_first():
    with start_ranks(COUNT_INTERRUPTS) as job:
        job.wait_for("ready", count=2)
        job.send(signal.SIGINT)
        job.wait_for("interrupted", count=2)
        job.send(signal.SIGINT)
        result = job.finish()
    assert result.returncode == 128 + signal.SIGINT
    assert "interrupted again: killing all ranks" in result.launcher
    assert result.stdout == ["ready\ninterrupted\n"] * 2


def test_ctrl_c_on_a_terminal_reaches_each_rank_once():
    program = textwrap.dedent(COUNT_INTERRUPTS)
    with Terminal([*TFCRUN, "-np", "1", sys.executable, "-c", program]) as terminal:
        terminal.wait_for(b"ready")
        terminal.type(b"\x03")
        terminal.wait_for(b"interrupted")
        os.kill(terminal.pid, signal.SIGUSR1)
        terminal.wait_for(b"interrupts: 1\r\n")
        terminal.type(b"\x03")
        assert terminal.finish() == 128 + signal.SIGINT
    assert b"interrupted again: killing all ranks" in terminal.screen


def test_children_of_a_rank_get_ctrl_c_as_on_a_terminal_but_not_sigterm():
    code = r"""
        import os, signal, subprocess, sys
        child = r'''if True:
            import os, signal
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: print(f"child {number}\n", end=""))
            signal.signal(signal.SIGUSR2, lambda *_: exit())
            print("ready", flush=True)
            while True:
                signal.pause()
        '''
        def interrupted(number, _):
            print(f"rank {int(number)}\n", end="")
        process = subprocess.Popen([sys.executable, "-c", child])
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, interrupted)
        signal.signal(signal.SIGUSR1, lambda *_: process.send_signal(signal.SIGUSR2))
        process.wait()
    """
    with start_ranks(code, np=1) as job:
        job.wait_for("ready")
        job.send(signal.SIGTERM)
        job.wait_for("rank 15")
        job.send(signal.SIGINT)
        job.wait_for("rank 2")
        job.wait_for("child 2")
        job.send(signal.SIGUSR1)
        result = job.finish()
    assert result.returncode == 0
    assert "child 15" not in result.stdout[0]


def test_signal_that_was_switched_off_stays_off():
    program = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGHUP))"]
    command = ["nohup", *TFCRUN, "-np", "1", *program]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    assert done.stdout == f"[0] {signal.SIG_IGN}\n"


def test_sigabrt_makes_every_rank_print_its_stacks():
    with start_ranks(WAIT) as job:
        job.wait_for("ready", count=2)
        job.send(signal.SIGABRT)
        result = job.finish()
    assert result.returncode == 128 + signal.SIGABRT
    for text in result.stderr:
        assert "Fatal Python error: Aborted" in text
        assert re.search(r'File "<string>", line \d in <module>', text)


def test_signal_before_the_ranks_have_started_is_not_lost():
    with start_ranks(WAIT) as job:
        job.wait_for("ready")
        job.send(signal.SIGTERM)
        pids = [int(line.split()[1]) for text in job.finish().stdout for line in text.splitlines()]
    assert_gone(pids, timeout=0)
