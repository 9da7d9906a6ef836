"""Names by which ranks find each other's call of the same collective.

The k-th submission of a name on one rank matches the k-th on every other. So a name may be used
again and again, but calls that TensorFlow may run in any order must have different ones, and every
rank must come to the same names, even if it traces more often or has ops of its own.

An eager call keeps the name that the user gave. Without one it has the empty name, and the runtime
numbers these calls as they come. In a graph a name is derived from what all ranks share: the name
given or the kind of collective, a suffix where a graph holds it already, and the path of functions
and control flow in which the graph lies. Numbers that TensorFlow hands out per process (those in
names of ops, of ``cond`` branches and ``while`` bodies) never enter.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_collectives import threads

__all__ = ["of_call", "of_gradient", "scope"]

_ATTRIBUTE = "_tf_collectives_names"

# TensorFlow's graph classes for control flow. Their graphs are named after scopes and a number of
# the process, which differ between ranks, so they are told apart by counting.
_CONTROL_FLOW = {
    "CondBranchFuncGraph": "cond_branch",
    "WhileBodyFuncGraph": "while_body",
    "WhileCondFuncGraph": "while_cond",
}


def of_call(kind: str, name: str | None) -> str:
    """Return the name of a call that the user made.

    Args:
        kind: Name of the collective, as in ``"allreduce"``.
        name: The name that the user gave, if any.

    Raises:
        UnnamedCollectiveError: an unnamed eager call from a second thread.
    """
    if tf.executing_eagerly():
        if name:
            return name
        threads.check()
        return ""
    names = _names_of(tf.compat.v1.get_default_graph())
    if name:
        return names.unique(_join(names.prefix, name))
    return names.unique(_join(names.path, kind))


def of_gradient(op: Any) -> str:
    """Return the name for the gradient of a collective: that of its forward op and a suffix."""
    forward = tf.compat.as_str(op.get_attr("tensor_name"))
    if tf.executing_eagerly():
        if forward:
            return f"{forward}/gradient"
        threads.check()
        return ""
    return _names_of(tf.compat.v1.get_default_graph()).unique(_join(forward, "gradient"))


def scope(name: str) -> str:
    """Return a prefix for names of several calls that no other scope of this graph has."""
    if tf.executing_eagerly():
        return name
    return _names_of(tf.compat.v1.get_default_graph()).unique(name)


class _GraphNames:
    """The names handed out in one graph.

    Attributes:
        path: Path of the graph, beginning with the name of its outermost function.
        prefix: The same without the outermost function: names that the user gave need to differ
            from those of nested graphs only, and are to be recognised in messages.
    """

    def __init__(self, path: str, prefix: str) -> None:
        self.path = path
        self.prefix = prefix
        self._used: set[str] = set()
        self._suffix: dict[str, int] = {}

    def unique(self, name: str) -> str:
        candidate = name
        while candidate in self._used:
            self._suffix[name] = self._suffix.get(name, 0) + 1
            candidate = f"{name}_{self._suffix[name]}"
        self._used.add(candidate)
        return candidate


def _names_of(graph: Any) -> _GraphNames:
    names = getattr(graph, _ATTRIBUTE, None)
    if names is None:
        names = _nested_names(graph) if graph.building_function else _GraphNames("", "")
        setattr(graph, _ATTRIBUTE, names)
    return names


def _nested_names(graph: Any) -> _GraphNames:
    """Return names for a function, a ``while`` body or a ``cond`` branch.

    This runs when the graph gets its first collective, so one without any counts for nothing: it
    may exist on one rank only.
    """
    outer = graph.outer_graph
    if not outer.building_function and tf.compat.v1.executing_eagerly_outside_functions():
        return _GraphNames(_own_name(graph), "")
    enclosing = _names_of(outer)
    control_flow = next(
        (_CONTROL_FLOW[c.__name__] for c in type(graph).__mro__ if c.__name__ in _CONTROL_FLOW),
        None,
    )
    # A nested function keeps its plain name, however often it was traced: one rank may trace it
    # for another shape where the others call the trace they have. The calls are ordered, so that
    # equal names do no harm. Control flow is traced once, where it stands.
    own = _own_name(graph) if control_flow is None else enclosing.unique(control_flow)
    return _GraphNames(_join(enclosing.path, own), _join(enclosing.prefix, own))


def _own_name(graph: Any) -> str:
    """Return the name of the Python function, without the number TensorFlow gives a derived one."""
    name = str(graph.name)
    if name.startswith("__"):
        return name.rstrip("0123456789").rstrip("_")
    return name


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name
