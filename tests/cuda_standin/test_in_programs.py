"""What the stand-in does to a TensorFlow program, where it ends badly or can't go on."""

from __future__ import annotations

from support.cuda_log import read_calls
from support.launching import run_ranks


def test_a_kernel_of_tensorflow_makes_all_that_follows_fail():
    result = run_ranks(
        """
        import tensorflow as tf

        with tf.device("/GPU:0"):
            x = tf.constant([1.0, 2.0])
            try:
                print((x + x).numpy())
            except tf.errors.OpError as error:
                print("first:", error.message)
            try:
                print(x.numpy())
            except tf.errors.OpError as error:
                print("second:", error.message)
        """,
        np=1,
        expect=None,
    )
    assert "the CUDA stand-in has no host version of it" in result.stderr[0] + result.stdout[0]
    assert "[2. 4.]" not in result.stdout[0]
    assert "[1. 2.]" not in result.stdout[0]


def test_calls_are_logged(tmp_path):
    log = tmp_path / "calls"
    run_ranks(
        """
        import tensorflow as tf

        with tf.device("/GPU:0"):
            tf.constant([1.0] * 100).numpy()
        """,
        np=1,
        env={"CUDA_STANDIN_LOG": str(log)},
    )
    calls = read_calls(log)
    assert any(call["call"] == "cuMemcpyHtoDAsync" and call["bytes"] == 400 for call in calls)
    assert {call["rank"] for call in calls} == {0}
