"""Random numbers drawn by key: the purpose of a draw decides its value, not the moment of drawing.

A key is a tuple such as ``(seed, "crop", epoch)``, hashed to the key of a Philox counter generator. The generator's raw 64-bit words are
the same on every machine and NumPy version; NumPy's distributions may change, so this module makes uniforms, normals and permutations
itself. All runs of a seed see the same data, a new method changes no other run, and a stopped run resumes without generator state.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .engine.device import upload

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)  # of Philox 4x64; Salmon et al. 2011
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10
LOW32 = 0xFFFFFFFF


def words_of(key: tuple[str | int, ...]) -> np.ndarray:
    """Hash a key to the two uint64 words that key the Philox generator."""
    text = json.dumps(key, separators=(",", ":"))
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), dtype="<u8")


def raw(count: int, *key: str | int) -> np.ndarray:
    """`count` uint64 words that depend only on `key`."""
    return np.random.Philox(key=words_of(key)).random_raw(count)


def uniform(shape: int | tuple[int, ...], *key: str | int) -> np.ndarray:
    """float64 uniforms in [0, 1) of the given shape."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    return ((raw(count, *key) >> np.uint64(11)) * 2.0**-53).reshape(shape)


def normal(shape: int | tuple[int, ...], *key: str | int) -> np.ndarray:
    """float64 standard normals of the given shape, by the Box-Muller transform."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    u = uniform((2, count), *key)
    return (np.sqrt(-2.0 * np.log1p(-u[0])) * np.cos(2.0 * np.pi * u[1])).reshape(shape)


def permutation(n: int, *key: str | int) -> np.ndarray:
    """A permutation of ``range(n)``: the indices that sort n random words."""
    return np.argsort(raw(n, *key), kind="stable")


def bits16(count: int, *key: str | int) -> np.ndarray:
    """`count` uniform 16-bit integers, four from each 64-bit word; dropout masks use them."""
    return raw(-(-count // 4), *key).astype("<u8", copy=False).view("<u2")[:count]


def bits16_on(device: torch.device, count: int, keys: Sequence[tuple[str | int, ...]]) -> Tensor:
    """Draw `bits16(count, *key)` of each key on the device itself, int32 [keys, count]; the numbers equal those of the host."""
    blocks = -(-count // 16)  # four words of four draws each
    words = upload(torch.from_numpy(np.stack([words_of(key) for key in keys]).view(np.int64)), device)
    zero = torch.zeros(len(keys), blocks, dtype=torch.int64, device=device)
    counter = [torch.arange(1, blocks + 1, device=device).expand_as(zero), zero, zero, zero]
    k = [words[:, :1], words[:, 1:]]
    for _ in range(ROUNDS):
        high0, low0 = _multiply(counter[0], MULTIPLIERS[0])
        high1, low1 = _multiply(counter[2], MULTIPLIERS[1])
        counter = [high1 ^ counter[1] ^ k[0], low1, high0 ^ counter[3] ^ k[1], low0]
        k = [k[0] + _signed(WEYL[0]), k[1] + _signed(WEYL[1])]
    drawn = torch.stack(counter, -1)[..., None] >> torch.arange(0, 64, 16, device=device)
    return drawn.bitwise_and_(0xFFFF).int().flatten(1)[:, :count]  # in place: an epoch's masks are large


def _signed(word: int) -> int:
    """The int64 with the same bits as a 64-bit word; PyTorch computes in int64, modulo 2^64."""
    return word - (1 << 64) if word >> 63 else word


def _multiply(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """High and low word of the 128-bit product of uint64 words, which are held as int64."""
    a_high, a_low, b_high, b_low = (a >> 32) & LOW32, a & LOW32, b >> 32, b & LOW32
    middle = a_high * b_low + ((a_low * b_low >> 32) & LOW32)
    cross = a_low * b_high + (middle & LOW32)
    return a_high * b_high + ((middle >> 32) & LOW32) + ((cross >> 32) & LOW32), a * _signed(b)
