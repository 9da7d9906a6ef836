"""Ranks that disagree get one error, which names them and both values, and then all goes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from support.modes import in_both_modes

import tf_collectives as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (2, 3)


def last() -> int:
    return hvd.size() - 1


def zeros(shape: tuple[int, ...] = (3,), dtype: Any = tf.float32) -> Any:
    return tf.zeros(shape, dtype)


# What most ranks call, what the last one calls under the same name, how both are described, and
# what the error says that they disagree on.
CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any], str, str, str]] = {
    "shape": (
        lambda: hvd.allreduce(zeros((784, 128)), name="x"),
        lambda: hvd.allreduce(zeros((784, 64)), name="x"),
        "AllReduce [784, 128] float32 average",
        "AllReduce [784, 64] float32 average",
        "shape",
    ),
    "scalar": (
        lambda: hvd.allreduce(1.0, name="x"),
        lambda: hvd.allreduce([1.0], name="x"),
        "AllReduce [] float32",
        "AllReduce [1] float32",
        "shape",
    ),
    "dtype": (
        lambda: hvd.allreduce(zeros((3,)), name="x"),
        lambda: hvd.allreduce(zeros((3,), tf.float64), name="x"),
        "[3] float32",
        "[3] float64",
        "dtype",
    ),
    "op": (
        lambda: hvd.allreduce(zeros(), op=hvd.Sum, name="x"),
        lambda: hvd.allreduce(zeros(), op=hvd.Max, name="x"),
        "float32 sum",
        "float32 max",
        "reduce operation",
    ),
    "prescale_factor": (
        lambda: hvd.allreduce(zeros(), prescale_factor=0.5, name="x"),
        lambda: hvd.allreduce(zeros(), name="x"),
        "prescale 0.5",
        "[3] float32 average",
        "scale factors",
    ),
    "postscale_factor": (
        lambda: hvd.allreduce(zeros(), postscale_factor=0.25, name="x"),
        lambda: hvd.allreduce(zeros(), postscale_factor=3, name="x"),
        "postscale 0.25",
        "postscale 3",
        "scale factors",
    ),
    "root": (
        lambda: hvd.broadcast(zeros(), 0, name="x"),
        lambda: hvd.broadcast(zeros(), 1, name="x"),
        "from root 0",
        "from root 1",
        "root rank",
    ),
    "dimension of a gather": (
        lambda: hvd.allgather(zeros((2, 5)), name="x"),
        lambda: hvd.allgather(zeros((2, 6)), name="x"),
        "AllGather [2, 5] float32",
        "AllGather [2, 6] float32",
        "shape",
    ),
    "number of dimensions of a gather": (
        lambda: hvd.allgather(zeros((2, 5)), name="x"),
        lambda: hvd.allgather(zeros((2,)), name="x"),
        "AllGather [2, 5] float32",
        "AllGather [2] float32",
        "shape",
    ),
    "kind": (
        lambda: hvd.allreduce(zeros(), name="x"),
        lambda: hvd.allgather(zeros(), name="x"),
        "AllReduce [3] float32",
        "AllGather [3] float32",
        "collective",
    ),
    "number of tensors": (
        lambda: hvd.grouped_allreduce([zeros(), zeros()], name="x"),
        lambda: hvd.grouped_allreduce([zeros()], name="x"),
        "AllReduce [3] float32, [3] float32",
        "AllReduce [3] float32",
        "number of tensors",
    ),
    "shape in a group": (
        lambda: hvd.grouped_allgather([zeros(), zeros((1, 2))], name="x"),
        lambda: hvd.grouped_allgather([zeros(), zeros((1, 3))], name="x"),
        "[1, 2] float32",
        "[1, 3] float32",
        "shape",
    ),
}


def report(message: str) -> tuple[list[str], dict[int, str]]:
    """Find our lines in TensorFlow's, and what they say of each rank."""
    match = re.search(
        r"\w+ (?:'[^']*'|\(unnamed\)): ranks disagree[^\n]+\n(?:  ranks? [^\n]+\n)+[^\n]+", message
    )
    assert match, message
    lines = match[0].partition(" [Op:")[0].splitlines()
    described = {}
    for line in lines[1:-1]:
        ranks, _, text = line.partition(": ")
        described |= {int(rank): text for rank in re.findall(r"\d+", ranks)}
    return lines, described


def assert_equal_on_all_ranks(text: str) -> None:
    texts = hvd.allgather(np.frombuffer(text.encode(), np.uint8)).numpy().tobytes()
    assert texts == text.encode() * hvd.size()


def assert_all_goes_on() -> None:
    for _ in range(3):
        assert hvd.allreduce(1.0 + hvd.rank(), op=hvd.Max) == hvd.size()
        assert hvd.allreduce(2.0, op=hvd.Sum, name="x") == 2 * hvd.size()


@in_both_modes
@pytest.mark.parametrize("case", CASES)
def test_error_names_the_ranks_and_both_values(case: str, mode: Callable[..., Any]):
    most, other, of_most, of_other, aspect = CASES[case]
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        mode(other if hvd.rank() == last() else most)()
    lines, described = report(caught.value.message)
    assert lines[0].endswith(f"ranks disagree on the {aspect}.")
    assert of_other in described.pop(last())
    # A rank that comes after the disagreement is known isn't waited for.
    here = [text for text in described.values() if text != "not submitted yet"]
    assert here
    assert all(of_most in text for text in here)
    assert lines[-1].startswith(("Every rank must ", "Check "))
    assert_equal_on_all_ranks("\n".join(lines))
    assert_all_goes_on()


def test_kind_of_unnamed_calls():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        hvd.broadcast(1.0, 0) if hvd.rank() == last() else hvd.allreduce(1.0)
    lines, described = report(caught.value.message)
    assert lines[0].endswith("(unnamed): ranks disagree on the collective.")
    assert described[last()] == "Broadcast [] float32 from root 0"
    assert_all_goes_on()


@in_both_modes
def test_variables_of_different_shape(mode: Callable[..., Any]):
    variable = tf.Variable(tf.zeros([4 if hvd.rank() == last() else 3]))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        mode(lambda: hvd.broadcast_([variable], 0, name="x"))()
    _, described = report(caught.value.message)
    assert described[last()] == "Broadcast [4] float32 from root 0"
    assert_all_goes_on()


@in_both_modes
def test_three_opinions(mode: Callable[..., Any]):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        mode(lambda: hvd.allreduce(tf.zeros([hvd.rank() + 1, 2]), name="x"))()
    _, described = report(caught.value.message)
    shapes = {rank: f"[{rank + 1}, 2] float32" for rank in range(hvd.size())}
    here = {r: text for r, text in described.items() if text != "not submitted yet"}
    assert len(here) >= 2
    assert all(shapes[rank] in text for rank, text in here.items())
    assert_all_goes_on()


def test_thirty_in_a_row():
    for number in range(30):
        rows = 1 if hvd.rank() == number % hvd.size() else 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="disagree on the shape"):
            hvd.allreduce(tf.zeros([rows]))
    assert_all_goes_on()


def test_name_that_was_agreed_on_before():
    # The response cache knows it, so the ranks that keep to it announce it in a few bytes.
    for _ in range(5):
        hvd.allreduce(zeros(), name="agreed")
    shape = (4,) if hvd.rank() == last() else (3,)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        hvd.allreduce(zeros(shape), name="agreed")
    _, described = report(caught.value.message)
    assert "[4] float32" in described[last()]
    assert any("[3] float32" in described[rank] for rank in range(last()))
    hvd.allreduce(zeros(), name="agreed")
    hvd.allreduce(zeros((4,)), name="agreed")
    assert_all_goes_on()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: hvd.broadcast(1.0, 17, name="x"), "root_rank 17 on rank"),
        (lambda: hvd.allgather(scalar(), name="x"), "is a scalar"),
    ],
    ids=["root", "scalar"],
)
@in_both_modes
def test_call_that_is_wrong_on_one_rank_ends_that_of_the_others(
    call: Callable[[], Any], reason: str, mode: Callable[..., Any]
):
    def right() -> Any:
        return hvd.allreduce(zeros(), name="y")

    with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
        mode(call if hvd.rank() == last() else right)()
    assert_all_goes_on()


def scalar() -> Any:
    """A scalar whose shape a graph doesn't know."""
    return tf.numpy_function(lambda: np.float32(1), [], tf.float32)


def test_ranks_that_had_nothing_in_flight_hear_of_it_once():
    if hvd.rank() == last():
        with pytest.raises(tf.errors.InvalidArgumentError, match="root_rank -1"):
            hvd.broadcast(1.0, -1)
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="root_rank -1"):
            hvd.allreduce(1.0, name="later")
    assert_all_goes_on()
