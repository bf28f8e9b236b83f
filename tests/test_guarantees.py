"""What docs/guarantees.md promises names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROMISES = [
    row.strip("| ").rsplit(" | ", 1)
    for table in re.findall(r"\| promise \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    for row in table.splitlines()
]


def test_promises_are_one_line_and_one_test_each():
    assert len(PROMISES) >= 20
    assert all(re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`", test) for _, test in PROMISES)
    assert len({promise for promise, _ in PROMISES}) == len(PROMISES)


@pytest.mark.parametrize(("file", "name"), re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT))
def test_a_named_test_exists(file, name):
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
