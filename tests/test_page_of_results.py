"""The pages of results say what the result files say."""

import sys
from pathlib import Path

import pytest

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.estimates import Estimate, doubts_of
from prism.artifacts.results import Result

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "results"))
import tables  # noqa: E402

PAGES = {path.name: path.read_text(encoding="utf-8") for path in tables.PAGES}
FOLDERS = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
MADE = ("method", "vpc", "iterations", "relative_lr", "initial_keyframes", "keyframe_scale", "objective")
SCORED = sorted(FOLDERS - {"bench", "gpu", "metric", "sets", "uses", "__pycache__"})


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_tables_of_a_page_are_those_of_the_files(page):
    assert tables.page(page) == page, "run: python results/make.py --page"
    assert sum(any(map(str.isalnum, word)) for word in page.split()) <= 1500


def test_every_folder_of_results_is_shown_on_a_page(monkeypatch):
    shown, load = set[str](), Result.load
    monkeypatch.setattr(Result, "load", lambda file: shown.add(file.parent.name) or load(file))
    assert [*map(tables.page, PAGES.values())] == [*PAGES.values()]
    assert shown >= {*SCORED}


def test_rows_stand_by_their_bytes_and_lead_whole_clips_of_as_many_after_the_epochs_in_which_they_were_learned():
    lines = tables.in_equal_bytes("grid-words-375-epochs").splitlines()[2:]
    sizes = [int(line.split(" | ")[2].replace(",", "")) for line in lines if line.startswith("|")]
    assert sizes == sorted(sizes)
    five = tables.results_of("grid-words-vpc5", "herding")
    sparse = tables.results_of("grid-words-vpc10", "herding-budget")
    assert tables.bytes_of(sparse) < tables.bytes_of(five)
    assert sum(str(tables.lead(sparse, five)) in line for line in lines) == 1
    learned = tables.results_of("grid-words-vpc16", "packed-cross-entropy")
    assert sum(f" {tables.top1(learned)} " in line for line in lines) == 1


@pytest.mark.parametrize("folder", SCORED)
def test_every_result_is_read_and_those_of_a_folder_and_of_a_row_differ_in_seeds_alone(folder):
    facts: dict[str, object] = {}
    for file in sorted((ROOT / "results" / folder).glob("*.json")):
        row, _, number = file.stem.rpartition("-")
        result = Result.load(file)
        assert row in tables.ROWS
        assert result.data.split == "test" or folder.startswith("rates-")
        assert result.provenance["commit"]
        made = [result.subject.config.get(option) for option in MADE]
        same = {number: [one.seed for one in result.runs], "data": result.data.fingerprint, row: made}
        same |= {} if row.startswith("all") else {"training": {**result.config, "seed": 0}}
        assert all(facts.setdefault(name, fact) == fact for name, fact in same.items())
    assert facts


@pytest.mark.parametrize("folder", SCORED)
def test_the_sets_of_a_row_share_neither_videos_nor_networks(folder):
    every = filter(None, (tables.results_of(folder, row) for row in tables.ROWS))
    # A caution of one result begins with its label, one of what several share with a number.
    assert [doubt for found in every for doubt in doubts_of(found) if doubt[0] != "“"] == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / "results" / "sets").rglob("*.safetensors")), ids=lambda file: file.stem
)
def test_a_set_that_is_kept_is_the_one_that_was_scored(file):
    result = Result.load(ROOT / "results" / file.parent.name / f"{file.stem}.json")
    assert CondensedSet.load(file).fingerprint == result.subject.fingerprint


def test_leads_are_certain_by_holms_rule_over_all_of_a_table():
    # Holm's levels for four are 0.0125, 0.0167, 0.025 and 0.05: the third fails, and so the fourth does.
    leads = [Estimate(mean, 1.0, 30) for mean in (2.1, 3.5, -2.9, 2.2)]
    assert [0.01 < one.p_value < 0.05 for one in leads] == [True, False, False, True]
    assert tables.certain(leads) == [False, True, True, False]
    assert tables.certain([]) == []


def test_no_lead_of_networks_that_had_not_learned_their_videos_has_a_star():
    default, published = (tables.results_of("ucf101-21", row) for row in ("two-quarter", "published"))
    assert [tables.is_unlearned(found) for found in (default, published)] == [False, True]
    pairs = {"over": (default, published), "behind": (published, default)}
    assert all(tables.certain([tables.lead(*pair) for pair in pairs.values()]))
    said = tables.leads_of(pairs)
    assert not any("*" in one for one in said.values())
    assert tables.footnote(said) == ["", "No \\* among 2 leads."]
