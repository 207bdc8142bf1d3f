"""What newcomers look for: containers, templates and hooks name commands and tools that are there."""

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import yaml

import dtcl_core
from dtcl_study.cli import parsed
from dtcl_study.commands import COMMANDS

ROOT = Path(dtcl_core.__file__).resolve().parent.parent
MAKE = (ROOT / "Makefile").read_text()
TARGETS = set(re.search(r"^\.PHONY:(.*)$", MAKE, re.MULTILINE).group(1).split())


def made(text: str) -> set[str]:
    """The targets of `make` that a text asks for."""
    return set(re.findall(r"\bmake ([a-z-]+)", text)) | set(re.findall(r'"make", "([a-z-]+)"', text))


def test_every_target_has_a_rule():
    assert {f"{target}:" for target in TARGETS} <= set(re.findall(r"^[a-z-]+:", MAKE, re.MULTILINE))


def test_containers_run_the_two_commands():
    image = (ROOT / "Dockerfile").read_text()
    assert made("\n".join(line for line in image.splitlines() if line[:1] != "#")) == {"book", "test"}
    assert made(image) <= TARGETS
    editor = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    assert made(editor["postCreateCommand"]) == {"book"}
    assert re.search(rf"^FROM \S+ AS {editor['build']['target']}$", image, re.MULTILINE)
    assert (ROOT / ".devcontainer" / editor["build"]["dockerfile"]).exists()


def test_hooks_are_the_tools_of_the_development_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {shlex.split(hook["entry"])[0] for hook in local["hooks"]}
    there = {re.split(r"[<>=\[]", name)[0] for name in (*project["dev"], *project["test"])}
    assert local["repo"] == "local" and tools <= there and {"ruff", "coverage", "pre-commit"} <= there


def test_templates_ask_with_commands_that_there_are():
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert [form.stem for form in forms] == ["bug", "config", "wrong_result"]
    for form in (yaml.safe_load(f.read_text()) for f in forms if f.stem != "config"):
        assert form["name"] and form["description"] and form["body"]
        for part in form["body"]:
            for line in re.findall(r"`dtcl ([^`]*)`", part["attributes"].get("description", "")):
                assert line == "--version" or (line.split()[0] in COMMANDS and parsed(line.split()))


def test_this_version_has_its_changes():
    heading = rf"^## {re.escape(dtcl_core.__version__)} \((\d{{4}}-\d\d-\d\d|not released)\)$"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def text_files_opened(source: str) -> list[str]:
    """Calls that read or write text without saying in which encoding."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        told = {keyword.arg for keyword in node.keywords}
        modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        modes += [k.value.value for k in node.keywords if k.arg == "mode" and isinstance(k.value, ast.Constant)]
        of_text = name in ("read_text", "write_text") or (ast.unparse(node.func) == "open" and not any("b" in m for m in modes))
        if of_text and "encoding" not in told and "/proc/" not in ast.unparse(node):
            found.append(ast.unparse(node))
    return found


def test_every_text_file_is_opened_with_an_encoding():
    """On a system whose own is another, what is written here would not be read."""
    assert text_files_opened("open('a')\npath.read_text()\nopen('b', 'wb')\npath.write_text('x', encoding='utf-8')") == [
        "open('a')",
        "path.read_text()",
    ]
    files = [p for folder in ("dtcl_core", "dtcl_study", "book", "benchmarks", "examples") for p in (ROOT / folder).rglob("*.py")]
    assert len(files) > 60
    assert not {str(p): calls for p in files if (calls := text_files_opened(p.read_text(encoding="utf-8")))}
