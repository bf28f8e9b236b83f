"""The page of a ranking: its tables, its plot, and sentences that say who ranks as well as whom."""

import csv
import io
from dataclasses import replace

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from orders import ranking_of
from rich.console import Console

from prism.artifacts.rankings import Ranking
from prism.errors import OutputError, ResultError
from prism.networks.options import NETWORKS
from prism.reports.page import report
from prism.reports.plots import Panel, ranking_plot
from prism.reports.rankings import (
    beside,
    plot,
    rank_rows,
    ranking_sheets,
    summary_table,
    to_csv,
    verdicts,
    write_tables,
)
from prism.reports.sheet import markdown

NUM = 12


def noisy(strength: float, sets: int = 5, seed: int = 0) -> torch.Tensor:
    """Scores of candidates 0.1, 0.14, … on sets with noise of their own."""
    draw = torch.Generator().manual_seed(seed)
    scores = 0.1 + 0.04 * torch.arange(NUM)[None, :, None].expand(sets, NUM, 1)
    return (scores + strength * torch.randn(scores.shape, generator=draw)).clamp(0, 1)


FULL = noisy(0.002, sets=2, seed=9)[..., 0].T


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    return ranking_of(FULL, good=noisy(0.01), blind=noisy(1.0, seed=1), same=noisy(0.01, seed=2))


def test_the_verdicts_say_who_ranks_better_and_who_as_well(ranking):
    better, as_well = verdicts(ranking)
    assert better.startswith("good ranks better than blind: the difference of their τ is +0.")
    assert as_well.startswith("same may rank as well as good, for the interval holds 0: the difference")
    (turned,) = verdicts(ranking_of(FULL, same=noisy(0.01, seed=2), good=noisy(0.01)))
    assert turned.startswith("good may rank as well as same, for the interval holds 0: the difference")


def test_a_first_kind_that_ranks_worse_is_said_to():
    (verdict,) = verdicts(ranking_of(FULL, blind=noisy(1.0, seed=1), good=noisy(0.01)))
    assert verdict.startswith("good ranks better than blind: the difference of their τ is -0.")


def test_a_ranking_without_a_rival_says_what_is_missing():
    (verdict,) = verdicts(ranking_of(FULL, good=noisy(0.01)))
    assert verdict.startswith("No other sets stand beside. Random clips may rank as well")


def test_the_rows_hold_the_measures_and_the_seconds_that_were_saved(ranking):
    good, _, _, full = rank_rows(ranking)
    assert (good.seconds, good.saved, good.make_seconds) == (NUM, 8 * NUM, 50)
    assert good.values["tau"] > 0.8
    assert sum(good.picks.values()) == 5
    assert (full.name, full.found, full.saved, full.clips) == ("full", None, 0, 500)


def test_a_time_that_is_not_recorded_is_no_time(ranking):
    first, *others = ranking.sets
    forgotten = replace(ranking, sets=(replace(first, make_seconds=0.0), *others))
    assert rank_rows(forgotten)[0].make_seconds == 50
    none = replace(ranking, sets=tuple(replace(one, make_seconds=0.0) for one in ranking.sets))
    assert rank_rows(none)[0].make_seconds == 0


def test_of_many_picks_the_table_names_two_and_the_csv_all():
    table = torch.zeros(4, NUM, 1)
    table[torch.arange(4), torch.tensor([3, 1, 3, 7])] = 1
    ranking = ranking_of(FULL, spread=table)
    assert "candidate3 (2), candidate1 (1), 1 other" in markdown(ranking_sheets(ranking)[0])
    assert "candidate3 (2), candidate1 (1), candidate7 (1)" in to_csv(ranking)


def test_one_network_on_all_clips_is_not_set_against_itself():
    ranking = ranking_of(FULL[:, :1], good=noisy(0.01))
    assert [row.name for row in rank_rows(ranking)] == ["good"]


def test_the_table_has_an_interval_for_every_measure_and_notes_for_every_number(ranking):
    sets, candidates = ranking_sheets(ranking)
    text = markdown(sets)
    assert text.startswith("# Do sets rank 12 candidates as all clips of store do?")
    # Three measures of three kinds, and two verdicts.
    assert text.count("\\[") == 11
    for said in (
        "Scored on 100 val clips",
        "95 % interval of 2,000 bootstrap draws",
        "A candidate picked at random",
    ):
        assert said in text
    assert "Caution" not in text
    first = markdown(candidates).splitlines()[4]
    assert first.startswith("| candidate11 |")
    assert "(5)" in first


def test_test_clips_and_trainings_that_diverged_are_said(ranking):
    on_test = replace(ranking, data=replace(ranking.data, split="test"))
    lost = replace(on_test, trials=(replace(ranking.trials[0], score=None), *ranking.trials[1:]))
    notes = ranking_sheets(lost)[0].notes
    assert "Caution: scored on test clips. Report no score of a candidate that was picked here." in notes
    assert "Caution: networks of candidate0 diverged, which counts as 0 %." in notes


def test_sets_of_another_store_are_a_caution():
    ranking = ranking_of(FULL, ours=noisy(0.01, sets=1), theirs=noisy(0.01, sets=1, seed=1))
    (ours, theirs), said = ranking.sets, "Caution: “theirs-0”: the set was made from another store"
    assert said not in "".join(ranking_sheets(ranking)[0].notes)
    elsewhere = replace(theirs, subject=replace(theirs.subject, made_from="another"))
    assert said in "".join(ranking_sheets(replace(ranking, sets=(ours, elsewhere)))[0].notes)


def test_one_network_on_one_set_is_a_caution():
    notes = ranking_sheets(ranking_of(FULL, good=noisy(0.01, sets=1)))[0].notes
    assert any(note.startswith("Caution: one network on one set") for note in notes)


def test_the_csv_has_unrounded_numbers(ranking):
    rows = list(csv.DictReader(io.StringIO(to_csv(ranking))))
    assert [row["set"] for row in rows] == ["good", "blind", "same", "full"]
    found = ranking.agreements["good"]
    assert float(rows[0]["tau"]) == found.values["tau"]
    assert (float(rows[0]["rho_low"]), float(rows[0]["rho_high"])) == found.interval("rho", 0.95)
    assert rows[3]["tau_low"] == rows[3]["saved_seconds"] == ""


def test_the_same_ranking_gives_the_same_picture(ranking):
    assert plot(ranking).svg == plot(ranking).svg
    assert b"<svg" in plot(ranking).svg


@pytest.mark.parametrize("name", ["$x_", "Ключ"])
def test_no_name_but_a_plain_one_enters_the_picture(ranking, name, monkeypatch):
    seen = []
    set_title = Axes.set_title

    def noted(axes: Axes, text: str, **look: object) -> None:
        seen.append(text)
        set_title(axes, text, **look)

    monkeypatch.setattr(Axes, "set_title", noted)
    named = tuple(replace(one, name=name) for one in ranking.sets)
    plot(replace(ranking, sets=named[:5], trials=tuple(t for t in ranking.trials if t.set < 5)))
    assert seen[0].startswith("kind 1\n")


@pytest.mark.parametrize("count", [1, 4])
def test_any_number_of_kinds_has_a_picture(ranking, count):
    panel = {"name": "a", "title": "τ 1", "deviations": (1.0, 2.0), "networks": ("convnet3d", "own")}
    one = Panel(full=(10.0, 20.0), scores=(10.0, 10.0), picked=frozenset({1}), **panel)
    assert ranking_plot([one] * count, 10.0).width > 300


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_picture_names_every_network_within_its_width(count, monkeypatch):
    networks, within = (*NETWORKS.homes, "own"), []

    def noted(figure: Figure, *given: object, **how: object) -> None:
        save(figure, *given, **how)
        ends = figure.legends[0].get_window_extent().intervalx / figure.dpi
        within.append(ends.min() >= 0 and ends.max() <= figure.get_figwidth())

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", noted)
    scores = tuple(map(float, range(len(networks))))
    ranking_plot([Panel("a", "τ 1", scores, scores, scores, networks, frozenset())] * count, 10.0)
    assert within == [True]


def test_no_name_of_a_candidate_is_obeyed_by_the_terminal(ranking):
    names = ["w[/x]", "wide[big]", "\x1b[31mred\n", *list(ranking.candidates)[3:]]
    candidates = dict(zip(names, ranking.candidates.values(), strict=True))
    console = Console(width=80, file=io.StringIO())
    # Those that diverge are named below the table.
    trials = tuple(replace(one, score=None) for one in ranking.trials)
    console.print(summary_table(replace(ranking, candidates=candidates, trials=trials)))
    assert all(name in console.file.getvalue() for name in ("w[/x]", "wide[big]", "\\x1b[31mred\\n"))


def test_the_tables_lie_beside_the_ranking_and_the_page_shows_them(ranking, tmp_path):
    path = tmp_path / "ranking.json"
    ranking.save(path)
    write_tables(ranking, path)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        ["ranking.json", *(one.name for one in beside(path))]
    )
    page = report([path], tmp_path / "page.html").read_text()
    assert "Do sets rank 12 candidates" in page
    assert "The candidates, by their scores on all clips" in page
    assert "data:image/svg+xml" in page


def test_a_ranking_cannot_take_the_place_of_its_tables(tmp_path):
    with pytest.raises(OutputError, match=r"but tables take .csv. Try .json"):
        beside(tmp_path / "ranking.csv")


def test_no_page_shows_an_unfinished_ranking(ranking, tmp_path):
    replace(ranking, trials=ranking.trials[:-1]).save(tmp_path / "ranking.json")
    with pytest.raises(ResultError, match="not finished"):
        report([tmp_path / "ranking.json"], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
