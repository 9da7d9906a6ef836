"""What is timed. The driver reads it too, so it imports neither TensorFlow nor a package."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

KIB, MIB = 1 << 10, 1 << 20

MEASURED = "measured"
MEMCPY = "memcpy"


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Besides the operation itself it may time a `baseline`, which is subtracted from it in a line of
    its own, and the copy of as many bytes by every rank at once: the floor of all that moves them.
    """

    key: str
    title: str
    payload: int
    baseline: str = ""
    difference: str = ""

    @property
    def has_floor(self) -> bool:
        return self.payload >= 64 * KIB


def resnet50_shapes() -> list[tuple[int, ...]]:
    """ResNet-50's 161 variables: 53 convolutions, each with gamma and beta, and the classifier."""
    shapes: list[tuple[int, ...]] = [(7, 7, 3, 64), (64,), (64,)]
    channels = 64
    for filters, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        wide = 4 * filters
        for block in range(blocks):
            shapes += [(1, 1, channels, filters), (filters,), (filters,)]
            shapes += [(3, 3, filters, filters), (filters,), (filters,)]
            if block == 0:
                shapes += [(1, 1, channels, wide), (wide,), (wide,)]
            shapes += [(1, 1, filters, wide), (wide,), (wide,)]
            channels = wide
    return [*shapes, (2048, 1000), (1000,)]


def small_shapes() -> list[tuple[int, ...]]:
    """160 vectors as long as ResNet-50's gammas and betas, where the cost per tensor counts."""
    vectors = [shape for shape in resnet50_shapes() if len(shape) == 1]
    return [vectors[i % len(vectors)] for i in range(160)]


def float32_bytes(shapes: list[tuple[int, ...]]) -> int:
    return sum(4 * prod(shape) for shape in shapes)


ROWS = (
    Row("allreduce_4B", "eager all-reduce, 4 B", 4, "identity", "less an eager `tf.identity`"),
    Row("allreduce_64KiB", "eager all-reduce, 64 KiB", 64 * KIB),
    Row("allreduce_1MiB", "eager all-reduce, 1 MiB", MIB),
    Row("allreduce_16MiB", "eager all-reduce, 16 MiB", 16 * MIB),
    Row("allreduce_64MiB", "eager all-reduce, 64 MiB", 64 * MIB),
    Row("chain", "ten chained 4 B all-reduces in one `tf.function`", 4),
    Row("resnet50", "ResNet-50's 161 gradients, 102 MB", float32_bytes(resnet50_shapes())),
    Row("small", "160 tensors, 265 KB in all", float32_bytes(small_shapes())),
    Row("broadcast", "broadcast of 64 MiB", 64 * MIB),
    Row("allgather", "all-gather of 64 MiB per rank", 64 * MIB),
    Row(
        "training",
        "training step of a small CNN",
        0,
        "local_step",
        "what reducing adds to the step",
    ),
)
