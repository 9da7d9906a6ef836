"""A program ends cleanly in every state, and may leave the job and join it anew."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
from typing import Any

import pytest
from support.forking import Ended, run, start

import tf_collectives as hvd

# What TensorFlow itself prints on a machine without a GPU.
USUAL = ("cuda", "rebuild TensorFlow", "cpu_feature_guard")


def together(name: str | None = None) -> float:
    return float(hvd.allreduce(1.0, op=hvd.Sum, name=name))


def assert_clean(ended: list[Ended], *returncodes: int) -> None:
    """Fail unless all ranks ended as they should, without a word."""
    assert [rank.returncode for rank in ended] == list(returncodes or [0] * len(ended))
    for rank in ended:
        unusual = [
            line for line in rank.stderr.splitlines() if not any(text in line for text in USUAL)
        ]
        assert unusual == []


def init_only() -> None:
    hvd.init()
    assert hvd.is_initialized()


def init_and_shutdown() -> None:
    hvd.init()
    hvd.shutdown()
    assert not hvd.is_initialized()


def collective_and_exit() -> None:
    hvd.init()
    assert together() == hvd.size()


def graph_and_exit() -> None:
    import tensorflow as tf

    hvd.init()
    step = tf.function(lambda: [together_tensor(f"{i}") for i in range(50)])
    assert len(step()) == 50


def together_tensor(name: str) -> Any:
    return hvd.allreduce(1.0, op=hvd.Sum, name=name)


def large_and_exit() -> None:
    import tensorflow as tf

    hvd.init()
    globals()["kept until the end"] = hvd.allreduce(tf.ones([5_000_000]))


def any_number_of_times() -> None:
    hvd.shutdown()
    hvd.init()
    hvd.init()
    assert together() == hvd.size()
    hvd.shutdown()
    assert not hvd.is_initialized()
    hvd.shutdown()


def collective_in_an_exit_handler() -> None:
    # It was registered after that of the library, so it runs before.
    hvd.init()
    atexit.register(lambda: print(together("at exit")))


def leave_and_join_again() -> None:
    import numpy as np
    import tensorflow as tf

    step = tf.function(lambda: hvd.allreduce(tf.range(4) + hvd.rank(), op=hvd.Max))
    for _ in range(5):
        hvd.init()
        assert together() == hvd.size()
        assert together("named") == hvd.size()
        np.testing.assert_array_equal(step(), np.arange(4) + hvd.size() - 1)
        hvd.shutdown()


def never_init() -> None:
    assert not hvd.is_initialized()


@pytest.mark.parametrize(
    "program",
    [
        never_init,
        init_only,
        init_and_shutdown,
        collective_and_exit,
        graph_and_exit,
        large_and_exit,
        any_number_of_times,
        collective_in_an_exit_handler,
        leave_and_join_again,
    ],
)
def test_program_ends_cleanly(program: Any):
    assert_clean(run(program, 2))


def not_initialized() -> None:
    import tensorflow as tf

    def assert_refused() -> None:
        for ask in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size):
            with pytest.raises(hvd.errors.NotInitializedError, match=r"init\(\)"):
                ask()
        for call in (
            lambda: hvd.allreduce(1.0),
            lambda: hvd.allgather([1.0]),
            lambda: hvd.broadcast(1.0, 0),
            tf.function(lambda: hvd.allreduce(1.0)),
        ):
            with pytest.raises(tf.errors.FailedPreconditionError, match=r"Call .*init\(\)"):
                call()

    assert_refused()
    hvd.init()
    together()
    hvd.shutdown()
    assert_refused()


def test_collectives_outside_the_job_are_refused():
    assert_clean(run(not_initialized, 2))


def alone() -> None:
    del os.environ["TFC_JOB_ID"]
    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()) == (0, 1, 0, 1)
    assert together() == 1


def test_process_without_a_launcher_is_a_job_of_one():
    assert_clean(run(alone, 1))


def in_flight(how: str) -> None:
    """End while a collective waits in another thread; rank 1 never comes to it."""
    import tensorflow as tf

    hvd.init()
    together()
    if hvd.rank() == 0:
        began = threading.Event()

        def wait_for_rank_1() -> None:
            began.set()
            try:
                together("in flight")
            except tf.errors.OpError as error:
                print("failed", type(error).__name__, error.message.replace("\n", " "))

        thread = threading.Thread(target=wait_for_rank_1, daemon=how == "exit")
        thread.start()
        began.wait()
        print("waiting")
        input()
        if how == "shutdown":
            hvd.shutdown()
            thread.join()
            print("left")
    else:
        print("waiting")
        input()


@pytest.mark.parametrize("how", ["shutdown", "exit"])
@pytest.mark.parametrize("first", [0, 1])
def test_collective_in_flight(first: int, how: str):
    with start(in_flight, 2, how) as job:
        job.wait_for("waiting")
        job.tell(first)
        if first == 1:
            # What waits for a rank that has left ends at once.
            job.wait_for("failed UnavailableError", [0])
        job.tell(1 - first)
        ended = job.finish()
    assert [rank.returncode for rank in ended] == [0, 0]
    if how == "shutdown":
        assert ended[0].stdout.endswith("left\n")
    if first == 1:
        assert "rank 1 has left the job" in ended[0].stdout


def leaves_early(how: str) -> None:
    import tensorflow as tf

    hvd.init()
    together()
    if hvd.rank() == 1:
        if how == "exception":
            raise ValueError("of the user")
        if how == "sys.exit":
            sys.exit(3)
        if how == "os._exit":
            os._exit(4)
        hvd.shutdown()
        return
    for name in ("next", "one more"):
        with pytest.raises(tf.errors.UnavailableError) as caught:
            together(name)
        print(caught.value.message)


@pytest.mark.parametrize(
    ("how", "returncode", "text"),
    [
        ("exception", 1, "rank 1 has left the job"),
        ("sys.exit", 3, "rank 1 has left the job"),
        ("shutdown", 0, "rank 1 has left the job"),
        ("os._exit", 4, "has ended without leaving the job"),
    ],
)
def test_rank_that_leaves_early_is_named(how: str, returncode: int, text: str):
    with start(leaves_early, 3, how) as job:
        ended = job.finish()
    assert [rank.returncode for rank in ended] == [0, returncode, 0]
    assert ended[0].stdout.count(text) == 2
    assert ended[2].stdout.count(text) == 2
    assert ("ValueError: of the user" in ended[1].stderr) == (how == "exception")


def fails_after_an_error_of_ours() -> None:
    hvd.init()
    hvd.allreduce([1.0] * (1 + hvd.rank()), name="gradient")


def test_uncaught_error_of_a_collective():
    with start(fails_after_an_error_of_ours) as job:
        ended = job.finish()
    for rank in ended:
        assert rank.returncode == 1
        assert "InvalidArgumentError" in rank.stderr
        assert "AllReduce 'gradient': ranks disagree on the shape" in rank.stderr


def forks() -> None:
    hvd.init()
    together()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            # A child is no rank, and its end is not that of its parent.
            os._exit(7 if hvd.is_initialized() else 5)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 5
        assert together() == hvd.size()
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
        assert together() == hvd.size()
    child = os.fork()
    if child == 0:
        sys.exit(6)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 6
    assert together() == hvd.size()


def test_forked_children_are_no_ranks():
    with start(forks, 2) as job:
        ended = job.finish()
    assert [rank.returncode for rank in ended] == [0, 0], ended


def dies_before_its_child() -> None:
    import tensorflow as tf

    hvd.init()
    together()
    if hvd.rank() == 1:
        if os.fork() == 0:
            # The child's copies of descriptors must not hide that its parent is gone.
            print("child", os.getpid())
            input()
            os._exit(0)
        input()
        os._exit(1)
    print("waiting")
    try:
        together("next")
    except tf.errors.UnavailableError as error:
        print("raised", error.message)


def test_child_that_outlives_a_rank_hides_nothing():
    with start(dies_before_its_child, 2) as job:
        job.wait_for("waiting", [0])
        job.wait_for("child", [1])
        os.kill(job.pids[1], 9)
        job.wait_for("raised", [0])
        job.tell(1)
        ended = job.finish()
    assert ended[0].returncode == 0
    assert "rank 1" in ended[0].stdout
