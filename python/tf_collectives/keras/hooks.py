"""The two places where Keras decides something before it asks the optimizer.

Both change a method of Keras for all of the process, because Keras offers no other way, and both do
what the original does for any model and optimizer in which no DistributedOptimizer takes part.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras

__all__ = ["install"]


def install(find_distributed: Callable[[Any], Any]) -> None:
    """Install both, once.

    Args:
        find_distributed: Returns the DistributedOptimizer that an optimizer is or holds, or None.
    """
    _hook_loss_scaling(find_distributed)
    _hook_compile(find_distributed)


def _hook_loss_scaling(find_distributed: Callable[[Any], Any]) -> None:
    """Let LossScaleOptimizer see reduced gradients.

    It looks for infinities, and calls the optimizer inside it in a branch that is taken only if
    there are none. An infinity on one rank would make this rank skip the collectives that the
    others wait in. So the gradients are reduced before it looks: then all ranks see the infinity.
    """
    original = keras.optimizers.LossScaleOptimizer.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        distributed = find_distributed(self.inner_optimizer)
        if distributed is None:
            return original(self, grads, trainable_variables)
        variables = self._trainable_variables
        if trainable_variables is not None:
            variables = trainable_variables = list(trainable_variables)
        with distributed.reduced_beforehand():
            return original(self, distributed.reduce(grads, variables), trainable_variables)

    keras.optimizers.LossScaleOptimizer.apply = apply


def _hook_compile(find_distributed: Callable[[Any], Any]) -> None:
    """Let ``compile`` choose for a DistributedOptimizer where the user leaves the choice to it.

    It takes ``jit_compile="auto"`` for True wherever there is a GPU, and XLA can't compile the
    collectives; the model never tells its optimizer, and makes the training function before any
    callback runs. And for float16 it wraps an optimizer in a LossScaleOptimizer unless it is one.
    It does not see one inside a DistributedOptimizer, and two would divide the gradients twice.
    """
    owner = next(c for c in keras.Model.__mro__ if "compile" in vars(c))
    original = owner.compile
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001
        bound = signature.bind(*args, **kwargs)
        distributed = find_distributed(bound.arguments.get("optimizer"))
        if distributed is not None:
            if bound.arguments.get("jit_compile", "auto") == "auto":
                bound.arguments["jit_compile"] = False
            if isinstance(distributed.inner_optimizer, keras.optimizers.LossScaleOptimizer):
                bound.arguments["auto_scale_loss"] = False
        return original(*bound.args, **bound.kwargs)

    owner.compile = compile
