"""What docs/guarantees.md promises names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))


def test_every_promise_in_a_table_names_a_test():
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").partition("## Figures")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) >= 20
    assert all("::test_" in row for row in rows)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file, name):
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
