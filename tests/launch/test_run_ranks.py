from __future__ import annotations

import time

import pytest
from support.launching import run_ranks, start_ranks
from support.processes import assert_gone


def test_hang_fails_in_time_and_says_where_each_rank_hung():
    code = """
        import os, threading
        print("pid", os.getpid(), flush=True)
        def stuck_in_rank_1(lock):
            lock.acquire()
            lock.acquire()
        if os.environ["TFC_RANK"] == "1":
            stuck_in_rank_1(threading.Lock())
    """
    started = time.monotonic()
    with pytest.raises(AssertionError) as raised:
        run_ranks(code, np=2, timeout=3)
    text = str(raised.value)
    assert time.monotonic() - started < 60
    assert text.startswith("the job didn't end within 3 s; its stacks are in the stderr below")
    assert "--- stdout of rank 1 ---\npid" in text
    assert 'File "<string>", line 6 in stuck_in_rank_1' in text
    assert_gone([int(line[4:]) for line in text.splitlines() if line.startswith("pid ")], 0)


def test_unexpected_exit_code_fails_with_all_output():
    with pytest.raises(AssertionError) as raised:
        run_ranks("import sys; print('said'); sys.exit('wrong')", np=1)
    assert str(raised.value).startswith(
        "expected exit code 0\nexit code 1\n--- stdout of rank 0 ---\nsaid\n"
        "--- stderr of rank 0 ---\nwrong\n--- tfcrun ---\ntfcrun: rank 0 (pid "
    )


def test_waiting_for_a_line_that_never_comes_fails_when_the_job_ends():
    with (
        start_ranks("print('something else')") as job,
        pytest.raises(AssertionError, match="the job ended before it printed 'this'"),
    ):
        job.wait_for("this")


def test_leaving_the_block_ends_the_job():
    code = "import os, signal; print('pid', os.getpid(), flush=True); signal.pause()"
    with start_ranks(code) as job:
        pids = [int(line.split()[-1]) for line in job.wait_for("pid", count=2)]
    assert_gone(pids)
