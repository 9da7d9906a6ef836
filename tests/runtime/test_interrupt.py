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


def reducer(name: str, in_function: bool) -> Callable[[], Any]:
    """Return a call of a collective that has all its preparations behind it."""
    import tensorflow as tf

    one = tf.constant(1.0)

    def call() -> Any:
        return hvd.allreduce(one, op=hvd.Sum, name=name)

    return tf.function(call, autograph=False).get_concrete_function() if in_function else call


def tell_outcome(call: Callable[[], Any]) -> None:
    import tensorflow as tf

    try:
        result = call()
    except KeyboardInterrupt:
        print("interrupted")
    except tf.errors.OpError as error:
        print("raised", type(error).__name__, error.message.replace("\n", " "))
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
    reduce_one, together = reducer("blocked", in_function), reducer("together", in_function)
    together()
    for _ in range(rounds):
        if hvd.rank() == absent:
            input()
        tell_outcome(reduce_one)
    tell_outcome(together)


# By this the test learns that the others are blocked.
WARN_SOON = {"TFC_STALL_WARNING_SECONDS": "0.1"}


@MODES
@pytest.mark.parametrize("victim", [0, 1])
def test_blocked_collective(victim: int, in_function: bool):
    peer = 1 - victim
    with start(blocked, 3, 2, in_function, 1, env=WARN_SOON) as job:
        job.wait_for("of ranks 0, 1 waits for rank 2", [0])
        interrupt(job, victim)
        # What waited with it ends at once, and a rank that comes later hears of it, too.
        job.wait_for("raised", [peer])
        job.tell(2)
        ended = job.finish()
    assert ended[victim].stdout.splitlines() == ["interrupted", "result 3.0"]
    for rank in (peer, 2):
        raised, together = ended[rank].stdout.splitlines()
        assert raised.startswith("raised CancelledError")
        assert f"rank {victim} was interrupted (Ctrl-C)" in raised
        assert together == "result 3.0"


@MODES
def test_again_and_again(in_function: bool):
    rounds = 3
    with start(blocked, 2, 1, in_function, rounds, env=WARN_SOON) as job:
        for number in range(1, rounds + 1):
            job.wait_for("of rank 0 waits for rank 1", [0], count=number)
            interrupt(job, 0, count=number)
            job.tell(1)
        ended = job.finish()
    assert ended[0].stdout == "interrupted\n" * rounds + "result 2.0\n"
    assert ended[1].stdout.count("rank 0 was interrupted") == rounds
    assert ended[1].stdout.endswith("result 2.0\n")


def blocked_apart(in_function: bool) -> None:
    """Wait for a collective to which nobody else comes, so that every rank is blocked."""
    hvd.init()
    apart = reducer(f"of rank {hvd.rank()}", in_function)
    together = reducer("together", in_function)
    together()
    tell_outcome(apart)
    tell_outcome(together)


@MODES
def test_all_ranks_at_once(in_function: bool):
    with start(blocked_apart, 2, in_function, env=WARN_SOON) as job:
        for rank in range(2):
            job.wait_for(f"of rank {rank} waits for rank {1 - rank}", [0])
        interrupt(job, 0, 1)
        ended = job.finish()
    for rank in ended:
        assert rank.stdout.splitlines() == ["interrupted", "result 2.0"]


def computes() -> None:
    hvd.init()
    together = reducer("together", False)
    together()
    if hvd.rank() == 0:
        tell_outcome(spin)
    else:
        input()
    for _ in range(3):
        tell_outcome(together)


def spin() -> None:
    print("computing")
    while True:
        pass


def test_outside_a_collective_it_concerns_nobody_else():
    with start(computes, 2) as job:
        job.wait_for("computing", [0])
        interrupt(job, 0)
        job.tell(1)
        ended = job.finish()
    assert ended[0].stdout.splitlines()[1:] == ["interrupted", *["result 2.0"] * 3]
    assert ended[1].stdout.splitlines() == ["result 2.0"] * 3


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
    assert "raised" in ended[1].stdout.splitlines()[-1]
    assert [rank.returncode for rank in ended] == [0, 0]


def catches_nothing() -> None:
    hvd.init()
    call = reducer("blocked", False)
    if hvd.rank() == 1:
        input()
    call()


def test_uncaught_it_ends_the_program_as_always():
    with start(catches_nothing, env=WARN_SOON) as job:
        job.wait_for("of rank 0 waits for rank 1", [0])
        job.send(0, signal.SIGINT)
        job.wait_for("KeyboardInterrupt", [0])
        job.tell(1)
        ended = job.finish()
    assert ended[0].returncode == -signal.SIGINT
    assert ended[1].returncode == 1
    assert "rank 0 was interrupted" in ended[1].stderr or "rank 0 has left" in ended[1].stderr
