"""Native code: what it computes equals the plain versions, and where it cannot be built PyTorch's operators train instead."""

import ctypes
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dtcl_core import augment, keyed, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.encoder import feature_sizes
from dtcl_core.engine import native
from dtcl_core.engine.streams import Stream, Streams
from dtcl_core.engine.trunk import Tinted, Trunk

SAME = {"derandomize": True, "database": None, "deadline": None}  # the same examples at every call
WIDTHS = (16, 32)


def why_not() -> str:
    """Why native code cannot run here; empty if it can."""
    try:
        native.load(WIDTHS)
    except native.Unavailable as reason:
        return str(reason)
    return ""


REASON = why_not()
needs_native = pytest.mark.skipif(bool(REASON), reason=f"native code cannot run here: {REASON}")


@pytest.fixture(autouse=True)
def not_switched(monkeypatch):
    monkeypatch.delenv(native.SWITCH, raising=False)


USED = torch.backends.cpu.get_cpu_capability()


@pytest.fixture(scope="module", params=["AVX512", "AVX2"] if USED == "AVX512" else [USED])
def instructions(request):
    """What native code is compiled for, whatever was loaded before: a processor with AVX-512 tests AVX2 too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: request.param)
        patch.setattr(native, "_load", functools.cache(native._load.__wrapped__))
        yield request.param


@pytest.fixture(scope="module")
def library(instructions):
    if REASON:
        pytest.skip(f"native code cannot run here: {REASON}")
    return native.load(WIDTHS)


def test_the_library_is_compiled_for_the_instructions_that_pytorch_uses(library, instructions):
    assert ("-mno-avx512f" in library.description) == (instructions == "AVX2")


# --- what it computes -------------------------------------------------------------------------------------------------


def drawn_views(seed: int, size: int, count: int) -> tuple[torch.Tensor, ...]:
    """Gray images, an index, boxes of every size and place, and blurs, some of them none."""
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 28, (2, size, 2), generator=g)
    length = 1 + (torch.rand(2, size, 2, generator=g) * (28 - start)).long()
    boxes = torch.cat([start, length.minimum(28 - start)], -1)
    sigmas = torch.rand(2, size, generator=g) * 3 * (torch.rand(2, size, generator=g) > 0.3)
    return torch.rand(size, 28, 28, generator=g), torch.randint(0, size, (count,), generator=g), boxes, sigmas


@needs_native
@given(st.integers(0, 999), st.integers(1, 40), st.integers(0, 60), st.integers(0, 27), st.integers(0, 1))
@settings(max_examples=40, **SAME)
def test_views_equal_crop_resize_and_blur(library, seed, size, count, half, border):
    gray, index, boxes, sigmas = drawn_views(seed, size, count)
    kernel = 2 * half + 1
    seen = library.views(gray, index, boxes, sigmas, kernel, border)
    plain = augment.resize_crop_blur(gray[index], boxes[:, index], sigmas[:, index], kernel)
    assert seen.shape == (2 * count, 28 + border, 28 + border)
    assert border == 0 or not (seen[:, 0].any() or seen[:, :, 0].any())
    torch.testing.assert_close(
        seen[:, border:, border:].reshape(plain.shape), plain, atol=4e-6, rtol=0
    )  # each is within 2.1e-6 of float64


@needs_native
@pytest.mark.parametrize("kernel", [0, -1, 2, 56, 57])
def test_views_refuse_a_kernel_that_fits_no_image(library, kernel):
    with pytest.raises(ValueError, match=f"an odd kernel that lie within 28 x 28 pixels; kernel {kernel}"):
        library.views(*drawn_views(0, 3, 2), kernel, 1)


@needs_native
@pytest.mark.parametrize(
    "box",
    [(-1, 0, 5, 5), (0, 28, 1, 1), (0, 0, 0, 5), (0, 0, 29, 1), (20, 0, 9, 1), (0, 27, 1, 2), (2**62, 0, 2**62, 1)],
)
def test_views_refuse_a_box_outside_the_image_only_where_it_is_looked_at(library, box):
    gray, _, boxes, sigmas = drawn_views(0, 3, 2)
    boxes[1, 2] = torch.tensor(box)
    with pytest.raises(ValueError, match="views need images, boxes"):
        library.views(gray, torch.tensor([0, 2]), boxes, sigmas, 3, 0)
    assert library.views(gray, torch.tensor([0, 1]), boxes, sigmas, 3, 0).isfinite().all()


@needs_native
@pytest.mark.parametrize("index", [-1, 3, 2**62, -(2**63)])
def test_views_refuse_an_image_that_is_not_there(library, index):
    gray, _, boxes, sigmas = drawn_views(0, 3, 2)
    with pytest.raises(ValueError, match="views need images, boxes"):
        library.views(gray, torch.tensor([0, index]), boxes, sigmas, 3, 0)


@needs_native
@pytest.mark.parametrize(
    "change",
    [
        lambda a: {**a, "gray": a["gray"].double()},
        lambda a: {**a, "gray": a["gray"][:, :27]},
        lambda a: {**a, "gray": a["gray"].transpose(1, 2)},
        lambda a: {**a, "index": a["index"].int()},
        lambda a: {**a, "index": a["index"].repeat(4)[::2]},
        lambda a: {**a, "boxes": a["boxes"][:1]},
        lambda a: {**a, "boxes": a["boxes"].int()},
        lambda a: {**a, "sigmas": a["sigmas"].T},
        lambda a: {**a, "border": 2},
        lambda a: {**a, "border": -1},
    ],
)
def test_views_of_other_shapes_and_types_are_refused_before_native_code(library, monkeypatch, change):
    monkeypatch.setattr(library, "_views", lambda *_: pytest.fail("native code was entered"))
    whole = dict(zip(("gray", "index", "boxes", "sigmas"), drawn_views(0, 3, 2))) | {"kernel": 3, "border": 0}
    with pytest.raises(ValueError, match="native code was to be given dense|border must be 0 or 1"):
        library.views(**change(whole))


def units_of(bits: torch.Tensor) -> torch.Tensor:
    """Which units bits [..., words] keep, bool [..., 16 * words]."""
    return ((bits[..., None] >> torch.arange(16)) & 1).bool().flatten(-2)


@needs_native
@given(st.integers(0, 5000), st.integers(0, 65535), st.integers(0, 2**32))
@settings(max_examples=20, **SAME)
def test_masks_are_the_very_bits_of_keyed_draws(library, words, below, seed):
    key = torch.from_numpy(keyed.words_of((seed, "dropout")).astype("int64"))
    seen = units_of(library.masks(key[None], words, below)[0])
    assert torch.equal(seen, torch.from_numpy(keyed.bits16(16 * words, seed, "dropout").astype("int32") >= below))


@needs_native
@pytest.mark.parametrize(("words", "below"), [(-1, 5), (5, -1), (5, 65536)])
def test_masks_that_are_none_are_refused(library, words, below):
    with pytest.raises(ValueError, match="masks need 0 words or more and below in"):
        library.masks(torch.tensor([[1, 2]]), words, below)


@needs_native
@pytest.mark.parametrize("kind", ["element", "channel"])
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.95])
def test_dropout_masks_equal_the_ceilings_of_pytorchs_path(library, tiny, kind, rate):
    protocol = replace(tiny, channels=WIDTHS, dropout=rate, dropout_kind=kind)
    streams = [Stream(0, 50.0, False), Stream(1, 50.0, False), Stream(0, 50.0, True)]
    cpu, trunk = torch.device("cpu"), Trunk(library, feature_sizes(protocol))
    ours, theirs = Streams(streams, protocol, cpu, trunk), Streams(streams, protocol, cpu)
    for count, purpose in ((1, (0, 0)), (7, (3, 2)), (128, (0, "discriminator", 64))):
        for side, bits, ceilings in zip(
            trunk.sides, ours.dropout_masks(count, *purpose), theirs.dropout_masks(count, *purpose), strict=True
        ):
            for mine, ceiling in zip(bits, ceilings, strict=True):
                kept = units_of(mine).view(count, side, side, -1)
                assert torch.equal(kept, (ceiling > 0).expand_as(kept))
    assert Streams(streams, replace(protocol, dropout=0.0), cpu, trunk).dropout_masks(3, 0, 0) is None


@needs_native
@given(st.integers(0, 99), st.sampled_from([1, 2, 63, 64, 65, 130]), st.booleans())
@settings(max_examples=12, **SAME)
def test_moments_equal_a_float64_unfold(library, seed, images, in_color):
    g = torch.Generator().manual_seed(seed)
    if in_color:
        looks, tint = torch.rand(images, 3, 28, 28, generator=g), None
        padded = F.pad(looks.permute(0, 2, 3, 1), (0, 0, 1, 0, 1, 0)).contiguous()
    else:
        gray, tint = torch.rand(images, 28, 28, generator=g), torch.rand(images, 3, generator=g)
        padded, looks = Tinted.of(gray, tint).padded, gray[:, None].double() * tint[..., None, None]
    patches = F.unfold(looks.double(), 3, stride=2, padding=1).unflatten(1, (3, 9))  # [B, colour, tap, pixel]
    patches = patches.permute(0, 3, 2, 1).reshape(-1, 27)
    exact = patches.T @ torch.cat([patches, torch.ones(len(patches), 1, dtype=torch.float64)], 1)
    torch.testing.assert_close(library.moments(padded, tint), exact, rtol=1e-6, atol=1e-6)


@needs_native
def test_memory_that_runs_out_is_an_error_of_python(library):
    for function in (
        library.forward,
        library.backward,
        library.infer,
        library._moments,
        library._masks,
        library._views,
    ):
        assert function.restype is ctypes.c_int32 and function.errcheck(0, function, ()) == 0
        with pytest.raises(MemoryError, match="native code found no memory"):
            function.errcheck(native.NO_MEMORY, function, ())


@needs_native
def test_libraries_share_no_name_but_the_interfaces():
    """GCC makes a thread's buffers one for all libraries of a process, unless their name is hidden."""
    path, _ = native.compiled(WIDTHS)
    if (nm := shutil.which("nm")) is None:
        pytest.skip("needs nm, which lists a library's names")
    told = subprocess.run([nm, "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
    kinds = [line.split()[1:3] for line in told.splitlines()]
    assert {name for kind, name in kinds if kind == "T"} >= {"dtcl_forward", "dtcl_backward", "dtcl_infer"}
    assert not [name for kind, name in kinds if kind not in "TWV" or (kind == "T" and not name.startswith("dtcl_"))]


# --- where it cannot be built -----------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has loaded nothing yet, on a processor that would do, with an empty cache."""
    monkeypatch.setattr(native, "_load", functools.cache(native._load.__wrapped__))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache" / "dtcl"


def compiler(folder: Path, body: str, version: str = "echo fake 1.0") -> str:
    """A script that stands for a compiler: its path. In `body`, $last is the file that it is to make."""
    script = folder / "fake compiler"
    script.write_text(f'#!/bin/sh\nfor last; do :; done\nif [ "$last" = --version ]; then {version}; exit; fi\n{body}\n')
    script.chmod(0o755)
    return shlex.quote(str(script))


def trains_by_operators(tiny: Protocol, reason: str) -> pretrain.Stack:
    """A stack that says in one line why it does not use native code."""
    stack = pretrain.Stack([Run(protocol=replace(tiny, channels=(16, 16)))], "cpu")
    assert stack.trunk is None and re.search(reason, stack.path), stack.path
    assert stack.path.startswith("PyTorch's operators (") and stack.path.isprintable() and len(stack.path) < 600
    with pytest.raises(ValueError, match="the trunk for CPUs was asked for, but"):
        pretrain.Stack([Run(protocol=replace(tiny, channels=(16, 16)))], "cpu", trunk="native")
    return stack


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("cat > /dev/null; echo 'native.cpp:1: error: no such thing' >&2; exit 1", r"fake 1.0 failed on it \(native.cpp:1: error"),
        ("exit 3", r"fake 1.0 failed on it \(\)"),
        (r"cat > /dev/null; printf '\377\376 error\n' >&2; exit 1", r"fake 1.0 failed on it \(.* error\)"),
        ("kill -9 $$", "fake 1.0 failed on it"),
        ("cat > /dev/null", "it could not be compiled in .* \\(No such file or directory\\)"),
        ('cat > /dev/null; echo rubbish > "$last"', "what was compiled cannot be loaded"),
        ('cat > /dev/null; : > "$last"', "what was compiled cannot be loaded"),
    ],
)  # fmt: skip
def test_a_compiler_that_fails_leaves_training_to_pytorch(fresh, tiny, tmp_path, monkeypatch, body, reason):
    monkeypatch.setenv("CXX", compiler(tmp_path, body))
    trains_by_operators(tiny, reason)
    assert not [path for path in fresh.iterdir() if path.suffix != ".so"], "nothing is left behind"


@pytest.mark.parametrize("name", ["nowhere", "'never closed", "'' -O1", "/dev/null"])
def test_no_compiler_leaves_training_to_pytorch(fresh, tiny, monkeypatch, name):
    monkeypatch.setenv("CXX", name)
    trains_by_operators(tiny, rf"no C\+\+ compiler was found \(tried {re.escape(name)}\)")


def test_an_empty_path_leaves_training_to_pytorch(fresh, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    stack = trains_by_operators(tiny, r"no C\+\+ compiler was found \(tried c\+\+, g\+\+, clang\+\+\)")
    stack.train_epoch()
    assert stack.losses[0].isfinite().all()


@pytest.mark.parametrize("at", ["compiling", "its version"])
def test_a_compiler_that_hangs_is_ended_with_all_it_started(fresh, tiny, tmp_path, monkeypatch, at):
    monkeypatch.setattr(native, "COMPILE_SECONDS", 0.5)
    monkeypatch.setattr(native, "VERSION_SECONDS", 5.0 if at == "compiling" else 0.5)
    hangs = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    monkeypatch.setenv("CXX", compiler(tmp_path, hangs, hangs if at == "its version" else "echo fake 1.0"))
    began = time.monotonic()
    trains_by_operators(tiny, "did not end within 0.5 seconds" if at == "compiling" else "no C.. compiler was found")
    assert time.monotonic() - began < 30
    child = int((tmp_path / "child").read_text())
    for _ in range(100):  # an ended process stays in the list until someone asks for it
        status = Path(f"/proc/{child}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the compiler started still runs")


def test_a_cache_that_cannot_be_written_leaves_training_to_pytorch(fresh, tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CXX", compiler(tmp_path, "exit 0"))
    for folder in (tmp_path / "file", Path("/proc/nowhere")):
        monkeypatch.setattr(native, "_load", functools.cache(native._load.__wrapped__))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        trains_by_operators(tiny, f"{folder}/dtcl cannot be made")


def test_a_cache_that_others_may_write_to_is_not_used(fresh, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, "exit 0"))
    fresh.mkdir(parents=True)
    for mode in (0o770, 0o707):
        monkeypatch.setattr(native, "_load", functools.cache(native._load.__wrapped__))
        fresh.chmod(mode)
        trains_by_operators(tiny, "is not this user's alone")
    fresh.chmod(0o700)
    monkeypatch.setattr(native, "_load", functools.cache(native._load.__wrapped__))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: fresh.stat().st_uid + 1)
        trains_by_operators(tiny, "is not this user's alone")


def test_no_home_leaves_training_to_pytorch(fresh, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, "exit 0"))
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)  # nobody's
    trains_by_operators(tiny, "there is no home to keep compiled code in")


def test_another_processor_leaves_training_to_pytorch(fresh, tiny, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    trains_by_operators(tiny, r"the processor has neither AVX-512 nor AVX2 \(DEFAULT\)")
    assert not fresh.exists()


def test_an_older_processor_trains():
    """As far as PyTorch can be told that the processor is such a one."""
    code = """
        from dtcl_core import pretrain
        from dtcl_core.config import Protocol, Run
        protocol = Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, epochs=1)
        stack = pretrain.train([Run(protocol=protocol)], "cpu")
        print(stack.path, stack.epoch)
    """
    root, environment = Path(native.__file__).parent.parent, os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"PyTorch's operators \(the processor has neither AVX-512 nor AVX2 \((DEFAULT|NO AVX)\)\) 1\n", done.stdout
    )


# --- what is kept -----------------------------------------------------------------------------------------------------


COPIES = 'cat > /dev/null; echo made >> "{folder}/calls"; cp "{library}" "$last"'


@pytest.fixture
def copying(fresh, tmp_path, monkeypatch):
    """A compiler that copies a file that was made before: the library if there can be one, else any file."""
    made = tmp_path / "made.so"
    made.write_bytes(b"any file" * 1000)
    monkeypatch.setenv("CXX", compiler(tmp_path, COPIES.format(folder=tmp_path, library=made)))
    return made


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def test_what_was_compiled_is_kept_for_its_user_alone(copying, fresh, tmp_path):
    old = os.umask(0)
    try:
        path, told = native.compiled((16, 32))
    finally:
        os.umask(old)
    assert path.parent == fresh and fresh.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o077 == 0
    assert native.compiled((16, 32)) == (path, told) and calls(tmp_path) == 1
    assert native.compiled((16, 16))[0] != path and calls(tmp_path) == 2
    assert "fake 1.0" in told and "-O3" in told and told.endswith("-DWIDTHS=16,32")


def test_options_of_the_compiler_are_passed_on_and_told(copying, tmp_path, monkeypatch):
    plain = native.compiled((16, 32))
    monkeypatch.setenv("CXX", f"{os.environ['CXX']} -mtune=generic")
    path, told = native.compiled((16, 32))
    assert path != plain[0] and "-mtune=generic" in told and calls(tmp_path) == 2


def test_a_damaged_file_is_made_again(copying, fresh, tmp_path):
    """Loading a truncated library would end the process."""
    path, _ = native.compiled((16, 32))
    for damage in (lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + b"x"):
        path.write_bytes(damage(copying.read_bytes()))
        assert native.compiled((16, 32))[0] == path and path.read_bytes() == copying.read_bytes()
    assert calls(tmp_path) == 4 and list(fresh.iterdir()) == [path]


def test_a_file_of_a_stale_name_is_not_used(copying, fresh, tmp_path):
    path, _ = native.compiled((16, 32))
    name, _, digest = path.stem.partition("-")
    for stale in (f"{name}.so", f"{name}-{'0' * 24}.so", f"{'0' * 24}-{digest}.so"):
        (fresh / stale).write_bytes(b"stale")
    path.unlink()
    (fresh / f"{name}-folder.so").mkdir()
    assert native.compiled((16, 32))[0] == path and path.read_bytes() == copying.read_bytes() and calls(tmp_path) == 2


def test_a_cache_that_can_only_be_read_serves_what_it_holds(copying, fresh, tmp_path, monkeypatch):
    path, told = native.compiled((16, 32))

    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(native.tempfile, "TemporaryDirectory", read_only)
    assert native.compiled((16, 32)) == (path, told)
    with pytest.raises(native.Unavailable, match=r"could not be compiled in .* \(Read-only file system\)"):
        native.compiled((16, 16))


def test_two_processes_that_compile_at_once_end_with_one_file(copying, fresh, tmp_path, monkeypatch):
    body = COPIES.format(folder=tmp_path, library=copying).replace("cp ", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; cp ")
    monkeypatch.setenv("CXX", compiler(tmp_path, body))
    command = [sys.executable, "-c", "from dtcl_core.engine import native; print(native.compiled((16, 32))[0])"]
    root = Path(native.__file__).parent.parent
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)]
    deadline = time.monotonic() + 60
    while not (tmp_path / "calls").exists() or calls(tmp_path) < 2:
        assert time.monotonic() < deadline, "both compile"
        time.sleep(0.05)
    (tmp_path / "go").touch()
    said = [process.communicate(timeout=60)[0].strip() for process in both]
    assert said == [str(path) for path in fresh.iterdir()] * 2 and Path(said[0]).read_bytes() == copying.read_bytes()


def test_jittered_images_are_those_of_augment(library):
    """Every order of the four operations, colours with ties between channels, black backgrounds, and the border."""
    count = 240
    generator = torch.Generator().manual_seed(0)
    gray = torch.rand(count, 28, 28, generator=generator) * (torch.rand(count, 28, 28, generator=generator) > 0.5)
    tint = torch.rand(count, 3, generator=generator)
    tint[70:140] = 4 * tint[70:140] - 2  # colours that are not clipped
    tint[:40], tint[40:60], tint[60:70] = torch.tensor([1.0, 0, 0]), torch.tensor([0.5, 0.5, 0.5]), 0.0
    factors, order = augment.random_color_jitter(count, (0.8, 0.8, 0.8, 0.5), 0.9, (0, "jitter"))
    painted = (gray[:, None] * tint[:, :, None, None]).contiguous()
    expected = augment.color_jitter(painted, torch.from_numpy(factors), *augment.jitter_places(order))
    made = library.jitter(gray, tint, torch.from_numpy(factors), torch.from_numpy(np.ascontiguousarray(order)), 2.0, -1.0)
    assert torch.allclose(made[:, 1:, 1:].permute(0, 3, 1, 2), 2 * expected - 1, atol=1e-5)
    assert not made[:, 0].any() and not made[:, :, 0].any()


def test_an_order_that_names_no_operation_is_refused(library):
    with pytest.raises(ValueError, match="operations by 0 to 3"):
        library.jitter(torch.rand(2, 28, 28), torch.rand(2, 3), torch.ones(2, 4), torch.full((2, 4), 4))
