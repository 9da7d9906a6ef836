"""Running a test in eager code and in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _graph(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, autograph=False)


# The parameter is a decorator for the function that calls the collectives.
in_both_modes = pytest.mark.parametrize("mode", [_eager, _graph], ids=["eager", "graph"])
