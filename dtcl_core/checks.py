"""Checks of values that users give: a wrong one is refused in one sentence that names it and what is accepted."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def shown(value: Any) -> str:
    """A value as a message shows it: its `repr`, cut where it is long."""
    if isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) > 10**30:
        return "a number of more than thirty digits"
    return text if len(text := repr(value)) <= 80 else f"{text[:77]}..."


def closest(name: Any, known: Iterable[str]) -> str:
    """ " (did you mean ...?)", with the known name that is most like `name`; empty if none is like it."""
    names = [other for other in known if isinstance(other, str)]
    found = difflib.get_close_matches(name, names, 1) if isinstance(name, str) else []
    return f" (did you mean {found[0]!r}?)" if found else ""


def checked_number(
    name: str, value: Any, low: float = 0.0, high: float = math.inf, *, above: bool = False, integer: bool = False
) -> int | float:
    """`value` as an int if `integer`, else as a float: 3 becomes 3.0, and -0.0 becomes 0.0.

    Args:
        name, value: what it is called, and what was given.
        low, high: the range accepted.
        above: whether `low` itself is refused.
        integer: whether only whole numbers are accepted.

    Raises:
        ValueError: naming the value and what is accepted.
    """
    good = isinstance(value, Real) and not isinstance(value, bool)
    try:
        good = good and math.isfinite(value) and (value > low if above else value >= low) and value <= high
    except OverflowError:  # an integer may be too large for a float
        good = False
    if good and integer and not isinstance(value, Integral):
        good = float(value).is_integer()
    if not good:
        kind = "an integer" if integer else "a number"
        bound = f"{'>' if above else '>='} {low:g}" + ("" if high == math.inf else f" and <= {high:g}")
        raise ValueError(f"{name} must be {kind} {bound}, got {shown(value)}.")
    return int(value) if integer else float(value) + 0.0  # + 0.0 turns -0.0 into 0.0


def checked_numbers(name: str, value: Any, *, length: int | None = None, **each: Any) -> tuple[int | float, ...]:
    """`value` as a tuple of `length` numbers, or of one or more, each checked by `checked_number` with the options `each`."""
    if not isinstance(value, (tuple, list)) or not value or (length and len(value) != length):
        raise ValueError(f"{name} must be {length or 'one or more'} numbers, got {value!r}.")
    return tuple(checked_number(f"each of {name}", one, **each) for one in value)


def checked_choice(name: str, value: Any, accepted: tuple[Any, ...] | list[Any]) -> Any:
    """The accepted value that `value` is, or a ValueError that names both (1 is 1.0 here, and True is not 1)."""
    for choice in accepted:
        numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in (value, choice))
        if value is choice or ((numbers or type(value) is type(choice)) and value == choice):
            return choice
    known = ", ".join(map(repr, accepted))
    raise ValueError(f"{name} must be one of {known}, got {shown(value)}{closest(value, accepted)}.")
