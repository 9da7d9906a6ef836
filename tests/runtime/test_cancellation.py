"""When one op of a step fails on one rank, the step ends on all of them, and the next is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_collectives as hvd

RANKS = (2, 3)

OPS = 20

KINDS = ("mismatch", "refused", "before", "after")


class Step:
    """A training step of independent collectives, one of which may fail on one rank."""

    def __init__(self, kind: str, culprit: int = 0, length: int = 3) -> None:
        self._kind = kind
        self._is_culprit = hvd.rank() == culprit
        self._length = length
        self._function = tf.function(self._run, autograph=False)

    def __call__(self, number: int, fails: bool) -> list[Any]:
        return self._function(tf.constant(float(number)), tf.constant(fails and self._is_culprit))

    def _run(self, number: Any, fails: Any) -> list[Any]:
        tensors = [tf.fill([self._length], number + i) for i in range(OPS)]
        if self._kind == "mismatch":
            right = tensors[7]
            tensors[7] = tf.cond(fails, lambda: tf.fill([4], number), lambda: right)
        if self._kind == "refused":
            # A scalar of which only the kernel learns that it is one.
            hvd.allgather(tf.cond(fails, lambda: number, lambda: number[None]))
        results = [hvd.allreduce(tensor, op=hvd.Sum) for tensor in tensors]
        if self._kind in ("before", "after"):
            source = number if self._kind == "before" else results[3][0]
            reduce_in_two_ways(checked(source, fails), self._is_culprit)
        return results


def reduce_in_two_ways(broken: Any, is_culprit: bool) -> None:
    """Let peers wait for a collective that the culprit doesn't come to when `broken` fails.

    It has another one in flight meanwhile, so that there is something to cancel. The peers don't
    submit that before theirs is done, or it might be over when `broken` fails.
    """
    awaited = hvd.allreduce(broken, name="awaited")
    with tf.control_dependencies([] if is_culprit else [awaited]):
        hvd.allreduce(tf.constant(1.0) + 0.0, name="in flight")


def checked(tensor: Any, fails: Any) -> Any:
    with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(fails), ["broken input"])]):
        return tf.identity(tensor)


def assert_right(results: list[Any], number: int) -> None:
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result[:3], [hvd.size() * (number + i)] * 3)


def assert_told(error: tf.errors.OpError, kind: str, culprit: int) -> None:
    if kind == "mismatch":
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "ranks disagree on the shape" in error.message
    elif kind == "refused":
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "is a scalar" in error.message
    elif hvd.rank() == culprit:
        assert "broken input" in error.message
    else:
        assert isinstance(error, tf.errors.CancelledError)
        assert f"was cancelled on rank {culprit}" in error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [3, 100_000])
def test_step_ends_on_all_ranks_and_the_next_is_right(length: int, kind: str):
    for culprit in range(hvd.size()):
        step = Step(kind, culprit, length)
        assert_right(step(0, fails=False), 0)
        for number in range(4):
            with pytest.raises(tf.errors.OpError) as caught:
                step(number, fails=True)
            assert_told(caught.value, kind, culprit)
            assert_right(step(number, fails=False), number)


@pytest.mark.parametrize("kind", KINDS)
def test_failures_one_after_the_other(kind: str):
    steps = [Step(kind, culprit) for culprit in range(hvd.size())]
    for number in range(12):
        culprit = number % hvd.size()
        with pytest.raises(tf.errors.OpError) as caught:
            steps[culprit](number, fails=True)
        assert_told(caught.value, kind, culprit)
    assert_right(steps[0](7, fails=False), 7)


def test_failure_in_a_loop():
    def make(culprit: int) -> Any:
        @tf.function
        def loop(fails_at: Any) -> Any:
            def body(n: Any, value: Any) -> Any:
                value = checked(value, tf.equal(n, fails_at))
                return n + 1, hvd.allreduce(value + 1.0, op=hvd.Average)

            result = tf.while_loop(lambda n, _: n < 10, body, (0, 0.0))[1]
            with tf.control_dependencies([] if hvd.rank() == culprit else [result]):
                hvd.allreduce(tf.constant(1.0) + 0.0, name="in flight")
            return result

        return loop

    for culprit in range(hvd.size()):
        loop = make(culprit)
        for fails_at in (0, 1, 9):
            with pytest.raises(tf.errors.OpError) as caught:
                loop(fails_at if hvd.rank() == culprit else -1)
            assert_told(caught.value, "loop", culprit)
            assert loop(-1) == 10


def test_eager_collective_after_a_failed_step():
    step = Step("after")
    for _ in range(5):
        with pytest.raises(tf.errors.OpError):
            step(1, fails=True)
        for _ in range(3):
            assert hvd.allreduce(1.0 + hvd.rank(), op=hvd.Max) == hvd.size()
            assert hvd.allreduce(2.0, op=hvd.Sum, name="named") == 2 * hvd.size()
