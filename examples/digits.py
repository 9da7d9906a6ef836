"""What both examples share: the data, the model, and the check at the end."""

from __future__ import annotations

import hashlib

import keras
import numpy as np
from sklearn.datasets import load_digits

import tf_collectives as hvd

GLOBAL_BATCH = 64
EPOCHS = 12


def load(
    rank: int, size: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return this rank's share of the training images and labels, and all of the test ones."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[360:], order[:360]
    # As many for each rank, so that all make the same number of steps.
    share = train[rank::size][: len(train) // size]
    return (images[share], labels[share]), (images[test], labels[test])


def build_model() -> keras.Model:
    """Return a small convolutional network for 8 by 8 pixels."""
    return keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def report(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> None:
    """Compare the weights of all ranks, and print the accuracy on the test images."""
    digest = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).digest()
    digests = hvd.allgather(np.frombuffer(digest, np.uint8)[np.newaxis], name="digests").numpy()
    different = [rank for rank in range(hvd.size()) if (digests[rank] != digests[0]).any()]
    if different:
        raise SystemExit(f"rank {hvd.rank()}: weights of ranks {different} differ from rank 0's")
    predicted = model.predict(images, batch_size=len(images), verbose=0).argmax(axis=1)
    if hvd.rank() == 0:
        print(
            f"All ranks ({hvd.size()}) hold bitwise the same weights, "
            f"SHA-256 {digest.hex()[:16]}... Test accuracy: {(predicted == labels).mean():.4f}",
            flush=True,
        )
