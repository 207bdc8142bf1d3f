"""Run every chapter in place and keep its text outputs, which the tests compare; images are not committed."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

BOOK = Path(__file__).parent


def refresh(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=3600, kernel_name="python3", resources={"metadata": {"path": str(BOOK)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of execution
        for output in cell.get("outputs", []):
            for kind in [kind for kind in output.get("data", {}) if kind.startswith("image/")]:
                del output["data"][kind]
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for chapter in sorted(BOOK.glob("*.ipynb")):
        print(f"running {chapter.name}", flush=True)
        refresh(chapter)
