"""The built book in a real browser: no console error, no broken link, no missing image, no network, no page too wide."""

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from tornado.websocket import websocket_connect

from dtcl_study.study import Study

ROOT = Path(__file__).resolve().parents[2]
BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
PAGES = [path.stem for path in [*(ROOT / "book").glob("*.md"), *(ROOT / "book").glob("*.ipynb")]]
WIDTHS = {"desktop": 1300, "phone": 390}


def test_continuous_integration_has_a_browser():
    assert BROWSER or not os.environ.get("CI"), "the browser tests would be skipped"


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """The book, built as a reader builds it: a warning is an error, and so is a quarter of an hour."""
    if ready := os.environ.get("DTCL_BUILT_BOOK"):
        return Path(ready).resolve()
    for _ in range(2):  # a port that was free when a kernel chose it may be another's when it starts: tests start many kernels
        out = tmp_path_factory.mktemp("book")  # a second build in the same folder would read no page again, and warn of none
        command = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(ROOT / "book"), "-W", "--keep-going"]
        command += ["--path-output", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=900)
        if not done.returncode:
            return out / "_build" / "html"
        warnings.warn(f"a build of the book failed. {causes(done.stdout + done.stderr)}", stacklevel=1)
    pytest.fail(done.stdout[-3000:] + done.stderr[-3000:] + causes(done.stdout + done.stderr), pytrace=False)


def causes(log):
    """The lines of a build's log that name a fault: its end says only that there was one."""
    named = [line for line in log.splitlines() if re.search(r"warning|error|exception|died|killed", line, re.IGNORECASE)]
    noise = ("IPKernelApp", "ParserConfig(", "in building your book")
    named = [line[:300] for line in dict.fromkeys(named) if not any(word in line for word in noise)]
    return "\nWhat failed:\n" + "\n".join(named)[:1000]


class Links(HTMLParser):
    """What a page refers to, and the names it can be referred to by."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.names = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found[k] for k in ("id", "name") if found.get(k)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("img", "script", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("href") and found.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(found["href"])


def test_every_page_is_built_and_every_link_leads_somewhere(book):
    pages = {path: Links(path.read_text()) for path in book.glob("*.html")}
    assert set(PAGES) <= {path.stem for path in pages}
    checked = 0
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            if re.match(r"(https?:|mailto:|data:|javascript:)", link):
                continue
            target, _, anchor = link.partition("#")
            file = (path.parent / target.split("?")[0]).resolve() if target else path
            assert file.exists(), f"{path.name} refers to {link}"
            if anchor and file in pages:
                assert anchor in pages[file].names, f"{path.name} refers to {link}"
            checked += 1
    assert checked > 20 * len(PAGES)


@pytest.mark.parametrize("page", ["intro", "references"])
def test_the_paper_is_a_click_away(book, page):
    assert "https://arxiv.org/abs/2601.07748" in Links((book / f"{page}.html").read_text()).links


def test_pages_load_nothing_from_elsewhere(book):
    for path in book.glob("*.html"):
        assert not [src for src in Links(path.read_text()).loaded if re.match(r"(https?:)?//", src)], path.name


@pytest.mark.parametrize(("name", "figures"), {"main_table": 1, "temperature": 6, "projector_head": 4}.items())
def test_a_figure_says_where_it_comes_from(book, name, figures):
    page = (book / f"{name}.html").read_text()
    lines = re.findall(r'<p class="dtcl-source">(.*?)</p>', page, flags=re.DOTALL)
    assert len(lines) == figures and 'id="rerun-it"' in page and "colab" not in page, "no address, no button"
    for line in lines:
        first, *others = re.findall('href="([^"]+)"', line)
        assert others == [f"rows/{name}.csv", "#rerun-it"] and f'id="{first[1:]}"' in page
    rows = pd.read_csv(book / f"rows/{name}.csv")
    shown = [name, "fresh"] if name == "main_table" else [name]
    assert set(rows.key) == {key for experiment in shown for key in Study(experiment, "paper", quiet=True).frame.key}
    assert len(rows) == rows.key.nunique() * rows.label_fraction.nunique()


@pytest.mark.parametrize("name", ["choices", "label_fractions", "global_vs_batch"])
def test_a_page_without_figures_has_its_rows_too(book, name):
    (line,) = re.findall(r'<p class="dtcl-source">(.*?)</p>', (book / f"{name}.html").read_text(), flags=re.DOTALL)
    assert re.findall('href="([^"]+)"', line) == [f"rows/{name}.csv"] and (book / f"rows/{name}.csv").is_file()


class Tab:
    """A page of a running Chromium, over its debugging protocol."""

    def __init__(self, connection):
        self.connection, self.numbers, self.events = connection, itertools.count(1), []

    async def call(self, method, **parameters):
        number = next(self.numbers)
        await self.connection.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(await asyncio.wait_for(self.connection.read_message(), 60))
            if answer.get("id") == number:
                return answer.get("result", {})
            self.events.append(answer)

    async def value(self, expression):
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")


def problems(events):
    """Errors that a page told of while it loaded."""
    for event in events:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield said["exceptionDetails"].get("exception", {}).get("description", "exception")
        elif method == "Runtime.consoleAPICalled" and said["type"] == "error":
            yield str([a.get("value", a.get("description")) for a in said["args"]])
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            yield said["entry"]["text"] + " " + said["entry"].get("url", "")
        elif method == "Network.loadingFailed" and not said.get("canceled"):
            yield f"failed to load: {said.get('errorText')}"


async def visit(port, url, widths):
    """What went wrong on a page; at each width the images that did not load, those without a text, and how much too wide it is; what it drew."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
    with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
        address = json.load(answer)["webSocketDebuggerUrl"]
    tab = Tab(await websocket_connect(address, max_message_size=2**28))
    for domain in ("Runtime", "Log", "Network", "Page"):
        await tab.call(f"{domain}.enable")
    seen = {}
    for name, width in widths:
        await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        if not seen:
            await tab.call("Page.navigate", url=url)
            end = time.monotonic() + 60
            while time.monotonic() < end and not await tab.value(
                "document.readyState == 'complete' && location.href != 'about:blank'"
            ):
                await asyncio.sleep(0.1)
        await tab.value("window.MathJax?.startup?.promise")
        await tab.value("new Promise(done => setTimeout(done, 300))")
        assert await tab.value("window.innerWidth") == width
        seen[name] = (
            await tab.value("[...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src)"),
            await tab.value("[...document.images].filter(i => !i.closest('a,button,header') && !i.alt).map(i => i.src)"),
            await tab.value("document.documentElement.scrollWidth - window.innerWidth"),
        )
    drawn = await tab.value(
        "({pictures: document.querySelectorAll('div.cell_output img').length,"
        " math: document.querySelectorAll('mjx-container').length})"
    )
    await tab.call("Page.close")
    tab.connection.close()
    return list(problems(tab.events)), seen, drawn


@pytest.fixture(scope="session")
def port():
    """The debugging port of a headless Chromium without network."""
    profile = Path(tempfile.mkdtemp(prefix="dtcl-browser-"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
             "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1", "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-component-update",
             "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
    process = subprocess.Popen([BROWSER, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told, end = profile / "DevToolsActivePort", time.monotonic() + 60
    while not (told.exists() and told.read_text().count("\n")):
        assert time.monotonic() < end and process.poll() is None, "the browser did not start"
        time.sleep(0.1)
    yield int(told.read_text().splitlines()[0])
    process.terminate()
    process.wait(20)
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(scope="session")
def visited(book, port):
    """What `visit` says of every page, some at a time: most of a visit is waiting."""

    async def every():
        room = asyncio.Semaphore(6)

        async def one(place, page):
            widths = [*WIDTHS.items()][:: 1 if place % 2 else -1]  # half of the pages are loaded at each width, then resized
            async with room:
                return await visit(port, (book / f"{page}.html").as_uri(), widths)

        return await asyncio.gather(*(one(*each) for each in enumerate(PAGES)))

    return dict(zip(PAGES, asyncio.run(every())))


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_is_sound_in_a_browser(visited, page):
    errors, seen, drawn = visited[page]
    assert not errors
    for width, (broken, silent, over) in seen.items():
        assert not broken, f"{width}: images that did not load"
        assert not silent, f"{width}: images without a text for those who cannot see them"
        assert over <= 1, f"{width}: {over} pixels too wide"
    assert drawn["pictures"] >= {"temperature": 6, "main_table": 1, "intro": 1, "data": 2}.get(page, 0), "figures are missing"
    if page == "method":
        assert drawn["math"] > 5, "equations were not typeset"
