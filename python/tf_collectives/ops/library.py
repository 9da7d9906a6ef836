"""The native ops, loaded once, and what every call of one in a graph needs."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

import tf_collectives

__all__ = ["native", "overlapping", "placed_on"]

native: Any = tf.load_op_library(tf_collectives.op_library())


def overlapping(outputs: Any) -> Any:
    """Let a collective run beside others, and return its outputs. Refuse to be compiled by XLA.

    The ops are stateful, because nothing else keeps Grappler from merging, folding or pruning
    them. TensorFlow would then run them one after the other, in the order in which the function
    creates them. They don't depend on one another, so each is taken out of that chain. Loop
    iterations and calls of nested functions stay in order all the same.
    """
    if tf.executing_eagerly():
        return outputs
    # A grouped gather has a list of outputs before its last one.
    op = (outputs[-1] if isinstance(outputs, (list, tuple)) else outputs).op
    if control_flow_util.GraphOrParentsInXlaContext(op.graph):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"{op.type} can't be compiled by XLA. Leave the collective out of the function with "
            "jit_compile=True, or pass jit_compile=False.",
        )
    dependencies = getattr(op.graph, "experimental_acd_manager", None)
    if dependencies is not None:
        dependencies.run_independently(op)
    return outputs


def placed_on(device: str) -> Any:
    """Return a context for ops on this device, or where TensorFlow puts them if it is empty."""
    return tf.device(device) if device else contextlib.nullcontext()
