"""Data for collectives, and what NumPy says that they have to return, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

REDUCIBLE = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
GATHERABLE = (*REDUCIBLE, "uint16", "int16", "uint32", "uint64", "bool", "complex64", "complex128")
REDUCTIONS = ("sum", "average", "min", "max", "product")

# Scalar, empty, odd and not so odd.
SHAPES = ((), (1,), (0,), (3, 0, 2), (7,), (2, 3, 5), (1025,), (1, 64))


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def random(dtype: str, shape: Sequence[int], *seed: int) -> np.ndarray[Any, Any]:
    """Return an array that is the same for the same arguments, on whichever rank it is made.

    Integers are of any size, so that their sums overflow.
    """
    generator = np.random.default_rng(seed)
    kind = dtype_of(dtype)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return generator.integers(limits.min, limits.max, shape, kind, endpoint=True)
    values = generator.normal(0, 3, shape)
    if kind.kind == "c":
        values = values + 1j * generator.normal(0, 3, shape)
    return np.asarray(values).astype(kind)


def of_each_rank(size: int, dtype: str, shape: Sequence[int], *seed: int) -> list[Any]:
    """Return what each rank contributes."""
    return [random(dtype, shape, *seed, rank) for rank in range(size)]


def reduced(
    reduction: str, arrays: Sequence[Any], prescale: float = 1.0, postscale: float = 1.0
) -> np.ndarray[Any, Any]:
    """Reduce in rank order, 16-bit floats in float32 with one rounding at the end."""
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            total = _combine(reduction, [_scale_integers(a, prescale) for a in arrays])
            if reduction == "average":
                total = _truncated_average([_scale_integers(a, prescale) for a in arrays])
            return _scale_integers(total, postscale)
        wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        scaled = [_scale(array.astype(wide), prescale) for array in arrays]
        total = _combine(reduction, scaled)
        if reduction == "average":
            total = total / wide.type(len(arrays))
        return np.asarray(_scale(total, postscale)).astype(dtype)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Fail unless both have one dtype, one shape and the same bits."""
    actual, expected = (np.asarray(_in_numpy(value)) for value in (actual, expected))
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.tobytes() != expected.tobytes():
        differ = [_bytes(a) != _bytes(b) for a, b in zip(actual.flat, expected.flat, strict=True)]
        places = np.flatnonzero(differ)
        raise AssertionError(
            f"{len(places)} of {actual.size} elements of {actual.dtype} {actual.shape} differ; "
            f"at {places[:5]} {actual.flat[places[:5]]} instead of {expected.flat[places[:5]]}"
        )


def _combine(reduction: str, arrays: Sequence[Any]) -> Any:
    combine = {"min": np.minimum, "max": np.maximum, "product": np.multiply}.get(reduction, np.add)
    total = arrays[0]
    for array in arrays[1:]:
        total = combine(total, array)
    return total


def _truncated_average(arrays: Sequence[Any]) -> Any:
    wide = object if arrays[0].dtype.itemsize == 8 else np.int64
    total = sum(array.astype(wide) for array in arrays)
    average = abs(total) // len(arrays)
    return np.where(total < 0, -average, average).astype(arrays[0].dtype)


def _scale(array: Any, factor: float) -> Any:
    return array if factor == 1 else array * array.dtype.type(factor)


def _scale_integers(array: Any, factor: float) -> Any:
    if factor == 1:
        return array
    limits = np.iinfo(array.dtype)
    exact = np.trunc(array.astype(np.float64) * factor)
    # The upper limit of int64 has no exact double.
    scaled = np.clip(exact, float(limits.min), float(limits.max)).astype(array.dtype)
    return np.where(exact >= float(limits.max), limits.max, scaled).astype(array.dtype)


def _in_numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _bytes(value: Any) -> bytes:
    return np.asarray(value).tobytes()
