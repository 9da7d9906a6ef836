from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from support.launching import run_ranks, start_ranks
from support.processes import assert_gone

if TYPE_CHECKING:
    from pathlib import Path


def test_job_of_ranks_that_succeed_succeeds_silently():
    result = run_ranks("pass", np=4)
    assert (result.returncode, result.launcher) == (0, "")


@pytest.mark.parametrize(
    ("ending", "exit_code", "described"),
    [
        ("sys.exit(3)", 3, "exited with code 3"),
        ("1 / 0", 1, "exited with code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was ended by signal SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "was ended by signal SIGSEGV"),
        ("os.kill(os.getpid(), 40)", 168, "was ended by signal 40"),
    ],
)
def test_exit_code_and_name_of_the_failing_rank(ending: str, exit_code: int, described: str):
    code = f"""
        import os, signal, sys
        if os.environ["TFC_RANK"] == "1":
            print(os.getpid(), flush=True)
            {ending}
    """
    result = run_ranks(code, np=3, expect=exit_code)
    failure = f"rank 1 (pid {int(result.stdout[1])}) {described}"
    assert failure in result.launcher.splitlines()[0]
    assert result.launcher.splitlines()[-1] == (f"tfcrun: exit code {exit_code}, because {failure}")


def test_last_words_of_a_rank_come_before_what_is_said_about_it():
    code = """
        import os, signal, sys
        if os.environ["TFC_RANK"] == "0":
            signal.pause()
        sys.exit("\\n".join(f"words {number}" for number in range(5000)))
    """
    command = [sys.executable, "-m", "tf_collectives.launch", "-np", "2", "--grace-period", "0"]
    done = subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert lines[:5000] == [f"[1] words {number}" for number in range(5000)]
    assert lines[5000].startswith("tfcrun: rank 1 ")


def test_survivors_get_the_time_to_raise_their_own_errors(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    code = """
        import os, signal, sys
        if os.environ["TFC_RANK"] == "1":
            with open(sys.argv[1], "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        with open(sys.argv[1]) as pipe:
            pipe.read()
        raise RuntimeError("rank 1 is gone")
    """
    result = run_ranks(code, args=[str(tmp_path / "pipe")], expect=128 + signal.SIGKILL)
    assert "RuntimeError: rank 1 is gone" in result.stderr[0]
    assert "rank 1" in result.launcher.splitlines()[-1]
    assert "SIGTERM" not in result.launcher


def test_rank_that_ends_well_before_the_others_ends_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    code = """
        import os, sys
        if os.environ["TFC_RANK"] == "0":
            sys.exit()
        with open(sys.argv[1]) as pipe:
            print(pipe.read())
    """
    with start_ranks(code, args=[str(tmp_path / "pipe")], options=["--verbose"]) as job:
        job.wait_for("exited with code 0")
        (tmp_path / "pipe").write_text("went on")
        result = job.finish()
    assert (result.returncode, result.stdout[1]) == (0, "went on\n")


def test_survivor_that_never_ends_is_terminated():
    code = """
        import os, signal, sys
        if os.environ["TFC_RANK"] == "1":
            sys.exit(5)
        print(os.getpid(), flush=True)
        signal.pause()
    """
    result = run_ranks(code, np=3, options=["--grace-period", "0.1"], expect=5)
    assert "the other ranks have 0.1 s to end" in result.launcher
    assert "sending SIGTERM to what still runs: ranks 0, 2" in result.launcher
    assert_gone([int(result.stdout[0]), int(result.stdout[2])], timeout=0)


def test_survivor_that_ignores_sigterm_is_killed():
    code = """
        import os, signal, sys
        if os.environ["TFC_RANK"] == "1":
            sys.exit(5)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        signal.pause()
    """
    result = run_ranks(code, options=["--grace-period", "0.1"], expect=5)
    assert "sending SIGKILL to what still runs: ranks 0" in result.launcher
    assert_gone([int(result.stdout[0])], timeout=0)
