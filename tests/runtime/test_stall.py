"""A collective that waits for a rank is reported after a while, and ends after a longer one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.forking import Job, start

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable


def reduce_one(name: str | None = None) -> float:
    return float(hvd.allreduce([1.0], op=hvd.Sum, name=name)[0])


def init() -> None:
    """Join the job with all done that TensorFlow sets up in a first call and takes a while for."""
    import tensorflow as tf

    import tf_collectives.ops  # noqa: F401

    tf.constant(1.0)
    hvd.init()
    reduce_one("first")


def tell_outcome(call: Callable[[], Any]) -> None:
    import tensorflow as tf

    try:
        print("result", call())
    except tf.errors.OpError as error:
        print("raised", type(error).__name__, error.message.replace("\n", " "))


def late(late_ranks: list[int]) -> None:
    init()
    if hvd.rank() in late_ranks:
        print("late")
        input()
    tell_outcome(lambda: reduce_one("gradients/kernel"))
    print("next")
    input()
    tell_outcome(reduce_one)


def go_on(job: Job, np: int) -> None:
    """Let all ranks begin the next collective at once, so that none is late for it."""
    job.wait_for("next")
    for rank in range(np):
        job.tell(rank)


def test_warning_names_tensor_and_missing_ranks():
    with start(late, 4, [1, 3], env={"TFC_STALL_WARNING_SECONDS": "0.2"}) as job:
        job.wait_for("AllReduce 'gradients/kernel'", [0])
        job.tell(1)
        job.tell(3)
        go_on(job, 4)
        ended = job.finish()
    (warning,) = [line for line in ended[0].stderr.splitlines() if "gradients/kernel" in line]
    assert warning.startswith("[tf_collectives rank 0] warning: ")
    assert "[1] float32 sum" in warning
    assert "of ranks 0, 2 waits for ranks 1, 3" in warning
    for rank in ended:
        assert rank.stdout.count("result 4.0") == 2
    assert all("gradients/kernel" not in rank.stderr for rank in ended[1:])


def waits_for_rank_0() -> None:
    init()
    if hvd.rank() == 0:
        input()
    tell_outcome(lambda: reduce_one("x"))


def test_coordinator_warns_though_it_is_the_one_that_is_missing():
    with start(waits_for_rank_0, 2, env={"TFC_STALL_WARNING_SECONDS": "0.2"}) as job:
        job.wait_for("of rank 1 waits for rank 0", [0])
        job.tell(0)
        ended = job.finish()
    assert [rank.stdout for rank in ended] == ["result 2.0\n"] * 2


@pytest.mark.parametrize(
    "quiet", [{"TFC_STALL_WARNING_SECONDS": "0"}, {"TFC_LOG_LEVEL": "error"}], ids=str
)
def test_warning_can_be_switched_off(quiet: dict[str, str]):
    seconds = {"TFC_STALL_WARNING_SECONDS": "0.2", "TFC_TIMEOUT_SECONDS": "1"}
    with start(late, 2, [1], env=seconds | quiet) as job:
        # The timeout is what shows that the warning would have come by now.
        job.wait_for("DeadlineExceededError", [0])
        job.tell(1)
        go_on(job, 2)
        ended = job.finish()
    assert "waits for" not in ended[0].stderr


@pytest.mark.parametrize("late_ranks", [[0], [2], [1, 2]], ids=str)
def test_timeout_on_all_ranks_that_wait(late_ranks: list[int]):
    waiting = [rank for rank in range(3) if rank not in late_ranks]
    with start(late, 3, late_ranks, env={"TFC_TIMEOUT_SECONDS": "1"}) as job:
        job.wait_for("raised", waiting)
        # The late ones hear of it, too, and then all goes on.
        for rank in late_ranks:
            job.tell(rank)
        go_on(job, 3)
        ended = job.finish()
    names = [
        f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
        for ranks in (waiting, late_ranks)
    ]
    texts = set()
    for rank in ended:
        failed, _, result = [line for line in rank.stdout.splitlines() if line != "late"]
        assert failed.startswith("raised DeadlineExceededError")
        texts.add(failed.partition("AllReduce '")[2])
        assert result == "result 3.0"
    (text,) = texts
    assert text.startswith("gradients/kernel'")
    assert f"of {names[0]} waits for {names[1]} for over 1 s" in text
    assert "raise TFC_TIMEOUT_SECONDS" in text


def late_in_a_function() -> None:
    import tensorflow as tf

    init()

    @tf.function
    def step(tensor: Any) -> Any:
        return [hvd.allreduce(tensor, op=hvd.Sum, name=f"t{i}") for i in range(20)]

    tensors = tf.constant(1.0), tf.constant(2.0)
    step.get_concrete_function(tensors[0])
    if hvd.rank() == 1:
        input()
    tell_outcome(lambda: float(step(tensors[0])[0]))
    print("next")
    input()
    for _ in range(3):
        tell_outcome(lambda: float(step(tensors[1])[19]))


def test_timeout_of_many():
    with start(late_in_a_function, 2, env={"TFC_TIMEOUT_SECONDS": "1"}) as job:
        job.wait_for("raised", [0])
        job.tell(1)
        go_on(job, 2)
        ended = job.finish()
    for rank in ended:
        failed, _, *results = rank.stdout.splitlines()
        assert failed.startswith("raised DeadlineExceededError")
        assert results == ["result 4.0"] * 3


def stopped(count: int) -> None:
    import tensorflow as tf

    init()

    def reduce_until_it_raises() -> None:
        tensor = tf.ones([count])
        while True:
            hvd.allreduce(tensor, op=hvd.Sum)
            print("reduced")

    tell_outcome(reduce_until_it_raises)


@pytest.mark.parametrize(
    ("victim", "count"), [(0, 3), (1, 3), (0, 16 << 20), (1, 16 << 20)], ids=str
)
def test_stopped_process_is_named(victim: int, count: int):
    with start(stopped, 2, count, env={"TFC_TIMEOUT_SECONDS": "1"}) as job:
        job.wait_for("reduced", count=2)
        job.send(victim, signal.SIGSTOP)
        job.wait_for("raised DeadlineExceededError", [1 - victim])
        job.send(victim, signal.SIGCONT)
        ended = job.finish()
    failed = ended[1 - victim].stdout.splitlines()[-1]
    assert f"rank {victim}" in failed
    assert ended[1 - victim].returncode == 0
