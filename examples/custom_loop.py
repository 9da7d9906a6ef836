"""Trains the same network as train_digits.py with a training step of its own.

tfcrun -np 2 python examples/custom_loop.py
"""

from __future__ import annotations

import os

# TensorFlow is talkative when it starts.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digits
import keras
import tensorflow as tf

import tf_collectives as hvd

hvd.init()
keras.utils.set_random_seed(hvd.rank())
train, test = digits.load(hvd.rank(), hvd.size())
batches = (
    tf.data.Dataset.from_tensor_slices(train)
    .shuffle(len(train[0]), seed=hvd.rank())
    .batch(digits.GLOBAL_BATCH // hvd.size(), drop_remainder=True)
)

model = digits.build_model()
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(model.trainable_variables)
hvd.broadcast_variables([*model.weights, *optimizer.variables], root_rank=0)


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Make one step; return loss and accuracy of the batches of all ranks."""
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = loss_of(labels, logits)
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    correct = tf.equal(tf.argmax(logits, axis=1, output_type=labels.dtype), labels)
    return hvd.allreduce(tf.stack([loss, tf.reduce_mean(tf.cast(correct, loss.dtype))]))


for epoch in range(digits.EPOCHS):
    metrics = tf.reduce_mean([train_step(images, labels) for images, labels in batches], axis=0)
    if hvd.rank() == 0:
        loss, accuracy = metrics.numpy()
        print(f"epoch {epoch + 1:2}: loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
digits.report(model, *test)
