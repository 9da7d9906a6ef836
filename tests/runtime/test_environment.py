"""What the environment says is obeyed, and where it makes no sense init() says so."""

from __future__ import annotations

import os
from typing import Any

import pytest
from support.forking import run, start
from support.values import assert_same_bits, of_each_rank, reduced

import tf_collectives as hvd


def many_collectives() -> None:
    """Check collectives of all kinds and sizes, new ones and repeated ones, against NumPy."""
    import numpy as np
    import tensorflow as tf

    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    lengths = (0, 1, 5, 1000, 5000, 40_000, 300_000)
    data = {n: of_each_rank(size, "float32", (n,), n) for n in lengths}

    def check(length: int, suffix: str) -> None:
        arrays = data[length]
        tensor = tf.constant(arrays[rank])
        assert_same_bits(
            hvd.allreduce(tensor, op=hvd.Average, name=f"reduce {length} {suffix}"),
            reduced("average", arrays),
        )
        rows = [array[: length // (1 + number)] for number, array in enumerate(arrays)]
        assert_same_bits(
            hvd.allgather(rows[rank], name=f"gather {length} {suffix}"), np.concatenate(rows)
        )
        root = length % size
        assert_same_bits(
            hvd.broadcast(tensor, root, name=f"broadcast {length} {suffix}"), arrays[root]
        )

    @tf.function
    def all_at_once(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: hvd.allreduce(tensor, op=hvd.Sum) for name, tensor in tensors.items()}

    for number in range(4):
        for length in lengths:
            check(length, "again")
            check(length, f"once {number}")
        results = all_at_once({str(n): tf.constant(data[n][rank]) for n in lengths})
        for length in lengths:
            assert_same_bits(results[str(length)], reduced("sum", data[length]))


@pytest.mark.parametrize(
    "settings",
    [
        {"TFC_CACHE_CAPACITY": "0"},
        {"TFC_CACHE_CAPACITY": "2"},
        {"TFC_CHUNK_BYTES": "4096"},
        {"TFC_CHUNK_BYTES": "100000", "TFC_FUSION_THRESHOLD": "200000"},
        {"TFC_FUSION_THRESHOLD": "0", "TFC_SPIN_MICROSECONDS": "0"},
        {"TFC_OUTPUT_CACHE_BYTES": "0", "TFC_LOG_LEVEL": "debug"},
    ],
    ids=str,
)
def test_results_are_the_same_with_other_settings(settings: dict[str, str]):
    run(many_collectives, 3, env=settings)


def counts(threshold: int, hits_of: int) -> None:
    import tensorflow as tf

    hvd.init()
    assert hvd.fusion.threshold() == threshold
    step = tf.function(
        lambda x: [hvd.allreduce(x, name=f"{i}") for i in range(hits_of)], autograph=False
    )
    step(tf.ones([4]))
    hvd.fusion.reset_statistics()
    step(tf.ones([4]))
    statistics = hvd.fusion.statistics()
    print(statistics.tensors, statistics.batches, statistics.cache_hits, statistics.cache_misses)


@pytest.mark.parametrize(
    ("threshold", "capacity", "expected"),
    [
        # Whether tensors that are ready at about the same time travel together is a matter of
        # time, whether they travel alone is not.
        (0, 100, "10 10 10 0"),
        (64, 0, "10 * 0 10"),
        (64, 100, "10 * 10 0"),
    ],
)
def test_fusion_and_cache_can_be_switched_off(threshold: int, capacity: int, expected: str):
    env = {"TFC_FUSION_THRESHOLD": str(threshold), "TFC_CACHE_CAPACITY": str(capacity)}
    for rank in run(counts, 2, threshold, 10, env=env):
        for found, wanted in zip(rank.stdout.split(), expected.split(), strict=True):
            assert wanted in (found, "*")


def init_in(changes: dict[str, dict[str, str | None]]) -> None:
    """Change the environment of some ranks, and print what init() says to that."""
    for name, value in changes.get(os.environ["TFC_RANK"], {}).items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    try:
        hvd.init()
    except (RuntimeError, ValueError) as error:
        print("raised", type(error).__name__, error)
    else:
        print("joined", hvd.rank(), hvd.size())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"TFC_TIMEOUT_SECONDS": "soon"}, "TFC_TIMEOUT_SECONDS='soon' is not a number of seconds"),
        ({"TFC_FUSION_THRESHOLD": "-1"}, "TFC_FUSION_THRESHOLD='-1' is not an integer of at"),
        ({"TFC_LOG_LEVEL": "loud"}, "TFC_LOG_LEVEL='loud' is not one of debug|info|warning|error"),
        ({"TFC_RANK": "7"}, "contradict each other: rank 7 of 1"),
        ({"TFC_SIZE": "0"}, "TFC_SIZE='0' is not an integer of at least 1"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, str], error: str):
    # One rank alone is enough: it doesn't get as far as to look for the others.
    (rank,) = run(init_in, 1, {"0": changes})
    assert rank.stdout.startswith("raised ValueError")
    assert error in rank.stdout
    assert rank.stdout.rstrip().endswith(".")


def test_job_without_an_id_is_refused():
    for rank in run(init_in, 2, {str(rank): {"TFC_JOB_ID": None} for rank in range(2)}):
        assert "TFC_SIZE=2 without TFC_JOB_ID. Start the program with tfcrun" in rank.stdout


def test_ranks_of_jobs_of_different_size_are_refused():
    changes = {"1": {"TFC_SIZE": "3", "TFC_LOCAL_SIZE": "3"}}
    for rank in run(init_in, 2, changes, env={"TFC_START_TIMEOUT_SECONDS": "5"}):
        assert "raised RuntimeError" in rank.stdout
        assert "rank 0 expects 2 ranks, but a process came as rank 1 of 3" in rank.stdout


def test_two_processes_of_one_rank_are_refused():
    changes = {"2": {"TFC_RANK": "1", "TFC_LOCAL_RANK": "1"}}
    for rank in run(init_in, 3, changes, env={"TFC_START_TIMEOUT_SECONDS": "5"}):
        assert "two processes came as rank 1" in rank.stdout


def comes_late(absent: list[int]) -> None:
    """Try to join without some ranks, and then with them."""
    if hvd.is_initialized() or int(os.environ["TFC_RANK"]) not in absent:
        init_in({})
        print("tried")
    input()
    os.environ["TFC_START_TIMEOUT_SECONDS"] = "50"
    hvd.init()
    print("sum", float(hvd.allreduce(1.0, op=hvd.Sum)))


@pytest.mark.parametrize("absent", [[0], [2], [1, 2]], ids=str)
def test_ranks_that_do_not_come_are_named_and_may_come_later(absent: list[int]):
    present = [rank for rank in range(3) if rank not in absent]
    with start(comes_late, 3, absent, env={"TFC_START_TIMEOUT_SECONDS": "1"}) as job:
        job.wait_for("tried", present)
        for rank in range(3):
            job.tell(rank)
        ended = job.finish()
    missing = f"{'rank' if len(absent) == 1 else 'ranks'} {', '.join(map(str, absent))}"
    for rank in present:
        text = ended[rank].stdout
        assert "raised RuntimeError init(): " in text
        assert missing in text
        assert "did not call init() within 1 s" in text
        assert "TFC_START_TIMEOUT_SECONDS" in text
    assert [rank.stdout.splitlines()[-1] for rank in ended] == ["sum 3.0"] * 3
