"""Our own code for GPUs: `cuda.cu`, compiled once with nvcc and called through `ctypes`; see `native`, whose cache it shares."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import threading
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import native
from .native import LANES, PATCH, POINTER, Call, Unavailable, pointer

FLAGS = ("-O3", "-std=c++17", "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", "-shared")
WIDEST_FIRST, MOST, LAST = 32, 1024, (16, 32, 64)  # channels: of the first block, product of neighbours, of the last
SHARED = 49152  # bytes of shared memory that every GPU has


class CudaLibrary:
    """The compiled code for one encoder's widths on one device, with the interface of `native.Library` that a `Trunk` needs."""

    stores_maps = True  # an evaluation too needs room for the convolutions' outputs

    def __init__(self, path: Path, widths: tuple[int, ...], description: str, device: torch.device):
        self.widths, self.description, self.device = widths, description, device
        try:
            code = ctypes.CDLL(str(path))
            code.dtcl_gradients.restype = ctypes.c_int64
            self.gradients, self.chunk = code.dtcl_gradients(), code.dtcl_chunk()
            if code.dtcl_call_size() != ctypes.sizeof(Call):
                raise AttributeError("its interface is another")
            self._code = {name: getattr(code, f"dtcl_{name}") for name in ("forward", "backward", "infer")}
            self._masks = code.dtcl_masks
        except (OSError, AttributeError) as error:
            raise Unavailable(f"what was compiled cannot be loaded ({error})") from None
        for function in self._code.values():
            function.argtypes = ctypes.POINTER(Call), POINTER
        self._masks.argtypes = POINTER, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32, POINTER, POINTER

    def _run(self, function: Any, *arguments: Any) -> None:
        """Queue work on the device's current stream; raises RuntimeError if CUDA refuses it."""
        if self.device.type == "cpu":  # in tests
            status = function(*arguments, None)
        else:
            with torch.cuda.device(self.device):
                status = function(*arguments, torch.cuda.current_stream().cuda_stream)
        if status:
            raise RuntimeError(f"CUDA refused the trunk's work with error {status}.")

    def forward(self, call: Any) -> None:
        """Blocks with batch statistics."""
        self._run(self._code["forward"], call)

    def backward(self, call: Any) -> None:
        """Gradients of the blocks' parameters."""
        self._run(self._code["backward"], call)

    def infer(self, call: Any) -> None:
        """Blocks with fixed norms, which are given."""
        self._run(self._code["infer"], call)

    def chunks(self, images: int) -> int:
        """Number of chunks into which the images are divided."""
        return -(-images // self.chunk)

    def moments(self, padded: Tensor, tint: Tensor | None) -> Tensor:
        """Sums over images and pixels of the outer products of patches with (patch, 1), float64 [27, 28]; see `native.Library.moments`."""
        patches = padded.double().unfold(1, 3, 2).unfold(2, 3, 2)  # [B, 14, 14, 3, 3], of colour images [B, 14, 14, 3, 3, 3]
        if tint is None:
            patches = patches.permute(0, 1, 2, 4, 5, 3)
        else:
            patches = patches[..., None] * tint.double()[:, None, None, None, None]
        patches = patches.reshape(len(padded), (native.IMAGE // 2) ** 2, PATCH)
        wide = torch.cat([patches, torch.ones_like(patches[..., :1])], -1)
        return (patches.transpose(1, 2) @ wide).sum(0)

    def masks(self, keys: Tensor, words: int, below: int) -> Tensor:
        """Dropout bits, int16 [keys, words], for keys int64 [keys, 2] on the device; as `native.Library.masks` makes them, unchecked."""
        out = torch.empty(len(keys), words, dtype=torch.int16, device=self.device)
        kind = self.device.type
        given, made = pointer(keys, (len(keys), 2), torch.int64, kind), pointer(out, (len(keys), words), torch.int16, kind)
        self._run(self._masks, given, len(keys), words, below, made)
        return out


def source(widths: tuple[int, ...], shared: int) -> str:
    """The text of cuda.cu for these widths and bytes of shared memory; nvcc takes no commas in a definition on its command line."""
    text = (resources.files("dtcl_core.engine") / "cuda.cu").read_text(encoding="utf-8")
    return f"#define WIDTHS {','.join(map(str, widths))}\n#define SHARED_BYTES {shared}\n{text}"


def compiled(widths: tuple[int, ...], capability: tuple[int, int], shared: int) -> tuple[Path, str]:
    """The library's file for a GPU of this capability with so much shared memory, compiled if need be, and its description."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if compiler is None:
        raise Unavailable("nvcc was not found")
    status, said, _ = native.asked([compiler, "--version"], native.VERSION_SECONDS)
    if status:
        raise Unavailable("nvcc does not run")
    version = f"nvcc {said.strip().rpartition(chr(10))[2]}"
    text, options = source(widths, shared), [f"-arch=sm_{capability[0]}{capability[1]}", *FLAGS]
    name = native.digest("\n".join([text, *options, version]).encode())
    folder = native.cache_folder()
    path = native.kept(folder, name) or native.compile_into([compiler, *options, "-x", "cu"], text, version, folder, name)
    return path, f"cuda.cu {hashlib.sha256(text.encode()).hexdigest()[:12]}, {version}, {' '.join(options)}"


@cache
def _load(widths: tuple[int, ...], device: torch.device) -> CudaLibrary | Unavailable:
    try:
        about = torch.cuda.get_device_properties(device)
        shared = getattr(about, "shared_memory_per_block_optin", SHARED)  # older versions of PyTorch do not tell
        path, description = compiled(widths, (about.major, about.minor), shared)
        return CudaLibrary(path, widths, description, device)
    except (Unavailable, subprocess.SubprocessError, OSError) as reason:
        return Unavailable(str(reason))


_loading = threading.Lock()


def load(widths: tuple[int, ...], device: torch.device) -> CudaLibrary:
    """The library for an encoder's widths on a GPU, compiled at the first call; raises Unavailable with the reason if there can be none."""
    if native.switched() == "pytorch":
        raise Unavailable("DTCL_TRUNK=pytorch")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU here")
    wide = any(a * b > MOST for a, b in pairwise(widths)) or widths[0] > WIDEST_FIRST or widths[-1] not in LAST
    if not 2 <= len(widths) <= 4 or any(width % LANES for width in widths) or wide:
        told = f"two to four blocks with channels in multiples of {LANES}, at most {WIDEST_FIRST} in the first"
        raise Unavailable(f"it takes {told}, {MOST} for the product of neighbours and {LAST} in the last, not {list(widths)}")
    index = torch.cuda.current_device() if device.index is None else device.index
    with _loading:  # what two threads ask for is made once
        made = _load(tuple(widths), torch.device("cuda", index))
    if isinstance(made, Unavailable):
        raise Unavailable(str(made))
    return made
