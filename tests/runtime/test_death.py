"""A rank that is killed makes the current or next collective of every other one raise."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.forking import Ended, Job, start

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_TO_RAISE = 5.0


def reduce_once(count: int, in_function: bool, name: str | None = None) -> Any:
    import tensorflow as tf

    def call() -> Any:
        return hvd.allreduce(tf.ones([count]), op=hvd.Sum, name=name)

    return tf.function(call)() if in_function else call()


def report_errors(count: int, in_function: bool) -> None:
    """Call collectives until one raises, and see that so do others."""

    def reduce_until_it_raises() -> None:
        while True:
            reduce_once(count, in_function)
            print("reduced")

    report_error(reduce_until_it_raises)
    report_error(lambda: hvd.allgather([1.0], name="x"))
    report_error(lambda: hvd.broadcast(1.0, 0, name="y"))


def report_error(call: Callable[[], Any]) -> None:
    import tensorflow as tf

    try:
        call()
    except tf.errors.UnavailableError as error:
        print("raised", error.message.replace("\n", " "))


def busy(count: int, in_function: bool) -> None:
    hvd.init()
    report_errors(count, in_function)


def idle(in_function: bool) -> None:
    hvd.init()
    reduce_once(3, in_function)
    print("idle")
    input()
    report_errors(3, in_function)


def waiting(victim: int, in_function: bool) -> None:
    hvd.init()
    print("waiting")
    if hvd.rank() == victim:
        input()
    report_errors(3, in_function)


def kill(job: Job, victim: int) -> float:
    job.send(victim, signal.SIGKILL)
    return time.monotonic()


def survivors_of(victim: int, np: int) -> list[int]:
    return [rank for rank in range(np) if rank != victim]


def check(ended: list[Ended], victim: int, pid: int) -> None:
    assert ended[victim].returncode == -signal.SIGKILL
    for rank in survivors_of(victim, len(ended)):
        assert ended[rank].returncode == 0, ended[rank]
        lines = ended[rank].stdout.splitlines()
        errors = [line for line in lines if line.startswith("raised")]
        assert len(errors) == 3
        for error in errors:
            assert f"rank {victim} (process {pid}) has ended without leaving" in error
            assert "start the job again" in error


@pytest.mark.parametrize(("victim", "in_function"), [(0, False), (2, True)])
def test_next_collective_of_idle_ranks(victim: int, in_function: bool):
    with start(idle, 3, in_function) as job:
        job.wait_for("idle")
        killed = kill(job, victim)
        for rank in survivors_of(victim, 3):
            job.tell(rank)
        job.wait_for("raised", survivors_of(victim, 3))
        assert time.monotonic() - killed < SECONDS_TO_RAISE
        check(job.finish(), victim, job.pids[victim])


@pytest.mark.parametrize(("victim", "in_function"), [(0, False), (1, True)])
def test_collective_that_waits_for_it(victim: int, in_function: bool):
    with start(waiting, 3, victim, in_function) as job:
        job.wait_for("waiting")
        killed = kill(job, victim)
        job.wait_for("raised", survivors_of(victim, 3))
        assert time.monotonic() - killed < SECONDS_TO_RAISE
        check(job.finish(), victim, job.pids[victim])


@pytest.mark.parametrize(("victim", "in_function"), [(0, False), (1, True)])
def test_in_the_middle_of_a_large_collective(victim: int, in_function: bool):
    # They do nothing else, so that it is all but certainly in one that it is killed.
    with start(busy, 2, 16 << 20, in_function) as job:
        job.wait_for("reduced", count=2)
        killed = kill(job, victim)
        job.wait_for("raised", survivors_of(victim, 2))
        assert time.monotonic() - killed < SECONDS_TO_RAISE
        check(job.finish(), victim, job.pids[victim])


def test_in_the_middle_of_many_small_ones():
    with start(busy, 4, 3, False) as job:
        job.wait_for("reduced", count=100)
        killed = kill(job, 2)
        job.wait_for("raised", survivors_of(2, 4))
        assert time.monotonic() - killed < SECONDS_TO_RAISE
        check(job.finish(), 2, job.pids[2])


def test_two_ranks_die():
    with start(waiting, 4, 1, False) as job:
        job.wait_for("waiting")
        job.send(3, signal.SIGKILL)
        killed = kill(job, 1)
        job.wait_for("raised", [0, 2])
        assert time.monotonic() - killed < SECONDS_TO_RAISE
        ended = job.finish()
    for rank in (0, 2):
        assert "has ended without leaving" in ended[rank].stdout
        assert ended[rank].returncode == 0


def catches_nothing() -> None:
    hvd.init()
    print("waiting")
    if hvd.rank() == 1:
        input()
    hvd.allreduce(1.0, name="gradient")


def test_rank_that_catches_nothing_ends_with_the_error():
    with start(catches_nothing, 2) as job:
        job.wait_for("waiting")
        kill(job, 1)
        ended = job.finish()
    assert ended[0].returncode == 1
    assert "UnavailableError" in ended[0].stderr
    assert f"AllReduce 'gradient': rank 1 (process {job.pids[1]}) has ended" in ended[0].stderr
