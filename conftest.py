"""For unit tests, doctests and notebooks alike. `tests/conftest.py` keeps a whole run of the tests on this machine."""


def pytest_collectstart(collector):
    """Chapters are compared by their text: a table's HTML is made of the same texts, and matplotlib may draw an SVG otherwise."""
    if isinstance(getattr(collector, "skip_compare", None), tuple):
        collector.skip_compare += ("text/html", "image/svg+xml")


SLOWEST = ("test_pages", "test_simulated_process", "test_cli", "test_package", "test_book", "test_left_open")


def pytest_collection_modifyitems(items):
    """The slowest files come first, so that no worker is left with one when the others are done."""
    place = {name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
