from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.launching import Job, start_ranks
from support.processes import assert_gone

# Each rank starts a data loader in its own process group and a daemon that has left it, and each
# of these a child. All print their process id, and ignore what can be ignored.
FAMILY = r"""
    import os, signal, subprocess, sys

    loader = r'''if True:
        import os, signal, subprocess, sys
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.write(1, f"pid {os.getpid()}\n".encode())
        if sys.argv[1] == "parent":
            subprocess.Popen([sys.executable, "-c", sys.argv[2], "child"])
        signal.pause()
    '''
    for detached in (False, True):
        command = [sys.executable, "-c", loader, "parent", loader]
        subprocess.Popen(command, start_new_session=detached)
    os.write(1, f"pid {os.getpid()}\n".encode())
"""
PROCESSES_PER_RANK = 5


def wait_for_family(job: Job, np: int) -> list[int]:
    return [int(line.split()[-1]) for line in job.wait_for("pid", count=np * PROCESSES_PER_RANK)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("ending", ["", "sys.exit(3)"])
def test_nothing_outlives_the_job(ending: str):
    # The rank waits for its descendants to have printed, by the pipe that the test holds.
    with start_ranks(f"{FAMILY}\n    sys.stdin.read()\n    {ending}", np=1, stdin=-1) as job:
        pids = wait_for_family(job, 1)
        job.process.stdin.close()
        result = job.finish()
    assert result.returncode == (3 if ending else 0)
    assert_gone(pids, timeout=0)


def test_everything_ends_when_tfcrun_is_killed():
    with start_ranks(f"{FAMILY}\n    signal.pause()") as job:
        pids = wait_for_family(job, 2)
        supervisor = children(job.process.pid)
        job.send(signal.SIGKILL)
        assert_gone(pids + supervisor)


def test_everything_ends_when_the_supervisor_is_killed():
    with start_ranks(f"{FAMILY}\n    signal.pause()") as job:
        pids = wait_for_family(job, 2)
        (supervisor,) = children(job.process.pid)
        os.kill(supervisor, signal.SIGKILL)
        result = job.finish()
    assert result.returncode == 128 + signal.SIGKILL
    assert f"the supervising process (pid {supervisor}) was ended by signal SIGKILL" in (
        result.launcher
    )
    assert_gone(pids, timeout=0)


def test_second_ctrl_c_leaves_nothing():
    code = (
        f"{FAMILY}\n    signal.signal(2, lambda *_: print('again'))\n    while True: signal.pause()"
    )
    with start_ranks(code) as job:
        pids = wait_for_family(job, 2)
        job.send(signal.SIGINT)
        job.wait_for("again", count=2)
        job.send(signal.SIGINT)
        job.finish()
    assert_gone(pids, timeout=0)
