"""The packages under test behind one interface, so that every row is written only once."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

MULTI_WORKER = "tensorflow.distribute"


class NotOfferedError(Exception):
    """The package has no such collective."""


class HorovodApi:
    """Horovod, and every package with its names."""

    def __init__(self, module: str) -> None:
        self.module = importlib.import_module(module)
        self.module.init()
        self.rank: int = self.module.rank()
        self.size: int = self.module.size()

    def eager(self, body: Callable[[], Any]) -> Callable[[], Any]:
        return body

    def function(self, body: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = tf.function(body)
        return compiled

    def allreduce(self, tensor: tf.Tensor, name: str, *, average: bool = False) -> tf.Tensor:
        return self.module.allreduce(
            tensor, op=self.module.Average if average else self.module.Sum, name=name
        )

    def allgather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return self.module.allgather(tensor, name=name)

    def broadcast(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return self.module.broadcast(tensor, 0, name=name)

    def gradient(
        self, tape: tf.GradientTape, loss: tf.Tensor, variables: list[tf.Variable]
    ) -> list[tf.Tensor]:
        distributed = self.module.DistributedGradientTape(tape)
        gradients: list[tf.Tensor] = distributed.gradient(loss, variables)
        return gradients


class MultiWorkerMirrored:
    """tf.distribute.MultiWorkerMirroredStrategy with TensorFlow's own ring collectives."""

    def __init__(self) -> None:
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        config = json.loads(os.environ["TF_CONFIG"])
        self.rank: int = config["task"]["index"]
        self.size: int = len(config["cluster"]["worker"])

    def eager(self, body: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: self.strategy.run(body)

    def function(self, body: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = tf.function(lambda *given: self.strategy.run(body, given))
        return compiled

    def allreduce(self, tensor: tf.Tensor, name: str, *, average: bool = False) -> tf.Tensor:
        op = tf.distribute.ReduceOp.MEAN if average else tf.distribute.ReduceOp.SUM
        # The strategy rejects a tensor without a device, such as an argument of a tf.function.
        # tf.identity gives it one.
        return tf.distribute.get_replica_context().all_reduce(op, tf.identity(tensor, name=name))

    def allgather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        replica = tf.distribute.get_replica_context()
        return replica.all_gather(tf.identity(tensor, name=name), axis=0)

    def broadcast(self, _tensor: tf.Tensor, _name: str) -> tf.Tensor:
        raise NotOfferedError

    def gradient(
        self, tape: tf.GradientTape, loss: tf.Tensor, variables: list[tf.Variable]
    ) -> list[tf.Tensor]:
        replica, mean = tf.distribute.get_replica_context(), tf.distribute.ReduceOp.MEAN
        reduced: list[tf.Tensor] = replica.all_reduce(mean, tape.gradient(loss, variables))
        return reduced


Adapter = HorovodApi | MultiWorkerMirrored


def load(package: str) -> Adapter:
    return MultiWorkerMirrored() if package == MULTI_WORKER else HorovodApi(package)
