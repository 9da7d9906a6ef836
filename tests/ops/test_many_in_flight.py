"""No thread waits inside the runtime, so any number of collectives can be in flight."""

from __future__ import annotations

from typing import Any

from support.forking import run

import tf_collectives as hvd

COUNT = 1000


def shuffled_graph(kinds: list[str]) -> None:
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()

    def submit(number: int, tensor: Any) -> Any:
        kind = kinds[number % len(kinds)]
        if kind == "allreduce":
            return hvd.allreduce(tensor, op=hvd.Sum, name=f"{number}")
        if kind == "allgather":
            return hvd.allgather(tensor, name=f"{number}")
        return hvd.broadcast(tensor, number % size, name=f"{number}")

    @tf.function
    def step(tensor: Any) -> Any:
        order = np.random.default_rng(rank).permutation(COUNT)
        results = {int(number): submit(number, tensor + float(number)) for number in order}
        return [results[number] for number in range(COUNT)]

    shared = [np.array([r, 10.0 * r], np.float32) for r in range(size)]
    for _ in range(2):
        for number, result in enumerate(step(tf.constant(shared[rank]))):
            inputs = [values + number for values in shared]
            expected = {
                "allreduce": sum(inputs),
                "allgather": np.concatenate(inputs),
                "broadcast": inputs[number % size],
            }[kinds[number % len(kinds)]]
            np.testing.assert_array_equal(result, expected)


def test_a_thousand_in_another_order_on_each_rank_with_one_thread():
    run(shuffled_graph, 3, ["allreduce"], timeout=120)


def test_a_thousand_of_all_kinds_in_another_order_on_each_rank_with_one_thread():
    run(shuffled_graph, 2, ["allreduce", "allgather", "broadcast"], timeout=120)


def large_messages() -> None:
    import numpy as np
    import tensorflow as tf

    hvd.init()
    tensors = [tf.constant([float(number), 1.0]) for number in range(100)] * 150
    results = hvd.grouped_allreduce(tensors, op=hvd.Sum)
    assert len(results) == len(tensors)
    np.testing.assert_array_equal(results[-1], [99 * hvd.size(), hvd.size()])
    assert hvd.allreduce(1.0, op=hvd.Sum, name="long/" * 100_000) == hvd.size()


def test_what_ranks_tell_each_other_may_be_long():
    # Longer than the memory that they tell it through.
    run(large_messages, 2)
