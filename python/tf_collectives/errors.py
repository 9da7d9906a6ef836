"""The errors that the Python layer raises itself.

A collective that fails raises TensorFlow's own types (``tf.errors.InvalidArgumentError`` for a
mismatch, ``UnavailableError`` for a dead rank, ``DeadlineExceededError`` for a timeout), the same
on every rank.
"""

from __future__ import annotations

from tf_collectives._core import NotInitializedError

__all__ = [
    "NonDifferentiableError",
    "NotInitializedError",
    "UnnamedCollectiveError",
    "UnsupportedBackendError",
    "UnsupportedOptimizerError",
]


class NonDifferentiableError(LookupError):
    """A gradient was asked of a reduction that has none."""


class UnnamedCollectiveError(RuntimeError):
    """A second thread made an unnamed eager call, so ranks could no longer be matched by order."""


class UnsupportedBackendError(TypeError):
    """Keras runs on another backend than TensorFlow."""


class UnsupportedOptimizerError(TypeError):
    """The object given is not an optimizer of Keras 3, or it is distributed already."""
