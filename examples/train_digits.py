"""Trains a small network on handwritten digits with model.fit, each rank on its share of the data.

tfcrun -np 2 python examples/train_digits.py
"""

from __future__ import annotations

import os

# TensorFlow is talkative when it starts.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digits
import keras

import tf_collectives as hvd

hvd.init()
# Every rank starts from weights of its own, shuffles and drops out by a seed of its own.
keras.utils.set_random_seed(hvd.rank())
train, test = digits.load(hvd.rank(), hvd.size())

model = digits.build_model()
model.compile(
    optimizer=hvd.keras.DistributedOptimizer(keras.optimizers.Adam(2e-3)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    *train,
    batch_size=digits.GLOBAL_BATCH // hvd.size(),
    epochs=digits.EPOCHS,
    verbose=2 if hvd.rank() == 0 else 0,
    callbacks=[
        hvd.keras.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
        hvd.keras.callbacks.MetricAverageCallback(),
    ],
)
digits.report(model, *test)
