"""Randomness by key: what a draw is *for* decides its value, never when it is drawn.

A key is a tuple such as ``(seed, "crop", epoch)``. It is hashed to the key of a Philox counter generator, whose raw
64-bit words are the same on every machine and in every version of NumPy; uniforms, normals and permutations are
derived from those words here, because library distributions may change between versions. So all runs of a seed see
the same data, adding a method changes no other run, and a stopped run resumes without any generator state.
"""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np


def raw(count: int, *key: str | int) -> np.ndarray:
    """`count` uint64 words that depend on `key` alone."""
    text = json.dumps(key, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Philox(key=np.frombuffer(digest, dtype="<u8")).random_raw(count)


def uniform(shape: int | tuple[int, ...], *key: str | int) -> np.ndarray:
    """float64 uniforms in [0, 1) of the given shape."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    return ((raw(count, *key) >> np.uint64(11)) * 2.0**-53).reshape(shape)


def normal(shape: int | tuple[int, ...], *key: str | int) -> np.ndarray:
    """float64 standard normals of the given shape (Box and Muller's transform of two uniforms)."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    u = uniform((2, count), *key)
    return (np.sqrt(-2.0 * np.log1p(-u[0])) * np.cos(2.0 * np.pi * u[1])).reshape(shape)


def permutation(n: int, *key: str | int) -> np.ndarray:
    """A permutation of ``range(n)``: the order of n random words."""
    return np.argsort(raw(n, *key), kind="stable")


def bits16(count: int, *key: str | int) -> np.ndarray:
    """`count` uniform 16-bit integers, the cheapest draw there is: four to a word (dropout masks use it)."""
    return raw(-(-count // 4), *key).astype("<u8", copy=False).view("<u2")[:count]
