"""How much the fault tests do: a short form with every run of the tests, a long one with `make faults`."""

import os
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("PRISM_FAULTS") == "long"


def either(short: T, long: T) -> T:
    """What fits the form that was asked for."""
    return long if LONG else short
