"""Broadcast: every rank gets the tensor, or the values of the variables, of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tf_collectives import basics, names
from tf_collectives.ops.adjoint import differentiable_indices, sum_over_ranks
from tf_collectives.ops.library import native, overlapping

__all__ = ["broadcast", "broadcast_", "broadcast_variables", "grouped_broadcast"]


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the root's tensor on every rank.

    Args:
        tensor: A ``tf.Tensor``, a variable, or anything that converts to a tensor, of one shape
            and dtype on all ranks: any integer, floating or complex dtype, or bool.
        root_rank: The rank whose tensor is sent.
        name: The same on all ranks of one broadcast, see :mod:`tf_collectives.names`. May be left
            out where all ranks make the same unnamed calls in the same order.

    Returns:
        A tensor equal to that of the root.

    Raises:
        tf.errors.InvalidArgumentError: ranks disagree on shape, dtype or root, there is no such
            rank, or the dtype is not supported.
        tf.errors.FailedPreconditionError: before ``init()``.
        tf.errors.UnavailableError: a rank died or has left.
        tf.errors.DeadlineExceededError: a rank didn't come within ``TFC_TIMEOUT_SECONDS``.

    Gradient:
        On the root the upstream gradients of all ranks, summed; zero on the others.
    """
    return overlapping(
        native.collectives_broadcast(
            tensor, tensor_name=names.of_call("broadcast", name), root_rank=root_rank
        )
    )


def grouped_broadcast(tensors: Sequence[Any], root_rank: int, name: str | None = None) -> list[Any]:
    """Broadcast several tensors as one unit: all of them are sent together, or none.

    Args:
        tensors: The tensors, as many on each rank. Of none, none are returned.
        root_rank: The rank whose tensors are sent.
        name: Name of the group, as for :func:`broadcast`.

    Returns:
        The root's tensors in the same order.

    Raises:
        tf.errors.InvalidArgumentError: also where the number of tensors differs; and the others
            of :func:`broadcast`.

    Gradient:
        As for :func:`broadcast`, reduced as one unit.
    """
    if not tensors:
        return []
    return list(
        overlapping(
            native.collectives_grouped_broadcast(
                list(tensors),
                tensor_name=names.of_call("grouped_broadcast", name),
                root_rank=root_rank,
            )
        )
    )


def broadcast_(variables: Iterable[Any], root_rank: int, name: str | None = None) -> list[Any]:
    """Overwrite variables with the values that they have on the root, and return the new values.

    Args:
        variables: As for :func:`broadcast_variables`.
        root_rank: The rank whose values are sent.
        name: Name of the group, as for :func:`broadcast`.

    Returns:
        The values after the broadcast, in the order of the variables.

    Raises:
        TypeError: one of them is not a resource variable; and the errors of :func:`broadcast`.
    """
    resources = [_resource(variable) for variable in variables]
    done = _broadcast_in_place(resources, root_rank, name)
    with tf.control_dependencies([] if done is None else [done]):
        return [resource.read_value() for resource in resources]


def broadcast_variables(variables: Iterable[Any], root_rank: int, name: str | None = None) -> Any:
    """Overwrite variables with the values that they have on the root.

    All variables are sent as one unit, in place. What to broadcast so that ranks train the same
    model is ``model.weights`` and ``optimizer.variables``; ``model.variables`` also holds the seeds
    of dropout layers, and those should differ.

    Args:
        variables: Variables of Keras or TensorFlow, the same ones in the same order on all ranks.
            Of none, nothing is sent.
        root_rank: The rank whose values are sent.
        name: Name of the group, as for :func:`broadcast`.

    Returns:
        The op in a graph, None in eager code.

    Raises:
        TypeError: one of them is not a resource variable; and the errors of :func:`broadcast`.
    """
    return _broadcast_in_place([_resource(variable) for variable in variables], root_rank, name)


def _broadcast_in_place(resources: Sequence[Any], root_rank: int, name: str | None) -> Any:
    if not resources:
        return None
    # This op stays in the chain of automatic control dependencies: reads and writes of the same
    # variables must come before or after it as they stand in the program.
    return native.collectives_broadcast_variables(
        [resource.handle for resource in resources],
        dtypes=[resource.dtype for resource in resources],
        tensor_name=names.of_call("broadcast_variables", name),
        root_rank=root_rank,
    )


def _resource(variable: Any) -> Any:
    """Return the tf.Variable behind a variable of Keras or TensorFlow."""
    resource = variable if isinstance(variable, tf.Variable) else getattr(variable, "value", None)
    if isinstance(resource, tf.Variable) and hasattr(resource, "handle"):
        return resource
    raise TypeError(
        f"{variable!r} is not a resource variable, so it can't be overwritten. Pass tf.Variable "
        "or keras.Variable objects, such as model.weights, or use broadcast() for tensors."
    )


def _on_root_only(op: Any, summed: Any) -> Any:
    # A selection, and not a choice made here: the gradient of this gradient needs the sum on all
    # ranks, and so does a session, which runs only what its result depends on.
    is_root = tf.constant(basics.rank() == op.get_attr("root_rank"))
    return tf.where(is_root, summed, tf.zeros_like(summed))


def _broadcast_gradient(op: Any, upstream: Any) -> Any:
    (summed,) = sum_over_ranks(op, [upstream])
    return _on_root_only(op, summed)


def _grouped_broadcast_gradient(op: Any, *upstream: Any) -> list[Any]:
    gradients: list[Any] = [None] * len(upstream)
    indices = differentiable_indices(upstream)
    for i, summed in zip(indices, sum_over_ranks(op, [upstream[i] for i in indices]), strict=True):
        gradients[i] = _on_root_only(op, summed)
    return gradients


tf.RegisterGradient("Collectives>Broadcast")(_broadcast_gradient)
tf.RegisterGradient("Collectives>GroupedBroadcast")(_grouped_broadcast_gradient)
