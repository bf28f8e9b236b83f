"""Sets that were made alike count by their mean, never by the luckiest of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exhibits import Exhibit, load
from rich.console import Console
from settings import of_subject, refusal_of

import prism
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result, Subject
from prism.errors import ArtifactError, ConfigError
from prism.machine.text_io import printable
from prism.reports.page import build_page, load_results, report, summary_tables
from prism.reports.rows import best_of, cautions_on, columns_of, conclusion_of, lead_over, notes_on, rows_of
from prism.reports.text import grouped

OURS = {0: (0.5, 0.6), 1: (0.6, 0.7), 2: (0.9, 1.0)}
FLOOR = {0: (0.2, 0.3), 1: (0.2, 0.4), 2: (0.3, 0.3)}


@pytest.fixture
def exhibit(tmp_path) -> Exhibit:
    return Exhibit.build(tmp_path / "runs", ["meeting", "parting"])


def made(exhibit: Exhibit, method: str, scores: dict[int, tuple[float, ...]], **changes: Any) -> list[Path]:
    """Results of sets of these seeds, each scored by networks of its own."""
    own, label, num = changes.pop("own", {}), changes.pop("label", method), changes.pop("num", 2)
    return [
        exhibit.save(
            Subject(*names, method, num, 4, 100, 400, {"vpc": 1, "seed": seed, **own}, names[1], num),
            label,
            shares=shares,
            **{"first_seed": 10 * seed, **changes},
        )
        for seed, shares in scores.items()
        for names in [("condensed", f"{method}{seed}{num}")]
    ]


def test_a_set_counts_once_and_leads_by_what_prism_lead_says(exhibit):
    ours, floor = made(exhibit, "prism", OURS), made(exhibit, "random", FLOOR)
    found = rows_of(load([*ours, *floor]))
    assert [(row.first.label, row.role) for row in found] == [("random", "floor"), ("prism", "")]
    best = best_of(found)
    assert best is not None
    assert best is found[1]
    assert best.sample.means == pytest.approx({0: 0.55, 1: 0.65, 2: 0.95})
    assert best.sample.in_percent == "71.7 ± 12.0 (3 × 2)"
    assert lead_over(best, found) == prism.lead(ours, floor)
    texts = [[column.text(row) for column in columns_of(found)[:3]] for row in found]
    lead = str(prism.lead(ours, floor))
    assert texts == [["random (floor)", "28.3 ± 1.7 (3 × 2)", "–"], ["prism", "71.7 ± 12.0 (3 × 2)", lead]]
    assert not any("Caution" in note for note in notes_on(found))


@pytest.mark.parametrize(
    "changes",
    [
        {"own": {"iterations": 5}},
        {"config": {"model": "convnet3d", "width": 64, "epochs": 9, "seed": 0}},
        {"config": {"model": "cnn-gru", "width": 64, "epochs": 500, "seed": 0}},
        {"label": "another"},
        {"protocol": "wang2024"},
        {"split": "val"},
    ],
)
def test_what_was_made_or_scored_otherwise_stands_apart(exhibit, changes):
    first, *_ = made(exhibit, "prism", OURS)
    other = made(exhibit, "prism", {1: (0.6, 0.7)}, **changes)
    loaded = load_results([first, *other])
    parts = grouped(loaded, lambda one: one.group)
    assert [len(one.results) for some in parts for one in rows_of(some)] == [1, 1]
    assert "The best set is" in build_page(loaded)


def test_a_floor_of_other_clips_or_another_network_is_none(exhibit):
    config = {"model": "cnn-gru", "width": 64, "epochs": 500, "seed": 0}
    more = [of_subject(one, num_videos=10, stored_clips=10) for one in load(made(exhibit, "random", FLOOR))]
    other = load(made(exhibit, "random", FLOOR, config=config))
    found = rows_of([*load(made(exhibit, "prism", OURS)), *more, *other])
    best = best_of(found)
    assert best is not None
    assert lead_over(best, found) is None


def test_copies_and_networks_of_several_sets_are_named(exhibit):
    rows = rows_of(load(made(exhibit, "prism", OURS, first_seed=0)))
    said = "2 of 2 networks, by their seeds, score more than one set of “prism”"
    assert any(said in note for note in notes_on(rows))
    copies = [of_subject(one, videos="same") for one in rows[0].results]
    assert any("3 of 3 sets of “prism” hold the same videos" in note for note in notes_on(rows_of(copies)))
    ((_, cautions),) = summary_tables(load(made(exhibit, "dm", OURS, first_seed=0)))
    assert len(cautions) == 1


def test_the_page_shows_one_of_the_sets_and_concludes_from_all(exhibit):
    paths = []
    for seed, shares in OURS.items():
        made_set = exhibit.condensed(f"set{seed}.safetensors")
        own = replace(Result.load(exhibit.of_set(made_set)).subject, config={"vpc": 1, "seed": seed})
        paths.append(exhibit.save(own, "ours", shares=shares, first_seed=10 * seed))
    page = build_page(load_results([*paths, *made(exhibit, "random", FLOOR)]))
    assert "The best row of several sets is “ours”: top-1 71.7 ± 12.0 (3 × 2) %" in page
    assert "set0" in page.partition('class="gallery"')[2].partition("<h3>")[0]
    assert "(set1)" not in page
    assert "Of the sets of a row the first one is shown." in page
    alone = build_page(load_results(paths[:1]))
    assert "The best set is" in alone
    assert "sets of a row" not in alone


@pytest.mark.parametrize("label", ["[bold]<b>x</b>[/nope]", "[small]", "a\nb|c"])
def test_a_label_of_any_letters_heads_a_column_of_leads(exhibit, label):
    results = load([*made(exhibit, "prism", OURS), *made(exhibit, "herding", FLOOR, label=label)])
    ((table, _),) = summary_tables(results, label)
    (console := Console(record=True, width=200)).print(table)
    assert f"lead over “{printable(label)}”" in console.export_text()


def test_the_headline_compares_with_the_floor_that_it_quotes(exhibit):
    floors = [*made(exhibit, "random", FLOOR), *made(exhibit, "random", {3: (0.9, 1.0)}, label="other")]
    said = conclusion_of(rows_of(load([*made(exhibit, "prism", OURS), *floors])))
    assert said.endswith(", not above the floor (95.0 % in 100 B).")


def test_rows_lead_the_row_that_is_named_with_as_many_clips_if_there_is_one(exhibit):
    ours, rival = made(exhibit, "prism", OURS), made(exhibit, "herding", FLOOR)
    more = made(exhibit, "herding", {0: (0.9, 0.9), 1: (0.8, 0.9), 2: (0.9, 1.0)}, own={"vpc": 2}, num=4)
    page = report([*ours, *rival, *more], exhibit.folder / "page.html", over="herding").read_text()
    assert page.count(f">{prism.lead(ours, rival)}<") == 1
    alone = rows_of(load([*ours, *more]))
    (row,) = [row for row in alone if row.first.label == "prism"]
    assert lead_over(row, alone, "herding").mean == pytest.approx(row.sample.mean - 0.9)
    assert not any("lead over" in column.heading for column in columns_of(alone))
    says = "over = 'k-center', but the labels of the results are 'herding', 'prism'."
    assert refusal_of(ConfigError, report, [*ours, *rival], exhibit.folder / "a.html", over="k-center") == says


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "other"},  # Of the same seed, but made by another version, or of another store.
        {"config": {}, "fingerprint": "other"},
        {"config": {"vpc": 1, "seed": 1}, "num_videos": 10, "stored_clips": 10},
    ],
)
def test_sets_that_only_seem_to_be_made_alike_stand_apart(exhibit, changes):
    (one,) = load(made(exhibit, "prism", {0: (0.5, 0.6)}))
    if changes.get("config") == {}:
        one = of_subject(one, config={})
    assert [len(found.results) for found in rows_of([one, of_subject(one, **changes)])] == [1, 1]


def test_random_clips_of_another_store_are_not_the_best_of_several_sets(exhibit):
    (subset,) = load([exhibit.of_store("subset", 2, shares=(0.2, 0.3, 0.4))])
    subset = of_subject(subset, path="elsewhere", fingerprint="elsewhere")
    (ours,) = load(made(exhibit, "prism", {0: (0.9, 0.9)}))
    assert "“prism”" in conclusion_of(rows_of([subset, ours]))


def test_the_conclusion_lies_on_the_scale(exhibit):
    ceiling = Result.load(exhibit.of_store("full", 8, shares=(0.75, 0.85)))
    results = [*load(made(exhibit, "prism", OURS)), *load(made(exhibit, "random", {0: (0.8, 0.8)})), ceiling]
    said = conclusion_of(rows_of(results))
    assert said.endswith(
        "(3 × 2) % in 100 B, not above the floor (80.0 % in 100 B), below the ceiling (80.0 % in 48 KiB)."
    )
    floor = {0: (0.8, 0.6), 1: (0.5, 0.7), 2: (0.6, 0.7)}
    level = [*load(made(exhibit, "prism", OURS)), *load(made(exhibit, "random", floor))]
    lead = lead_over((rows := rows_of(level))[-1], rows)
    assert lead.interval[0] < 0 < lead.interval[1]
    assert f"not separated from the floor (65.0 % in 100 B; {lead})" in conclusion_of(rows)
    # A floor of more clips is that of other sets.
    more = Subject("store", "", "random", 3, 4, 100, 400, {"vpc": 2}, "more", 3)
    assert conclusion_of(rows_of([*results, *load([exhibit.save(more, "random", shares=(0.9,))])])) == said


def test_rows_of_one_label_are_told_apart_by_their_files(exhibit):
    sets = [
        exhibit.of_set(exhibit.condensed(f"{name}.safetensors", spread=s), "prism", first_seed=10 * k)
        for k, (name, s) in enumerate({"paper": 0.3, "ours": 0.5}.items())
    ]
    found = [Result.load(path) for path in sets]
    apart = [of_subject(one, config={"vpc": 1, "lr": k}) for k, one in enumerate(found)]
    assert {row.name for row in rows_of(apart)} == {"prism (paper)", "prism (ours)"}
    assert [row.name for row in rows_of(apart[:1])] == ["prism"]


def test_rows_have_names_that_differ_wherever_their_sets_lie(exhibit):
    (found,) = load([exhibit.of_set(exhibit.condensed("set.safetensors"), "prism")])
    elsewhere = [of_subject(found, path=f"{k}/sets/set.st", config={"vpc": 1, "lr": k}) for k in range(2)]
    assert {row.name for row in rows_of(elsewhere)} == {f"prism ({k}/sets/set)" for k in range(2)}
    files = [exhibit.folder / name for name in ("plain.json", "shifted.json")]
    scored = [replace(found, file=at, config={**found.config, "shift": k}) for k, at in enumerate(files)]
    assert {row.name for row in rows_of(scored)} == {"prism (plain)", "prism (shifted)"}
    assert any("0 (“prism (plain)”) and 1 (“prism (shifted)”)" in said for said in cautions_on(rows_of(scored)))


def test_every_network_of_a_random_subset_counts_as_a_set(exhibit):
    (subset,) = load([exhibit.of_store("subset", 3, shares=(0.2, 0.3, 0.4))])
    assert rows_of([subset])[0].sample.in_percent == "30.0 ± 5.8 (3 × 1)"
    parts = [replace(subset, runs=subset.runs[:2]), replace(subset, runs=subset.runs[2:])]
    with pytest.warns(UserWarning, match="same in every set"):
        assert prism.lead(parts, [subset]).mean == 0
    with pytest.raises(ArtifactError, match="two results of 'subset' are of one set"):
        prism.lead([subset, parts[0]], [subset])


def test_a_set_that_is_gone_gives_its_place_to_the_next_one(exhibit):
    paths = []
    for seed in range(3):
        made_set = exhibit.condensed(f"set{seed}.safetensors", spread=0.3 + 0.1 * seed)
        own = Result.load(exhibit.of_set(made_set, "ours", first_seed=10 * seed))
        content = CondensedSet.load(made_set).fingerprint
        subject = replace(own.subject, config={"vpc": 1, "seed": seed}, fingerprint=content)
        paths.append(exhibit.save(subject, "ours", first_seed=10 * seed))
    assert "ours (set0)" in build_page(load_results(paths))
    (exhibit.folder / "set0.safetensors").unlink()
    page = build_page(load_results(paths))
    gallery = page.partition('class="gallery"')[2].partition("<h3>")[0]
    assert "ours (set1)" in gallery
    assert "ours (set2)" not in gallery
    assert "cannot be shown" in page


def test_a_terminal_of_80_characters_shows_every_number_and_obeys_no_name(exhibit, capsys):
    from rich.console import Console

    label = "[bold]\x1b[31m-label-that-is-long-and-has-no-space"
    gru = {"model": "cnn-gru", "width": 64, "hidden": 128, "epochs": 500, "seed": 0}
    ours, paths = {seed: (0.1 + seed / 2, 0.2 + seed / 2) for seed in (0, 1)}, []
    for config in ({}, {"config": gru}, {"split": "val"}):
        paths += made(exhibit, "prism", ours, label=label, **config)
        paths += made(exhibit, "random", {0: (0.3, 0.3), 1: (0.1, 0.1)}, **config)
    tables = summary_tables(load(paths))
    for table, _ in tables:
        Console(width=80).print(table)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert said.count("40.0 ± 25.0 (2 × 2)") == said.count("+20.0") == len(tables) == 3
    for words, times in {"val, ": 1, "test, ": 2, "cnn-gru, width 64, hidden 128": 1, "chance 50 %": 3}.items():
        assert said.count(words) == times
    assert "[bold]" in said
    assert "\x1b" not in said


def test_a_lead_without_an_interval_is_explained_in_the_notes(exhibit):
    ours, floor = made(exhibit, "prism", {0: (0.5,), 1: (0.7,)}), made(exhibit, "random", {0: (0.3,), 1: (0.5,)})
    rows = rows_of(load([*ours, *floor]))
    assert columns_of(rows)[2].text(rows[1]) == "+20.0 [–]"
    assert any("because it is the same in every set" in note for note in notes_on(rows))
