"""The examples run as typed, on a few images."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KEPT = ("0", "1")  # digits
pytest.importorskip("torchvision")


def test_folders_of_classes_alone_are_not_taken_for_domains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("images/0", "many/red/.thumbs", "one/red/0", "one/red/1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "0.png").touch()
    (tmp_path / "empty").mkdir()
    for arguments, said in {
        ("images",): "images must lie as FOLDER/DOMAIN/CLASS/IMAGE, none of them hidden; found 0/0.png.",
        ("nothing",): "there is no folder nothing.",
        ("empty",): "none of them hidden; found none.",
        ("many",): "found red/.thumbs/0.png.",
        ("one",): "training needs images of two domains or more, got 1.",
        ("one", "--batch", "1"): "epochs and size must be at least 1, batch at least 2.",
    }.items():
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / "train.py"), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(sys.argv[0], run_name="__main__")
        assert ended.value.code == 2 and capsys.readouterr().err.rstrip().endswith(said)


def test_a_folder_of_images_is_trained_on_in_the_notebook_without_a_network(tmp_path):
    for script in EXAMPLES.glob("*.py"):
        shutil.copy(script, tmp_path)
    document = nbformat.read(EXAMPLES / "train.ipynb", as_version=4)
    (made,) = (cell for cell in document.cells if cell.source.startswith("%run colored_digits"))
    made.source += f"""
import shutil
from pathlib import Path
for folder in Path("images").glob("*/*"):
    if folder.name not in {KEPT}:
        shutil.rmtree(folder)
    for image in sorted(folder.glob("*.png"))[10:]:
        image.unlink()
"""
    (trained,) = (cell for cell in document.cells if cell.source.startswith("%run train"))
    trained.source = trained.source.rstrip() + " --batch 20 --epochs 2"
    NotebookClient(document, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    installed, _, told, shown = (
        "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
        for cell in document.cells
        if cell.cell_type == "code"
    )
    assert not installed, "nothing is installed where all is there"
    assert re.findall(r"^epoch (\d+): loss ", told, flags=re.M) == ["1", "2"] and "discriminator_accuracy" in shown
    figures = dict(part.rsplit(" ", 1) for part in told.splitlines()[-1].removeprefix("epoch 2: ").split(", "))
    assert {"loss", "tau_within", "tau_across", "clipped", "discriminator_accuracy", "class accuracy"} <= set(figures)
    assert "class accuracy where unseen" in figures and all(0 <= float(v) < 100 for v in figures.values())
    assert float(figures["tau_within"]) < float(figures["tau_across"])
