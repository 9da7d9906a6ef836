"""Remembers which gradients a tape has reduced, so that an optimizer does not do it again.

What is remembered are the variables, because a gradient that was clipped or scaled since is another
tensor. The mark is taken away by the optimizer that applies the gradient, or replaced when the tape
computes gradients anew. In a graph it belongs to that graph, and holds only for gradients that are
computed from what the tape reduced, so a gradient of some other tape is still recognised as local.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

__all__ = ["mark", "take"]

_ATTRIBUTE = "_tf_collectives_reduced"

# In eager code: the marked variables, by identity.
_eager: dict[int, weakref.ref[Any]] = {}


def mark(variables: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Remember that these gradients of these variables are reduced."""
    pairs = [(_resource(v), g) for v, g in zip(variables, gradients, strict=True) if g is not None]
    if tf.executing_eagerly():
        for variable, _ in pairs:
            _eager[id(variable)] = weakref.ref(variable)
        return
    graph = tf.compat.v1.get_default_graph()
    marks = _marks_of(graph)
    for variable, gradient in pairs:
        marks[id(variable)] = _tensors(gradient)


def take(variables: Sequence[Any], gradients: Sequence[Any]) -> list[bool]:
    """Return for each gradient whether it is reduced already, and forget it."""
    resources = [_resource(v) for v in variables]
    if tf.executing_eagerly():
        return [_was_marked(v) and g is not None for v, g in zip(resources, gradients, strict=True)]
    graph = tf.compat.v1.get_default_graph()
    result = []
    for variable, gradient in zip(resources, gradients, strict=True):
        marked = _pop(graph, id(variable))
        result.append(
            marked is not None
            and gradient is not None
            and any(_depends(tensor, marked) for tensor in _tensors(gradient))
        )
    return result


def _was_marked(variable: Any) -> bool:
    reference = _eager.pop(id(variable), None)
    return reference is not None and reference() is variable


def _marks_of(graph: Any) -> dict[int, list[Any]]:
    marks = getattr(graph, _ATTRIBUTE, None)
    if marks is None:
        marks = {}
        setattr(graph, _ATTRIBUTE, marks)
    return marks


def _pop(graph: Any, key: int) -> list[Any] | None:
    """Take the mark from the graph or, in a branch or nested function, from one around it."""
    while graph is not None:
        marked = getattr(graph, _ATTRIBUTE, {}).pop(key, None)
        if marked is not None:
            return marked  # type: ignore[no-any-return]
        graph = getattr(graph, "outer_graph", None)
    return None


def _depends(tensor: Any, marked: Sequence[Any]) -> bool:
    """Return whether a tensor of a graph is computed from one of those."""
    wanted = {_key(m) for m in marked}
    seen = {_key(tensor)}
    # What was done to a gradient since is a few ops long, and what it comes from is the whole
    # model, so the nearest are looked at first.
    pending = collections.deque([tensor])
    while pending:
        current = pending.popleft()
        if _key(current) in wanted:
            return True
        for source in _sources(current):
            if _key(source) not in seen:
                seen.add(_key(source))
                pending.append(source)
    return False


def _key(tensor: Any) -> tuple[int, str]:
    # Tensor objects may be made anew whenever an op is asked for its inputs.
    return id(tensor.graph), tensor.name


def _sources(tensor: Any) -> list[Any]:
    if tensor.op.type != "Placeholder":
        return list(tensor.op.inputs)
    # What a nested graph captures comes in through placeholders. Eager tensors have no graph.
    captures = getattr(tensor.graph, "captures", [])
    return [
        outer
        for outer, inner in captures
        if inner.name == tensor.name and not hasattr(outer, "numpy")
    ]


def _tensors(gradient: Any) -> list[Any]:
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values]
    return [gradient]


def _resource(variable: Any) -> Any:
    """Return the tf.Variable behind a variable of Keras; other sources of a tape as they are."""
    if isinstance(variable, (tf.Variable, tf.Tensor)):
        return variable
    return getattr(variable, "value", variable)
