from __future__ import annotations

import time

from support.forking import run

import tf_collectives as hvd

SECONDS = 10
MOST_CPU_SECONDS = 0.010


def sleep() -> None:
    import tensorflow as tf

    hvd.init()
    # All threads that there may be are there, and have found nothing more to do.
    step = tf.function(lambda x: [hvd.allreduce(x), hvd.allgather(x)], autograph=False)
    step(tf.ones([100_000]))
    hvd.broadcast(1.0, 0)
    begin = time.process_time()
    time.sleep(SECONDS)
    print(time.process_time() - begin)


def test_idle_process_uses_no_cpu_time():
    for rank in run(sleep, 2):
        assert float(rank.stdout) < MOST_CPU_SECONDS
