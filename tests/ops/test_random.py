"""Thousands of collectives of random kind, dtype and shape, in another order on each rank."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.values import (
    GATHERABLE,
    REDUCIBLE,
    REDUCTIONS,
    assert_same_bits,
    random,
    reduced,
)

import tf_collectives as hvd

RANKS = (2, 3, 4)

OPS = dict(zip(REDUCTIONS, (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product), strict=True))

# Mostly small, because large ones are no more likely to meet something new.
LENGTHS = (0, 1, 2, 3, 7, 30, 100, 1000)
LARGE_LENGTH = 60_000
KINDS = ("allreduce", "allgather", "broadcast")


@dataclass
class Call:
    """A collective as all ranks know it: what each contributes, and what comes out."""

    name: str
    kind: str
    grouped: bool
    argument: Any
    contributions: list[list[Any]]

    @classmethod
    def draw(cls, generator: np.random.Generator, name: str) -> Call:
        kind = str(generator.choice(KINDS))
        grouped = bool(generator.random() < 0.25)
        argument = {
            "allreduce": str(generator.choice(REDUCTIONS)),
            "allgather": None,
            "broadcast": int(generator.integers(hvd.size())),
        }[kind]
        contributions = []
        for _ in range(generator.integers(1, 5) if grouped else 1):
            dtype = str(generator.choice(REDUCIBLE if kind == "allreduce" else GATHERABLE))
            length = LARGE_LENGTH if generator.random() < 0.01 else generator.choice(LENGTHS)
            rest = [(), (2,), (1, 3)][generator.integers(3)]
            lengths = [length] * hvd.size()
            if kind == "allgather":
                lengths = [int(length * generator.choice([0, 1, 1, 2])) for _ in lengths]
            seed = int(generator.integers(1 << 30))
            contributions.append(
                [random(dtype, (n, *rest), seed, rank) for rank, n in enumerate(lengths)]
            )
        return cls(name, kind, grouped, argument, contributions)

    def mine(self) -> list[Any]:
        return [tf.constant(arrays[hvd.rank()]) for arrays in self.contributions]

    def submit(self, tensors: list[Any]) -> list[Any]:
        options = {
            "allreduce": {"op": OPS.get(self.argument)},
            "allgather": {},
            "broadcast": {"root_rank": self.argument},
        }[self.kind]
        if self.grouped:
            return getattr(hvd, f"grouped_{self.kind}")(tensors, name=self.name, **options)
        return [getattr(hvd, self.kind)(tensors[0], name=self.name, **options)]

    def check(self, results: list[Any]) -> None:
        for result, arrays in zip(results, self.contributions, strict=True):
            if self.kind == "allreduce":
                expected = reduced(self.argument, arrays)
            elif self.kind == "allgather":
                expected = np.concatenate(arrays)
            else:
                expected = arrays[self.argument]
            # The bits of a NaN are nobody's promise.
            if result.dtype.is_floating and np.isnan(expected.astype(np.float64)).any():
                np.testing.assert_array_equal(result.numpy().astype(float), expected.astype(float))
            else:
                assert_same_bits(result, expected)


def calls(seed: int, count: int) -> list[Call]:
    """Return the same calls on all ranks."""
    generator = np.random.default_rng((seed, hvd.size()))
    return [Call.draw(generator, f"random/{seed}/{number}") for number in range(count)]


def shuffled(seed: int, items: list[Any]) -> list[Any]:
    """Return the items in an order that every rank has to itself."""
    order = np.random.default_rng((seed, hvd.rank())).permutation(len(items))
    return [items[number] for number in order]


@pytest.mark.parametrize("seed", range(6))
def test_in_a_graph(seed: int):
    drawn = calls(seed, 100)

    @tf.function
    def step(tensors: dict[str, Any]) -> dict[str, Any]:
        return {call.name: call.submit(tensors[call.name]) for call in shuffled(seed, drawn)}

    for _ in range(3):
        results = step({call.name: call.mine() for call in drawn})
        for call in drawn:
            call.check(results[call.name])


@pytest.mark.parametrize("seed", range(6, 9))
def test_in_eager_code_one_after_another(seed: int):
    for call in calls(seed, 200):
        call.check(call.submit(call.mine()))


@pytest.mark.parametrize("seed", range(9, 11))
def test_in_eager_code_of_many_threads(seed: int):
    threads = 8
    drawn = calls(seed, 240)
    # Each thread has calls of its own, in one order on all ranks, or they would block each other.
    parts = [drawn[number::threads] for number in range(threads)]

    def call_all(part: list[Call]) -> None:
        for call in part:
            call.check(call.submit(call.mine()))

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(call_all, part) for part in shuffled(seed, parts)]:
            future.result()


@pytest.mark.parametrize("seed", range(11, 13))
def test_graphs_and_eager_code_at_once(seed: int):
    drawn = calls(seed, 150)
    eager, *graphs = (drawn[number::3] for number in range(3))

    def run_graph(part: list[Call]) -> None:
        @tf.function
        def step(tensors: dict[str, Any]) -> dict[str, Any]:
            return {call.name: call.submit(tensors[call.name]) for call in shuffled(seed, part)}

        for _ in range(3):
            results = step({call.name: call.mine() for call in part})
            for call in part:
                call.check(results[call.name])

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run_graph, part) for part in shuffled(seed, graphs)]
        for call in eager:
            call.check(call.submit(call.mine()))
        for future in futures:
            future.result()
