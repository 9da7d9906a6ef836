"""Ctrl-C ends a blocked collective with KeyboardInterrupt, and the runtime goes on."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.forking import Job, start

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_TO_RAISE = 1.0

MODES = pytest.mark.parametrize("in_function", [False, True], ids=["eager", "graph"])


def reduce_one(name: str, in_function: bool) -> Any:
    import tensorflow as tf

    def call() -> Any:
        return hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name=name)

    return tf.function(call)() if in_function else call()


def tell_outcome(call: Callable[[], Any]) -> None:
    import tensorflow as tf

    try:
        result = call()
    except KeyboardInterrupt:
        print("interrupted")
    except tf.errors.OpError as error:
        print("failed", type(error).__name__, error.message.replace("\n", " "))
    else:
        print("result", float(result))


def interrupt(job: Job, *ranks: int, count: int = 1) -> None:
    """Send what Ctrl-C does, and wait for what comes of it."""
    sent = time.monotonic()
    for rank in ranks:
        job.send(rank, signal.SIGINT)
    job.wait_for("interrupted", list(ranks), count)
    assert time.monotonic() - sent < SECONDS_TO_RAISE


def blocked(absent: int, in_function: bool, rounds: int) -> None:
    """Wait for a rank that doesn't come, as often as told; then reduce together."""
    hvd.init()
    # What a first call has to set up takes longer than an interruption may.
    reduce_one("first", in_function)
    for _ in range(rounds):
        print("waiting")
        if hvd.rank() == absent:
            input()
        tell_outcome(lambda: reduce_one("blocked", in_function))
    print("together", float(reduce_one("together", in_function)))


@MODES
@pytest.mark.parametrize("victim", [0, 1])
def test_blocked_collective(victim: int, in_function: bool):
    peer = 1 - victim
    with start(blocked, 3, 2, in_function, 1) as job:
        job.wait_for("waiting")
        interrupt(job, victim)
        # What waited with it ends at once, and a rank that comes later hears of it, too.
        job.wait_for("failed", [peer])
        job.tell(2)
        ended = job.finish()
    assert ended[victim].stdout.splitlines()[1:] == ["interrupted", "together 3.0"]
    for rank in (peer, 2):
        _, failed, together = ended[rank].stdout.splitlines()
        assert failed.startswith("failed CancelledError")
        assert f"rank {victim} was interrupted (Ctrl-C)" in failed
        assert together == "together 3.0"


@MODES
def test_all_ranks_at_once(in_function: bool):
    with start(blocked_apart, 2, in_function) as job:
        job.wait_for("waiting")
        interrupt(job, 0, 1)
        ended = job.finish()
    for rank in ended:
        assert rank.stdout.splitlines()[1:] == ["interrupted", "together 2.0"]


def blocked_apart(in_function: bool) -> None:
    """Wait for a collective to which nobody else comes, so that every rank is blocked."""
    hvd.init()
    reduce_one("first", in_function)
    print("waiting")
    tell_outcome(lambda: reduce_one(f"of rank {hvd.rank()}", in_function))
    print("together", float(reduce_one("together", in_function)))


@MODES
def test_again_and_again(in_function: bool):
    rounds = 3
    with start(blocked, 2, 1, in_function, rounds) as job:
        for number in range(1, rounds + 1):
            job.wait_for("waiting", count=number)
            interrupt(job, 0, count=number)
            job.tell(1)
        ended = job.finish()
    assert ended[0].stdout.count("interrupted") == rounds
    assert ended[1].stdout.count("rank 0 was interrupted") == rounds
    assert all(rank.stdout.endswith("together 2.0\n") for rank in ended)


def computes() -> None:
    hvd.init()
    reduce_one("first", False)
    print("waiting")
    if hvd.rank() == 0:
        tell_outcome(spin)
    else:
        input()
    for _ in range(3):
        tell_outcome(lambda: reduce_one("next", False))


def spin() -> None:
    while True:
        pass


def test_outside_a_collective_it_concerns_nobody_else():
    with start(computes, 2) as job:
        job.wait_for("waiting")
        interrupt(job, 0)
        job.tell(1)
        ended = job.finish()
    assert ended[0].stdout.splitlines()[1:] == ["interrupted", *["result 2.0"] * 3]
    assert ended[1].stdout.splitlines()[1:] == ["result 2.0"] * 3


def large_ones() -> None:
    import tensorflow as tf

    hvd.init()
    tensor = tf.ones([4 << 20])

    def forever() -> None:
        while True:
            hvd.allreduce(tensor, op=hvd.Sum)
            print("reduced")

    tell_outcome(forever)


def test_while_large_collectives_run():
    with start(large_ones, 2) as job:
        job.wait_for("reduced", count=3)
        interrupt(job, 0)
        ended = job.finish()
    # The other one goes on until the first has left.
    assert "interrupted" in ended[0].stdout
    assert "failed" in ended[1].stdout.splitlines()[-1]
    assert [rank.returncode for rank in ended] == [0, 0]


def catches_nothing() -> None:
    hvd.init()
    reduce_one("first", False)
    print("waiting")
    if hvd.rank() == 1:
        input()
    reduce_one("blocked", False)


def test_uncaught_it_ends_the_program_as_always():
    with start(catches_nothing) as job:
        job.wait_for("waiting")
        job.send(0, signal.SIGINT)
        job.wait_for("KeyboardInterrupt", [0])
        job.tell(1)
        ended = job.finish()
    assert ended[0].returncode == -signal.SIGINT
    assert ended[1].returncode == 1
    assert "rank 0 was interrupted" in ended[1].stderr or "rank 0 has left" in ended[1].stderr
