"""The chapters as a reader runs them: parameters are checked, smoke runs train for real, outputs are there to compare."""

import contextlib
import io
import os
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import nbformat
import pandas as pd
import papermill
import pytest
import torch
import whole_study
import yaml
from made_up_rows import row
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import dtcl_core
from dtcl_core import methods
from dtcl_core.config import Run
from dtcl_core.encoder import Encoder
from dtcl_core.results import Store
from dtcl_study import chapter as notebook
from dtcl_study import claims, embeddings, reported, tables
from dtcl_study.experiments import PAPER_SELECTS, REGISTRY
from dtcl_study.study import Evidence, Study

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "book").glob("*.ipynb"))
SHOWN_BY = {  # the chapter of each experiment, where it has another name
    "fresh": "main_table", "left_open": "choices", "retuned": "choices", "dropout_grid": "choices",
    "dropout_fresh": "choices", "weight_outside": "claims", "other_temperatures": "why", "other_selection": "model_selection",
}  # fmt: skip
OF = {path.stem: [name for name in REGISTRY if SHOWN_BY.get(name, name) == path.stem] for path in CHAPTERS}
EXPERIMENTS = [path for path in CHAPTERS if OF[path.stem]]
REPORTED_BY = {  # a number that a chapter shows although nothing was run; the others' figures have no table
    "main_table": "0.819", "sigma_ablation": "0.973", "label_fractions": "0.908", "temperature": "0.948",
    "global_vs_batch": "0.524",
}  # fmt: skip
JUDGES = {"sigma_ablation": (5, 15), "effective_temperature": (11,), "temperature": (7,)}  # claims that a chapter judges
FIGURES = {  # chapters whose page has figures even without rows, and how many at least
    "main_table": 1, "sigma_ablation": 1, "temperature": 6, "model_selection": 1, "projector_head": 4, "why": 1,
    "method": 1, "data": 2,
}  # fmt: skip
assert EXPERIMENTS, "no experiment chapter was found"


def cells(path, tag=None):
    notebook = nbformat.read(path, as_version=4)
    found = [c for c in notebook.cells if c.cell_type == "code"]
    return [c for c in found if tag is None or tag in c.metadata.get("tags", [])]


def text_of(cell):
    """What a cell prints and the text of its tables."""
    parts = [o.get("text") or o.get("data", {}).get("text/plain", "") + "\n" for o in cell.get("outputs", [])]
    return "".join(part for part in parts if not part.startswith("<Figure"))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_every_chapter_has_outputs_to_compare_and_neither_images_nor_html(path):
    found = cells(path)
    assert any(len(text_of(c).splitlines()) >= 1 for c in found), "nothing to compare: nbval would pass vacuously"
    for cell in found:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert not any(kind.startswith(("image/", "text/html")) for kind in output.get("data", {}))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_the_headline_of_a_results_chapter_is_compared(path):
    headline = "\n".join(text_of(c) for c in cells(path, "headline"))
    assert headline
    assert re.search(r"\d\.\d{3}", headline) or "Not yet run." in headline or path.stem == "claims", "no number to compare"


def test_every_experiment_has_its_chapter():
    shown = {name for names in OF.values() for name in names}
    assert shown == set(REGISTRY), "name the chapter that shows a new experiment in SHOWN_BY"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_page_with_a_figure_is_named_among_those_that_promise_some(path):
    always = any(c.source.startswith("figure") or "\nfigure" in c.source for c in cells(path))
    assert not always or path.stem in FIGURES, "name it in FIGURES: a run then has to draw it"


def check_figures(path, out):
    """A page that promises figures has them. MPLBACKEND=Agg would draw nothing in a notebook; chapters choose their backend themselves."""
    drawn = [o for c in cells(out) for o in c.get("outputs", []) if "image/svg+xml" in o.get("data", {})]
    assert len(drawn) >= FIGURES.get(path.stem, 0)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_cell_is_read_at_a_glance(path):
    """What takes more lines belongs into a module, or into two cells."""
    assert max(len(c.source.splitlines()) for c in cells(path)) <= 25


def test_the_readme_gives_the_answer_of_the_rows(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    import refresh

    text = (ROOT / "README.md").read_text()
    assert "\n".join([refresh.BEGIN, *refresh.answer(), refresh.END]) in text, "make notebooks"
    (tmp_path / "README.md").write_text(cut := text.replace(refresh.END, ""))
    with pytest.raises(ValueError, match="needs the lines"):
        refresh.write_answer(tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text() == cut


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_every_parameter_is_typed_and_explained(path):
    (cell,) = cells(path, "parameters")
    for line in cell.source.splitlines():
        assert re.fullmatch(r"\w+: \w+ = .+  # .{8,}", line), line
    shown = papermill.inspect_notebook(str(path))  # leaves out what it cannot parse, such as a comment with "="
    assert shown.keys() == notebook.assigned_names(cell.source)
    assert all(p["inferred_type_name"] != "None" and p["help"] for p in shown.values())


def execute(path, tmp_path, monkeypatch, results=None, **parameters):
    monkeypatch.setenv("DTCL_RESULTS", str(results or tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(str(path), str(out), parameters=parameters, progress_bar=False, kernel_name="python3")
    return out


def perform_text(page):
    """Run the cells of a page of text; the names that they define."""
    code, space = re.findall(r"```\{code-cell\}[^\n]*\n(.*?)```", (ROOT / f"book/{page}.md").read_text(), flags=re.DOTALL), {}
    exec("\n".join(line for line in "\n".join(code).splitlines() if not line.startswith(":")), space)
    plt.close("all")
    return space


def perform(path, tmp_path, monkeypatch, results=None, **parameters):
    """What a chapter prints, and how many figures it draws, executed in this process, where no kernel has to be started."""
    monkeypatch.setenv("DTCL_RESULTS", str(results or tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    (own,) = cells(path, "parameters")
    told, space = io.StringIO(), {"In": [""]}
    injected = [f"{notebook.INJECTED}\n" + "".join(f"{k} = {v!r}\n" for k, v in parameters.items())] * bool(parameters)
    before = dict(methods.ALL_METHODS)
    try:
        with contextlib.redirect_stdout(told), matplotlib.rc_context({"backend": "agg"}):
            for source in (s for c in cells(path) for s in [c.source, *(injected if c.id == own.id else [])]):
                space["In"].append(source)
                exec(compile(source, f"<{path.stem}>", "exec"), space)
            drawn = len(plt.get_fignums())
    finally:
        plt.close("all")
        methods.ALL_METHODS.clear()  # the chapter on adding a method adds some
        methods.ALL_METHODS.update(before)
    return told.getvalue(), drawn


@pytest.fixture(scope="module")
def smoke_results(tmp_path_factory):
    """One store for all smoke runs, as a reader would have: chapters share runs."""
    return tmp_path_factory.mktemp("smoke")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_smoke_run_trains_and_fills_the_tables(path, smoke_results, monkeypatch):
    saves = {"save": "figures"} if "save" in notebook.assigned_names(cells(path, "parameters")[0].source) else {}
    printed, drawn = perform(path, smoke_results, monkeypatch, preset="smoke", compute=True, device="cpu", **saves)
    assert drawn >= FIGURES.get(path.stem, 0)
    (name, *_) = [n for n in OF[path.stem] if n not in ("fresh", "left_open")]
    asked = REGISTRY[name].runs("smoke")
    seeds = len({run.seed for run in asked})
    assert re.search(rf"{seeds} of {seeds} seeds[^;]* are complete; trained on cpu", printed)
    assert "no number means anything" in printed
    assert not Store(smoke_results / "results/smoke").missing(asked)
    assert list((smoke_results / "results/smoke/rows").glob("*.jsonl"))
    assert not (smoke_results / "results/rows").exists()
    if saves:
        written = {file.stem for file in (smoke_results / "figures").glob("*.svg")}
        assert any(name.startswith(path.stem) for name in written)
        assert written == {file.stem for file in (smoke_results / "figures").glob("*.pdf")}


def test_papermill_trains_draws_and_shows_the_same_again_from_another_folder(smoke_results, tmp_path, monkeypatch):
    """As a reader types it, whatever MPLBACKEND says; `nbval` has a kernel for every chapter."""
    path = ROOT / "book/sigma_ablation.ipynb"
    monkeypatch.setenv("MPLBACKEND", "Agg")
    out = execute(path, smoke_results, monkeypatch, preset="smoke", compute=True, device="cpu")
    check_figures(path, out)
    again = execute(path, tmp_path, monkeypatch, results=smoke_results / "results", preset="smoke")
    progress = r"Encoders are computed .*|\d+ of \d+ runs done.*"
    told = [re.sub(progress, "", "\n".join(text_of(c) for c in cells(each))).split() for each in (out, again)]
    assert told[0] == told[1] and len(told[0]) > 100


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory):
    """A store with every run of the study, made up."""
    with pytest.MonkeyPatch.context() as patch:
        whole_study.settled(patch.setattr)
        return whole_study.write(tmp_path_factory.mktemp("whole")).path


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_chapter_shows_a_study_whose_runs_all_exist(path, whole_store, tmp_path, monkeypatch):
    """Its verdicts, fresh seeds and single choices are on the page, though none was trained yet when it was written."""
    whole_study.settled(monkeypatch.setattr)
    networks = lambda runs, store: {run.method: [(run, Encoder([run.seed], run.protocol))] for run in runs}
    monkeypatch.setattr(embeddings, "kept", networks)
    printed, drawn = perform(path, tmp_path, monkeypatch, results=whole_store)
    assert drawn >= FIGURES.get(path.stem, 0)
    assert not re.search(r"not (judged|settled) yet", printed, flags=re.IGNORECASE)
    assert path.stem != "choices" or re.search(r"\d+ of 35 numbers lies? outside", printed)
    assert not re.search(r"not yet run", printed, flags=re.IGNORECASE)


def test_the_front_page_and_the_readme_give_the_answer_of_a_judged_study(whole_store, monkeypatch, capsys):
    whole_study.settled(monkeypatch.setattr)
    monkeypatch.setenv("DTCL_RESULTS", str(whole_store))
    monkeypatch.chdir(ROOT / "book")
    monkeypatch.syspath_prepend(ROOT / "book")
    import refresh

    first, *rest = refresh.answer()
    verdict = claims.judged(1)
    again = claims.second_study()
    said, compared, means = claims.headline(verdict, claims.judged(2), again)
    assert said.endswith(" anew on 50 other seeds.") and "With dropout 0.25 the main claim is " in said
    assert (
        verdict.word in ("confirmed", "partly confirmed")
        and first.startswith(f"{claims.MAIN}<br>{said}<br>{compared.caption}\n")
        and means in rest
    )
    cells = compared.frame.to_numpy().tolist()
    assert first.splitlines()[2] == f"| {' | '.join(compared.frame)} |"
    assert [name.partition(", ")[2] for name in compared.frame] == ["", *["dropout 0.1", "dropout 0.25"] * 3], "both studies"
    assert first.splitlines()[4:] == [f"| {' | '.join(line)} |" for line in cells] and "better" in cells[1][1]
    assert any("reported / dropout 0.1 / dropout 0.25" in line for line in rest)
    assert sum("\\*" in line for line in rest) == 3, "two methods are marked, and the caption says what a mark means"
    perform_text("intro")
    shown = capsys.readouterr().out
    assert said in shown and means in shown and repr(compared) in shown and "not yet run" not in shown
    assert repr(tables.beside(tables.studies_of_table_1(Evidence()))) in shown


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"sigma": 25}, "Here sigma is 25, with 1 %"),
        ({"label_fraction": 0.1}, "sigma is 50, with 10 %"),
        ({"seeds": 2, "methods": "standard,dw_pairs"}, "The parameters of this page ask for others."),
    ],
)
def test_the_answer_of_table_1_stands_above_its_own_rows_alone(parameters, told, whole_store, tmp_path, monkeypatch):
    whole_study.settled(monkeypatch.setattr)
    printed, _ = perform(ROOT / "book/main_table.ipynb", tmp_path, monkeypatch, results=whole_store, **parameters)
    assert told in printed and "Main claim" not in printed
    assert ("mean over 2 seeds" in printed) is ("seeds" in parameters), "fresh seeds are not these"


def test_table_2_is_shown_for_other_seeds_too(whole_store, tmp_path, monkeypatch):
    whole_study.settled(monkeypatch.setattr)
    printed, _ = perform(ROOT / "book/label_fractions.ipynb", tmp_path, monkeypatch, results=whole_store, seeds=2)
    assert "mean over 2 seeds" in printed and "over the four baselines' mean" in printed


@pytest.mark.parametrize("whole", [True, False])
def test_the_front_page_says_what_it_has_where_the_grid_is_missing(whole, tmp_path, monkeypatch, capsys):
    """On the committed rows of fresh seeds, with and without those of another dropout rate on ten of them."""
    rows, asked = Store(ROOT / "results").rows(), [run for name in ("fresh", "choices") for run in REGISTRY[name].runs("paper")]
    changed = {run.key for run in asked if run.protocol.dropout == 0.25}
    kept = [rows[run.key] for run in asked if run.key in rows and (whole or run.key not in changed)]
    Store(tmp_path).add(
        [{name: value for name, value in row.items() if name not in ("encoder", "shard", "digest")} for row in kept]
    )
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    monkeypatch.chdir(ROOT / "book")
    space = perform_text("intro")
    shown = capsys.readouterr().out
    assert "**Other open settings move the leads too**" in shown and "**The rule for verdicts can err.**" not in shown
    others = [change for change in space["moves"] if change != "dropout 0.25"]
    assert f"Each of {len(others)} settings was changed alone" in shown and (len(others) < len(space["moves"])) is whole
    assert "fifty further seeds: not finished (0 of 300 runs on fresh seeds)" in shown and "Why two rates" not in shown
    assert "Some runs come from another kind of processor" in shown
    first = claims.judged(1)
    batch = Evidence().fresh.query("discriminator == 'batch'").assign(discriminator="global")
    assert f"{claims.swapped(batch).counts} instead of {first.counts}" in shown
    five = claims.judged(5)
    told = "can no longer be confirmed" if five.word == claims.NOT_YET and five.lost else five.counts
    assert f"{five.word}: {told}".replace(" ", "\u00a0") in shown


@pytest.mark.parametrize("page", ["intro", "trust", "execution"])
def test_a_page_of_text_renders_without_any_run(page, tmp_path, monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    monkeypatch.chdir(ROOT / "book")
    perform_text(page)


@pytest.fixture(scope="module")
def laptop_store(tmp_path_factory):
    """A store with every run of the preset laptop, made up."""
    store = Store(tmp_path_factory.mktemp("laptop"))
    runs = {run.key: run for experiment in REGISTRY.values() for run in experiment.runs("laptop")}
    store.add([whole_study.row(run) for run in runs.values()])
    return store.path


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_chapter_shows_the_short_runs_of_a_laptop(path, laptop_store, tmp_path, monkeypatch):
    printed, _ = perform(path, tmp_path, monkeypatch, results=laptop_store, preset="laptop")
    assert re.search(r"made up|3 of 3 seeds are complete|[1-9]\d* of \d+ runs", printed), (
        "it names these rows' device or counts them"
    )


def test_every_open_setting_is_on_the_page_of_settings():
    """A field of `Protocol` whose comment says that it is open."""
    told = "".join(c.source for c in cells(ROOT / "book/choices.ipynb"))
    comment = r"(?:    # .*\n)*"
    found = re.findall(rf"    # open.*\n{comment}    (\w+):", (ROOT / "dtcl_core/config.py").read_text())
    assert len(found) > 25 and "probe_features" in found
    assert not [name for name in found if f'"{name}": (' not in told]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_chapter_without_any_run_still_renders(path, tmp_path, monkeypatch):
    printed, _ = perform(path, tmp_path, monkeypatch)
    assert re.search(r"\b(0 of \d+|no) seeds are complete|no run is asked for", printed)
    assert re.search(r"not (yet run|judged yet|settled yet)", printed, flags=re.IGNORECASE)
    assert REPORTED_BY.get(path.stem, "") in printed
    for number in JUDGES.get(path.stem, ()):
        assert f"({claims.judged(number).counts})" in printed and "waits for " in printed


@pytest.mark.parametrize("path", [p for p in CHAPTERS if p not in EXPERIMENTS], ids=lambda p: p.stem)
def test_other_chapters_take_other_parameters(path, tmp_path, monkeypatch):
    others = {"speed": {"device": "cuda"}, "adding_a_method": {"tau": 0.2}}
    _, drawn = perform(path, tmp_path, monkeypatch, **others.get(path.stem, {"seed": 3}))
    assert drawn >= FIGURES.get(path.stem, 0)


@pytest.mark.parametrize(
    ("chapter", "parameters", "message"),
    [
        ("main_table", {"label_fraction": 0.5}, "label_fraction must be one of 0.01, 0.1, 1.0, got 0.5"),
        ("data", {"sigmas": "0,x"}, "sigmas must be numbers"),
        ("main_table", {"sigma": "0,50"}, "sigma must be a number >= 0, got '0,50'"),
        ("data", {"seed": "a"}, "seed must be an integer >= 0, got 'a'"),
        ("speed", {"device": "tpu"}, "device must be one of 'cpu', 'cuda', got 'tpu'"),
        ("method", {"num_domains": 0}, "num_domains must be an integer >= 1, got 0"),
        ("method", {"tau_alpha": 0}, "tau_alpha must be a number > 0"),
        ("method", {"seed": 10**30}, r"seed must be an integer >= 0 and <= 9\.22337e\+18, got 10{30}\.$"),
    ],
)
def test_a_mistaken_parameter_stops_the_chapter_before_training(chapter, parameters, message, tmp_path, monkeypatch):
    if "preset" not in parameters and chapter == "main_table":
        parameters = {"preset": "smoke", "compute": True, **parameters}
    with pytest.raises(ValueError, match=message):
        perform(ROOT / "book" / f"{chapter}.ipynb", tmp_path, monkeypatch, **parameters)
    assert not (tmp_path / "results").exists()


def test_a_whole_number_is_the_number_that_it_is(tmp_path, monkeypatch):
    """`-p label_fraction 1` gives an integer."""
    assert "100 % of the labels" in perform(ROOT / "book/main_table.ipynb", tmp_path, monkeypatch, label_fraction=1)[0]


def test_papermill_shows_the_mistake(tmp_path, monkeypatch):
    with pytest.raises(
        papermill.PapermillExecutionError,
        match=r"unknown parameter 'presett' \(did you mean 'preset'\?\): this chapter takes .*preset",
    ):
        execute(ROOT / "book/main_table.ipynb", tmp_path, monkeypatch, presett="smoke", compute=True)
    assert not (tmp_path / "results").exists()


REACH = """
import socket
for reach in (
    lambda: socket.create_connection(("198.51.100.1", 9), timeout=1),  # an address that belongs to nobody (RFC 5737)
    lambda: socket.socket().connect_ex(("198.51.100.1", 9)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("198.51.100.1", 9)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("198.51.100.1", 9)),
):
    try:
        reach()
        print("reached")
    except OSError as error:
        print(error)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
print("here")
"""
KEPT = ["a test tried to reach 198.51.100.1"] * 4 + ["here"]


def test_no_process_reaches_another_machine(tmp_path, monkeypatch, capsys):
    exec(REACH, {})
    assert capsys.readouterr().out.splitlines() == KEPT
    child = lambda: subprocess.run([sys.executable, "-c", REACH], capture_output=True, text=True, check=True).stdout
    assert child().splitlines() == KEPT
    (tmp_path / "sitecustomize.py").write_text("print('there before')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.environ["DTCL_TESTS_OFFLINE"], prepend=os.pathsep)
    assert child().splitlines() == ["there before", *KEPT]
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(REACH)])
    nbformat.write(source, tmp_path / "chapter.ipynb")
    assert text_of(cells(execute(tmp_path / "chapter.ipynb", tmp_path, monkeypatch))[0]).splitlines() == KEPT


def book_of_one_chapter(folder, source):
    """A book with the project's configuration; returns how to build it."""
    (folder / "book").mkdir()
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copytree(ROOT / "book/_ext", folder / "book/_ext")
    shutil.copy(ROOT / "book/references.bib", folder / "book")
    (folder / "book/_toc.yml").write_text("format: jb-book\nroot: chapter\n")
    cells = [nbformat.v4.new_markdown_cell("# A chapter"), nbformat.v4.new_code_cell(source)]
    chapter = nbformat.v4.new_notebook(cells=cells)
    chapter.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(chapter, folder / "book/chapter.ipynb")
    build = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(folder / "book"), "-W", "--keep-going"]
    return lambda: subprocess.run(build, capture_output=True, text=True, cwd=folder, check=False, timeout=300)


def test_a_failing_chapter_fails_the_build(tmp_path):
    """At once, whatever other chapters are at, and the build says which line it was. One that works does not: the next tests build some."""
    build = book_of_one_chapter(tmp_path, "raise RuntimeError('deliberate')")
    slow = (
        (tmp_path / "book/chapter.ipynb").read_text().replace("raise RuntimeError('deliberate')", "import time; time.sleep(600)")
    )
    (tmp_path / "book/slow.ipynb").write_text(slow)
    names = [f"page_{n}" for n in range(5)]  # Sphinx reads six pages and more beside each other
    for name in names:
        (tmp_path / f"book/{name}.md").write_text("# A page\n")
    pages = "".join(f"  - file: {name}\n" for name in ["slow", *names])
    (tmp_path / "book/_toc.yml").write_text(f"format: jb-book\nroot: chapter\nchapters:\n{pages}")
    done = build()
    assert done.returncode != 0 and "RuntimeError: deliberate" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def test_a_built_page_shows_the_rows_of_the_day_and_opens_in_colab_where_it_installs_itself(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    import refresh

    store = Store(tmp_path / "elsewhere")
    monkeypatch.setenv("DTCL_RESULTS", str(store.path))
    source = "from dtcl_core import results\nprint(f'on average {results.load().test_ood.mean():.3f}')"
    build = book_of_one_chapter(tmp_path, source)
    config = tmp_path / "_config.yml"
    url = "https://github.com/owner/name"
    config.write_text(config.read_text().replace('url: ""', f"url: {url}"))
    assert yaml.safe_load(config.read_text())["repository"]["url"] == url
    for seed, test_ood, shown in ((0, 0.25, "0.250"), (1, 0.75, "0.500")):
        store.add([row(Run(seed=seed), accuracy=test_ood)])
        done = build()
        assert done.returncode == 0, done.stderr
        page = (tmp_path / "_build/html/chapter.html").read_text()
        assert re.findall(r"on average (\d\.\d+)", page) == [shown], "the rows of the store as it is when the book is built"
    assert "https://colab.research.google.com/github/owner/name/blob/main/book/chapter.ipynb" in page
    document = nbformat.read(tmp_path / "book/chapter.ipynb", as_version=4)
    refresh.with_install(document, url)
    refresh.with_install(document, url)  # once is enough
    assert [url in cell.source for cell in document.cells] == [True, False, False]
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(document.cells[0].source, {})
    assert ran == [], "where the package is, nothing is installed"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(document.cells[0].source, {})
    assert [command[0] for command in ran] == ["git", sys.executable] and url in ran[0]
    refresh.with_install(document, "")
    assert url not in nbformat.writes(document)


def test_the_six_lines_run():
    first, *others = re.findall(r"```python\n(.*?)```", (ROOT / "book/losses_at_a_glance.md").read_text(), flags=re.DOTALL)
    space = {}
    exec(first, space)
    assert space["loss"].isfinite() and len([line for line in first.splitlines() if line]) == 6
    given = {"penalty": dtcl_core.MMDPenalty(3), "LinearDiscriminator": dtcl_core.LinearDiscriminator, "epochs": 1}
    given |= {"encoder": torch.nn.Identity(), "batches_in_order": space["z0"].split(8), "all_domains": space["domains"]}
    given |= {"its_batches": given["batches_in_order"], "its_domains": space["domains"]}
    given["model"] = LogisticRegression().fit(space["z0"], space["domains"])
    space |= given
    for block in others:
        exec(block, space)
    assert others and space["loss_fn"](space["z0"], space["z1"], space["domains"]).isfinite()


def test_the_code_in_the_readme_runs(monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(ROOT / "results"))
    space = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL):
        exec(block, space)
    assert space["loss"].isfinite() and len(space["frame"])


@pytest.mark.parametrize(
    "changed",
    [
        "dtcl_core/losses.py",
        "dtcl_core/engine/native.cpp",
        "dtcl_core/engine/cuda.cu",
        "dtcl_study/reported.csv",
        "results/rows/b.jsonl",
        "results/traces/a.json",
        "results/encoders/a.npz",
        "benchmarks/cuda.csv",
        "DTCL_RESULTS",
        "elsewhere/rows/b.jsonl",
    ],
)
def test_pages_are_read_again_when_code_or_results_change(tmp_path, monkeypatch, changed):
    monkeypatch.syspath_prepend(ROOT / "book/_ext")
    import fresh_numbers

    monkeypatch.setattr(fresh_numbers, "ROOT", tmp_path)
    monkeypatch.delenv("DTCL_RESULTS", raising=False)
    if changed.startswith("elsewhere"):
        monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / "elsewhere"))
    for name in ("dtcl_core/losses.py", "dtcl_study/reported.csv", "results/rows/a.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")

    class Environment:
        found_docs = {"intro", "main_table"}

    env = Environment()
    assert fresh_numbers.outdated(None, env, set(), set(), set()) == ["intro", "main_table"]
    assert fresh_numbers.outdated(None, env, set(), set(), set()) == []
    if changed == "DTCL_RESULTS":
        monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / "elsewhere"))
    else:
        (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / changed).write_text("new")
    assert fresh_numbers.outdated(None, env, set(), set(), set()) == ["intro", "main_table"]


def test_every_name_of_the_reference_exists():
    """Sphinx would answer with an error of its own, after minutes."""
    pages = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"auto(?:module|class|function|data):: ([\w.]+)(?:\n   :members: (.*))?", pages)
    assert len(named) > 10
    for name, members in named:
        found = pydoc.locate(name)
        assert found is not None, name
        for member in filter(None, re.split(r",\s*", members)):
            assert hasattr(found, member), f"{name}.{member}"


def test_a_star_stands_on_what_validation_selects_in_tables_3_to_8():
    (cell,) = (c for c in cells(ROOT / "book/temperature.ipynb") if c.id == "temperature-numbers")
    parts = re.split(r"\*\*Table (\d)\*\*", text_of(cell))[1:]
    shown, paper = dict(zip(map(int, parts[::2]), parts[1::2])), reported.temperature_tables()
    selected = Study("temperature", "paper", quiet=True).selected()
    assert shown.keys() == tables.TEMPERATURE_TABLES.keys()
    for number, (method, metric) in tables.TEMPERATURE_TABLES.items():
        theirs = {"method": method, "metric": metric, **PAPER_SELECTS[method]}
        (told,) = paper.value[(paper[list(theirs)] == pd.Series(theirs)).all(axis=1)]
        ours = selected[selected.method == method][metric].mean()
        assert sorted(re.findall(r"\*(\d\.\d{3})", shown[number])) == sorted((f"{told:.3f}", f"{ours:.3f}")), number
