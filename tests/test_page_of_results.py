"""The page of results says what the result files say."""

import json
import sys
from pathlib import Path

import pytest

from prism.artifacts.results import Result

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "results"))
import make  # noqa: E402

PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
COURTS = [path.name for path in (ROOT / "results").iterdir() if path.is_dir() and f"<!-- {path.name} -->" in PAGE]


def test_the_tables_of_the_page_are_those_of_the_files():
    assert make.page(PAGE) == PAGE, "run: python results/make.py --page"
    assert len(PAGE.split()) <= 1500


@pytest.mark.parametrize("court", COURTS)
def test_every_result_is_read_and_the_rows_of_a_table_share_their_networks(court):
    seeds: dict[str, list[int]] = {}
    for file in sorted((ROOT / "results" / court).glob("*.json")):
        row, _, number = file.stem.rpartition("-")
        result = Result.load(file)
        assert row in make.ROWS
        assert result.data.split == "test"
        assert json.loads(file.read_text())["provenance"]["commit"]
        assert seeds.setdefault(number, [one.seed for one in result.runs]) == [one.seed for one in result.runs]
    assert seeds
