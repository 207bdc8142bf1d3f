"""For unit tests, doctests and notebooks alike: no test reaches another machine."""

import socket

import pytest


def own_addresses() -> set[str]:
    """Names and addresses of this machine."""
    try:
        return {"localhost", "127.0.0.1", "::1", *socket.gethostbyname_ex(socket.gethostname())[2]}
    except OSError:
        return {"localhost", "127.0.0.1", "::1"}


@pytest.fixture(scope="session", autouse=True)
def offline():
    """No test reaches another machine: not this process, nor those it starts, whose proxies lead nowhere."""
    own = own_addresses()

    def here(name):
        real = getattr(socket.socket, name)

        def checked(self, *arguments):
            address = arguments[-1]
            if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in own:
                raise OSError(f"a test tried to reach {address[0]}")
            return real(self, *arguments)

        return checked

    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, here(name))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            for spelling in (name, name.upper()):
                patch.setenv(spelling, "http://127.0.0.1:9")
        for spelling in ("no_proxy", "NO_PROXY"):
            patch.setenv(spelling, ",".join(sorted(own)))
        yield


def pytest_collectstart(collector):
    """Chapters are compared by their text: a table's HTML is made of the same texts, and matplotlib may draw an SVG otherwise."""
    if isinstance(getattr(collector, "skip_compare", None), tuple):
        collector.skip_compare += ("text/html", "image/svg+xml")


SLOWEST = ("test_pages", "test_simulated_process", "test_cluster", "test_cli", "test_package", "test_book", "test_left_open")


def pytest_collection_modifyitems(items):
    """The slowest files come first, so that no worker is left with one when the others are done."""
    place = {name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
