"""Our own code for CPUs: `native.cpp`, compiled once with the machine's compiler and called through `ctypes`.

The source ships with the package and needs no headers but the compiler's own. It is compiled for the processor and an encoder's widths,
and kept in the user's cache under a hash of source, flags, compiler and processor. If a processor has neither AVX-512 nor AVX2, or a
compiler or a writable home is missing, `Unavailable` gives the reason and PyTorch's operators are used; DTCL_TRUNK=native makes this an
error, DTCL_TRUNK=pytorch asks for it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checks import checked_choice

SWITCH = "DTCL_TRUNK"
CHOICES = ("auto", "native", "pytorch")
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-std=c++17", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math", "-fPIC", "-shared", "-pthread",
)  # fmt: skip
INSTRUCTIONS = {"AVX512": (), "AVX2": ("-mno-avx512f",)}  # flags by what PyTorch uses: ATEN_CPU_CAPABILITY=avx2 means both
COMPILERS = ("c++", "g++", "clang++")
VERSION_SECONDS, COMPILE_SECONDS = 20, 300
LANES = 16  # channels of a word of a mask
MOST_BLOCKS = 4
PATCH = 27  # values of a patch of 3 x 3 pixels in colour
IMAGE = 28
REFUSED, NO_MEMORY = 1, 2  # what native code answers, if not 0
POINTER = ctypes.c_void_p
BLOCKS = POINTER * MOST_BLOCKS


class Unavailable(Exception):
    """The reason, as a clause, why PyTorch's operators are used instead."""


class Call(ctypes.Structure):
    """The struct `Call` of native.cpp, field by field."""

    _fields_ = [
        ("runs", ctypes.c_int64),
        ("images", ctypes.c_int64),
        ("threads", ctypes.c_int32),
        ("colors", ctypes.c_int32),
        ("input", POINTER),
        ("tint", POINTER),
        ("mask", BLOCKS),
        ("weight", BLOCKS),
        ("turned", BLOCKS),
        ("shift", BLOCKS),
        ("gamma", BLOCKS),
        ("beta", BLOCKS),
        ("map", BLOCKS),
        ("norm", BLOCKS),
        ("out", POINTER),
        ("dout", POINTER),
        ("dmap", BLOCKS),
        ("sums", POINTER),
        ("partial", POINTER),
        ("dweight", BLOCKS),
        ("dgamma", BLOCKS),
        ("dbeta", BLOCKS),
    ]


def pointer(tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: str = "cpu") -> int | None:
    """Address of a dense tensor's data; None for None. Raises ValueError for another shape, dtype, kind of device or layout."""
    if tensor is None:
        return None
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device.type != device or not tensor.is_contiguous():
        raise ValueError(
            f"native code was to be given dense {dtype} {list(shape)} on the {device.upper()}, got {tensor.dtype} {list(tensor.shape)} "
            f"with strides {list(tensor.stride())} on {tensor.device}."
        )
    return tensor.data_ptr()


def _answered(result: int, *_: Any) -> int:
    """Return the status of native code; raise MemoryError if it found no memory."""
    if result == NO_MEMORY:
        raise MemoryError("native code found no memory.")
    return result


class Library:
    """The compiled code for one encoder's widths; `description` (source, compiler, flags) is what may affect last digits."""

    device = torch.device("cpu")
    stores_maps = False  # an evaluation keeps each image's maps in a core's cache

    def __init__(self, path: Path, widths: tuple[int, ...], description: str):
        self.widths, self.description = widths, description
        try:
            self._code = ctypes.CDLL(str(path))
            self.gradients = self._function("dtcl_gradients", ctypes.c_int64)()
            self.chunk = self._function("dtcl_chunk", ctypes.c_int)()
            if self._function("dtcl_call_size", ctypes.c_int)() != ctypes.sizeof(Call):
                raise AttributeError("its interface is another")
        except (OSError, AttributeError) as error:
            raise Unavailable(f"what was compiled cannot be loaded ({error})") from None
        if (team := getattr(ctypes.CDLL(None), "GOMP_parallel", None)) is not None:
            self._function("dtcl_use", None, POINTER)(ctypes.cast(team, POINTER))
        i32, i64 = ctypes.c_int32, ctypes.c_int64
        call = ctypes.POINTER(Call)
        self.forward, self.backward, self.infer = (
            self._checked(f"dtcl_{name}", call) for name in ("forward", "backward", "infer")
        )
        self._moments = self._checked("dtcl_moments", POINTER, POINTER, i64, i32, i32, POINTER, POINTER)
        self._masks = self._checked("dtcl_masks", POINTER, i64, ctypes.c_uint32, i32, POINTER)
        self._jitter = self._checked("dtcl_jitter", *[POINTER] * 4, i64, ctypes.c_float, ctypes.c_float, i32, POINTER)
        self._views = self._checked("dtcl_views", *[POINTER] * 4, i64, i64, i32, i32, i32, POINTER)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._code, name)
        function.restype, function.argtypes = result, arguments
        return function

    def _checked(self, name: str, *arguments: Any) -> Any:
        function = self._function(name, ctypes.c_int32, *arguments)
        function.errcheck = _answered
        return function

    def chunks(self, images: int) -> int:
        """Number of chunks into which native code divides the images."""
        return -(-images // self.chunk)

    def moments(self, padded: Tensor, tint: Tensor | None) -> Tensor:
        """Sums over images and pixels of the outer products of patches with (patch, 1), float64 [27, 28].

        `padded` is [B, 29, 29] for gray images, whose colours are `tint` [B, 3], else [B, 29, 29, 3]. Its first row and column are zeros.
        """
        images, colors = len(padded), 3 if tint is None else 1
        scratch = torch.empty(self.chunks(images), PATCH, PATCH + 1, dtype=torch.float64)
        out = torch.empty(PATCH, PATCH + 1, dtype=torch.float64)
        self._moments(
            pointer(padded, (images, IMAGE + 1, IMAGE + 1, 3)[: 3 if tint is not None else 4]),
            pointer(tint, (images, 3)),
            images,
            colors,
            torch.get_num_threads(),
            scratch.data_ptr(),
            out.data_ptr(),
        )
        return out

    def masks(self, keys: Tensor, words: int, below: int) -> Tensor:
        """Dropout bits, int16 [keys, words]: bit j of word i says whether draw 16 i + j of `keyed.bits16` is at least `below`.

        `keys` are the two words of each generator's key, int64 [keys, 2]. Raises ValueError for negative `words`, or `below` outside 0 ... 65535.
        """
        if words < 0 or not 0 <= below < 65536:
            raise ValueError(f"masks need 0 words or more and below in 0 ... 65535, got {words} and {below}.")
        out = torch.empty(len(keys), words, dtype=torch.int16)
        for key, drawn in zip(keys, out):
            self._masks(pointer(key, (2,), torch.int64), words, below, torch.get_num_threads(), drawn.data_ptr())
        return out

    def views(self, gray: Tensor, index: Tensor, boxes: Tensor, sigmas: Tensor, kernel: int, border: int) -> Tensor:
        """Both views of the images at `index`, as `augment.resize_crop_blur` makes them: [2 B, 28 + border, 28 + border].

        Inputs are gray [N, 28, 28], index int64 [B], boxes int64 [2, N, 4] and sigmas [2, N]. A border of 1 puts a row and a column of
        zeros before each image; 0 puts none. Raises ValueError for an index, box, kernel or border that fits no image.
        """
        if border not in (0, 1):
            raise ValueError(f"border must be 0 or 1, got {border}.")
        size, count, side = len(gray), len(index), IMAGE + border
        out = torch.empty(2 * count, side, side)
        answer = self._views(
            pointer(gray, (size, IMAGE, IMAGE)),
            pointer(index, (count,), torch.int64),
            pointer(boxes, (2, size, 4), torch.int64),
            pointer(sigmas, (2, size)),
            size,
            count,
            kernel,
            border,
            torch.get_num_threads(),
            out.data_ptr(),
        )
        if answer == REFUSED:
            # fmt: off
            raise ValueError(f"views need images, boxes and an odd kernel that lie within 28 x 28 pixels; kernel {kernel}.")
            # fmt: on
        return out

    def jitter(
        self, gray: Tensor, tint: Tensor, factors: Tensor, order: Tensor, scale: float = 1.0, offset: float = 0.0
    ) -> Tensor:
        """Jittered images as `augment.color_jitter` makes them, ready for the trunk: [B, 29, 29, 3] with a border of zeros.

        Inputs are gray [B, 28, 28], its colours tint [B, 3], factors [B, 4] and order int64 [B, 4] (the operation applied p-th to an
        image). A jittered value v becomes scale * v + offset. Raises ValueError for an order that names no operation.
        """
        count = len(gray)
        out = torch.empty(count, IMAGE + 1, IMAGE + 1, 3)
        answer = self._jitter(
            pointer(gray, (count, IMAGE, IMAGE)),
            pointer(tint, (count, 3)),
            pointer(factors, (count, 4)),
            pointer(order, (count, 4), torch.int64),
            count,
            scale,
            offset,
            torch.get_num_threads(),
            out.data_ptr(),
        )
        if answer == REFUSED:
            raise ValueError("an order of colour jitter names operations by 0 to 3.")
        return out


def source() -> str:
    """The text of native.cpp."""
    return (resources.files("dtcl_core.engine") / "native.cpp").read_text(encoding="utf-8")


def processor() -> str:
    """The processor's model and features, which decide what -march=native means; empty where they cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    wanted = ("vendor_id", "cpu family", "model", "flags")
    return "\n".join(sorted({line for line in lines if line.split("\t")[0].strip() in wanted}))


def asked(command: list[str], seconds: float, fed: str = "") -> tuple[int, str, str]:
    """Run a command with input `fed`; return its exit status, output and error output. Raises TimeoutExpired after `seconds`."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, complaints = process.communicate(fed, timeout=seconds)
        except BaseException:  # an interrupt too
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a compiler is a tree of processes
            raise
    return process.returncode, said, complaints


def find_compiler() -> tuple[list[str], str]:
    """The compiler's command (CXX may hold a launcher and options) and the first line of its version; raises Unavailable if none runs."""
    named = os.environ.get("CXX", "").strip()
    for name in (named,) if named else COMPILERS:
        with suppress(OSError, ValueError, subprocess.SubprocessError):  # ValueError: quotes that are never closed
            program, *options = shlex.split(name)
            if (path := shutil.which(program)) is not None:
                status, said, _ = asked([path, *options, "--version"], VERSION_SECONDS)
                if status == 0:
                    return [path, *options], said.partition("\n")[0].strip()
    raise Unavailable(f"no C++ compiler was found (tried {named or ', '.join(COMPILERS)})")


def cache_folder() -> Path:
    """This user's own folder for compiled code; raises Unavailable if it cannot be made, or others may write to it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "dtcl"
    except RuntimeError:
        raise Unavailable("there is no home to keep compiled code in") from None
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        raise Unavailable(f"{folder} cannot be made ({error.strerror})") from None
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unavailable(f"{folder} is not this user's alone")
    return folder


def digest(content: bytes) -> str:
    """24 hexadecimal digits of a SHA-256."""
    return hashlib.sha256(content).hexdigest()[:24]


def kept(folder: Path, name: str) -> Path | None:
    """The file compiled under this name; None if it is absent or damaged. A damaged file would end the process that loads it."""
    for path in sorted(folder.glob(f"{name}-*.so")):
        with suppress(OSError):
            if digest(path.read_bytes()) == path.stem.removeprefix(f"{name}-"):
                return path
    return None


def compiled(widths: tuple[int, ...]) -> tuple[Path, str]:
    """The library's file, compiled if need be, and its description. The file's name holds a hash of its inputs and its own digest."""
    (compiler, *rest), version = find_compiler()
    text = source()
    options = [*rest, *FLAGS, *INSTRUCTIONS[torch.backends.cpu.get_cpu_capability()], f"-DWIDTHS={','.join(map(str, widths))}"]
    code = hashlib.sha256(text.encode()).hexdigest()[:12]
    name = digest("\n".join([text, *options, version, processor()]).encode())
    folder = cache_folder()
    path = kept(folder, name) or compile_into([compiler, *options, "-x", "c++"], text, version, folder, name)
    return path, f"native.cpp {code}, {version}, {' '.join(options)}"


def compile_into(command: list[str], text: str, version: str, folder: Path, name: str) -> Path:
    """Compile a text to a file in the cache, whose name starts with `name`; raises Unavailable with the compiler's complaint."""
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "native.so"
            status, _, complaints = asked([*command, "-", "-o", str(made)], COMPILE_SECONDS, text)
            if status:
                complaint = next((line for line in complaints.splitlines() if "error" in line), complaints[:200])
                raise Unavailable(f"{version} failed on it ({complaint.strip()})")
            made.chmod(0o700)
            target = folder / f"{name}-{digest(made.read_bytes())}.so"
            os.replace(made, target)  # whole or not at all, whoever else compiles it now
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{version} did not end within {COMPILE_SECONDS} seconds") from None
    except OSError as error:
        raise Unavailable(f"it could not be compiled in {folder} ({error.strerror})") from None
    return target


@cache
def _load(widths: tuple[int, ...]) -> Library | Unavailable:
    try:
        if os.name != "posix" or sys.byteorder != "little":
            raise Unavailable("the system is not a little-endian POSIX one")
        if torch.backends.cpu.get_cpu_capability() not in INSTRUCTIONS:
            raise Unavailable(f"the processor has neither AVX-512 nor AVX2 ({torch.backends.cpu.get_cpu_capability()})")
        path, description = compiled(widths)
        return Library(path, widths, description)
    except Unavailable as reason:
        return reason


_loading = threading.Lock()


def switched() -> str:
    """Value of the environment variable DTCL_TRUNK, one of `CHOICES`; raises ValueError for any other."""
    return checked_choice(SWITCH, os.environ.get(SWITCH) or "auto", CHOICES)


def load(widths: tuple[int, ...]) -> Library:
    """The library for an encoder's widths, compiled at the first call; raises Unavailable with the reason if there can be none."""
    if switched() == "pytorch":
        raise Unavailable(f"{SWITCH}=pytorch")
    if not 2 <= len(widths) <= MOST_BLOCKS or any(width % LANES for width in widths):
        raise Unavailable(f"it takes two to four blocks with channels in multiples of {LANES}, not {list(widths)}")
    with _loading:  # what two threads ask for is made once
        made = _load(tuple(widths))
    if isinstance(made, Unavailable):
        raise Unavailable(str(made))
    return made
