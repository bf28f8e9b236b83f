"""Reproduction: the paper's numbers are in their places, and a command runs what is missing and nothing else."""

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from settings import command, contents, of_subject

from prism.artifacts.estimates import of_mean
from prism.artifacts.results import Data, NetworkRun, Result, Subject
from prism.artifacts.store import ClipStore
from prism.condensation.options import CondenseConfig
from prism.config import as_dict, with_options
from prism.errors import ArtifactError, ConfigError, DivergedError
from prism.ingestion.options import IngestConfig
from prism.machine.run import Run
from prism.recipes import read_recipe, shipped_recipes
from prism.reports.rows import Row
from prism.reports.text import grouped
from prism.reproduction import run
from prism.reproduction.compare import COLUMNS, Comparison, curves_of
from prism.reproduction.paper import CEILING, FLOOR, Cell, exhibit, exhibits
from prism.reproduction.plan import Line, plan
from prism.reproduction.run import reproduce
from prism.selection.select import select

TINY = """
[condense]
iterations = 3
static_iterations = 2
lr = 1.0
width = 4
[select]
width = 4
epochs = 1
[evaluate]
width = 4
epochs = 1
seeds = 2
"""


def cell_of(name: str, data: str, label: str, vpc: int = 1) -> Cell:
    cells = exhibit(name).cells[data]
    (found,) = [one for one in cells if (one.label, one.vpc, one.network) == (label, vpc, "convnet3d")]
    return found


@pytest.mark.parametrize(
    ("name", "data", "label", "vpc", "mean", "std"),
    [
        ("table1", "MiniUCF", "PRISM", 1, 17.9, 0.3),
        ("table1", "MiniUCF", "Herding", 10, 33.7, 0.3),
        ("table1", "HMDB51", "K-Center", 5, 5.2, 0.4),
        ("table1", "HMDB51", CEILING, 0, 25.4, 0.2),
        ("table3", "Kinetics-400", "DM", 5, 9.1, 0.9),
        ("table3", "SSv2", "Wang et al.", 1, 4.0, 0.1),
        ("table5", "HMDB51", "8 initial key-frames", 1, 5.6, 0.2),
        ("table6a", "MiniUCF", "without insertion", 1, 15.8, 1.2),
        ("table6b", "HMDB51", "random positions", 1, 6.8, 0.2),
        ("table6c", "MiniUCF", "L2 distance", 1, 15.7, 0.7),
        ("table6d", "HMDB51", "without cool-down", 1, 6.3, 0.3),
        ("tableb", "MiniUCF", "ε = 0.3", 1, 16.9, None),
        ("tablec", "HMDB51", "0", 1, 6.8, None),
        ("initialisation", "HMDB51", "every frame trainable", 1, 5.69, None),
        ("figure3", "MiniUCF", "PRISM", 30, 34.4, None),
        ("figure3", "HMDB51", "DM", 10, 12.1, 0.4),
    ],
)
def test_the_papers_numbers_stand_where_the_paper_prints_them(name, data, label, vpc, mean, std):
    assert cell_of(name, data, label, vpc).printed == (f"{mean:g}" if std is None else f"{mean:.1f} ± {std:.1f}")


def test_the_papers_storage_stands_beside_its_scores():
    cells = [cell_of("table1", "MiniUCF", "PRISM", 10), cell_of("table1", "HMDB51", "Wang et al.", 5)]
    assert [cell.mib for cell in cells] == [324, 455]
    assert cells[0].share_percent == pytest.approx(100 * 324 / 9810)


@pytest.mark.parametrize("name", exhibits())
def test_a_table_has_its_floor_and_its_ceiling_in_every_column_recipes_for_rows_and_no_cell_twice(name):
    for data, cells in exhibit(name).cells.items():
        columns = {(cell.network, cell.metric) for cell in cells}
        ends = {(cell.label, cell.network, cell.metric) for cell in cells}
        assert ends >= {(end, *column) for column in columns for end in (FLOOR, CEILING)}
        assert {cell.recipe for cell in cells} - {""} <= set(shipped_recipes())
        assert len(set(cells)) == len(cells), f"{name}, {data}"
        assert any(cell.printed for cell in cells)


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("name", exhibits())
def test_every_table_has_a_plan_at_every_scale(make_store, tmp_path, name, scale):
    store = make_store(train=[30, 30], random_test_windows=3)
    lines = plan(exhibit(name), [store], tmp_path, scale=scale, seeds=2)
    assert len(lines) == len(next(iter(exhibit(name).cells.values())))


def test_a_class_with_too_few_clips_is_refused_before_the_first_step(make_store, tmp_path):
    with pytest.raises(ConfigError, match="'class1' has only 9 for training"):
        reproduce("table1", [make_store(train=[30, 9])], tmp_path / "out", scale="small")
    with pytest.raises(ConfigError, match="clips of 6 frames, 32×32 pixels, are too small for convnet3d"):
        reproduce("table6a", [make_store(num_frames=6, size=(32, 32))], tmp_path / "out", scale="small")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "tabel1"}, r"unknown table 'tabel1'. Did you mean 'table1'\?"),
        ({"scale": "tiny"}, "scale = 'tiny', but it must be one of full, small"),
        ({"seeds": 0}, "seeds = 0, but it must be at least 1"),
        ({"recipes": ["nowhere"]}, "recipe 'nowhere' does not exist"),
        ({"vpc": [2]}, "vpc = 2, but table6a has 1"),
        ({"rows": ["dm"]}, "row = 'dm', but table6a has random, prism, without-insertion, whole"),
        ({"name": "table4", "networks": ["gru"]}, "network = 'gru', but table4 has convnet3d, cnn-gru, cnn-lstm"),
    ],
)
def test_what_cannot_be_reproduced_is_refused(store, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        reproduce(options.pop("name", "table6a"), [store], tmp_path / "out", **options)


@pytest.fixture
def tiny(tmp_path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def reproduced(store: ClipStore, folder: Path, tiny: Path, name: str = "table6a", **options: Any) -> Any:
    return reproduce(name, [store], folder, scale="small", recipes=[tiny], device="cpu", **options)


def sets_of(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if name.endswith(".safetensors")}


@pytest.fixture(scope="module")
def made_once(store, tmp_path_factory) -> Path:
    """What `reproduced` makes of a store with the tiny recipe."""
    folder = tmp_path_factory.mktemp("made")
    recipe = folder / "tiny.toml"
    recipe.write_text(TINY)
    reproduced(store, folder / "out", recipe)
    return folder / "out"


@pytest.fixture
def made(made_once, tmp_path) -> None:
    """The folder `out` of a reproduction that is done, as if the test had begun with it."""
    shutil.copytree(made_once, tmp_path / "out")


@pytest.mark.usefixtures("made")
def test_a_table_is_written_as_markdown_and_page_with_both_numbers_in_each(store, tmp_path, tiny):
    found = reproduced(store, tmp_path / "out", tiny)
    written = contents(tmp_path / "out")
    assert [line.cell.label for line in found.lines] == [FLOOR, "with insertion", "without insertion", CEILING]
    assert all(line.ours and "(2)" in line.score for line in found.lines)
    assert found.summary_table().row_count == 4
    ours = f"{100 * found.lines[2].ours.mean:.1f} ± {100 * found.lines[2].ours.spread:.1f} (2)"
    for suffix in ("md", "html"):
        text = written[found.file(f".{suffix}").name].decode()
        assert "15.8 ± 1.2" in text
        assert ours in text


@pytest.mark.usefixtures("made")
def test_what_is_done_is_not_done_again_and_other_tables_share_it(store, tmp_path, tiny, monkeypatch):
    before = contents(tmp_path / "out")
    made: list[Path] = []
    make = run._run
    monkeypatch.setattr(run, "_run", lambda step, *at: made.append(step.path) or make(step, *at))
    reproduced(store, tmp_path / "out", tiny)
    assert made == []
    assert contents(tmp_path / "out") == before
    reproduced(store, tmp_path / "out", tiny, "table6b")
    assert [path.name.partition("-vpc")[0] for path in made] == ["random-insertion"] * 2


@pytest.mark.usefixtures("made")
def test_a_table_goes_on_with_a_result_that_another_one_has_begun_under_its_own_names(store, tmp_path, tiny):
    for file in (tmp_path / "out").rglob("prism-vpc1-seed0.convnet3d.json"):
        Result.load(file).of_seeds(range(1)).save(file)
    found = reproduced(store, tmp_path / "out", tiny, "table6b", rows=["prism"])
    assert [len(line.row.first.runs) for line in found.lines] == [2]
    assert "Caution" in found.to_markdown()
    for text in (found.to_markdown(), found.file(".html").read_text()):
        assert "conflicting gradients" in text
        assert "with insertion" not in text


@pytest.mark.usefixtures("made")
def test_rows_and_networks_are_chosen_by_name_and_have_a_table_of_their_own(store, tmp_path, tiny):
    found = reproduced(store, tmp_path / "out", tiny, rows=["prism", "random"])
    assert [line.cell.name for line in found.lines] == ["random", "prism"]
    assert found.path.name.endswith("-prism-random")
    assert found.file(".md").exists()
    tiny.write_text(f"{TINY}hidden = 8")  # An option that ConvNet3D lacks.
    found = reproduced(store, tmp_path / "out", tiny, "table4", rows=["dm"], networks=["cnn-gru"], dry_run=True)
    assert [(line.cell.network, found.path.name[-11:]) for line in found.lines] == [("cnn-gru", "-dm-cnn-gru")]


def test_an_executor_gives_the_same_sets_and_numbers_with_what_it_cannot_part_made_here(
    make_store, tmp_path, tiny
):
    class Counting(ThreadPoolExecutor):
        submitted = 0

        def submit(self, *item: Any, **options: Any) -> Any:
            Counting.submitted += 1
            return super().submit(*item, **options)

    store = make_store(train=10)
    here = reproduced(store, tmp_path / "here", tiny, "table3", vpc=[1])
    with Counting(2) as executor:
        there = reproduced(store, tmp_path / "there", tiny, "table3", vpc=[1], executor=executor)
    labels = [line.cell.label for line in here.lines]
    assert {"Wang et al.", "PRISM"} <= set(labels)
    # Two classes have no top-5 score.
    assert [line.ours for line in here.lines] == [None] * len(labels)
    assert "up to five classes have no top-5 score" in here.to_markdown()
    scores = [[[one.scores for one in line.row.first.runs] for line in made.lines] for made in (here, there)]
    assert scores[0] == scores[1]
    assert sets_of(tmp_path / "here") == sets_of(tmp_path / "there")
    # The classes of the sets of DM and PRISM, and the networks of each result.
    assert Counting.submitted == 2 * 2 + 2 * len(list((tmp_path / "there").rglob("*.convnet3d.json")))


def scores_of(folder: Path, row: str, seeds: int) -> dict[int, list[float]]:
    """What the result files of a row say, by the set's seed."""
    found = {}
    for seed in range(seeds):
        (path,) = folder.rglob(f"{row}-vpc1-seed{seed}.convnet3d.json")
        found[seed] = [one["scores"]["top1"] for one in json.loads(path.read_text())["runs"]]
    return found


def test_the_mean_is_that_over_the_sets_with_its_standard_error_and_a_lead_over_the_floor(
    store, tmp_path, tiny, monkeypatch
):
    found = reproduced(store, tmp_path / "out", tiny, seeds=3)
    floor, ours, _, whole = found.lines
    scores, of_floor = (scores_of(tmp_path / "out", row, 3) for row in ("prism", "random"))
    means, of_floor = ([fmean(some) for some in each.values()] for each in (scores, of_floor))
    error, lead = stdev(means) / 3**0.5, of_mean([a - b for a, b in zip(means, of_floor, strict=True)])
    assert (ours.ours.scores, ours.lead) == (scores, lead)
    assert (ours.ours.mean, ours.ours.spread) == pytest.approx((fmean(means), error))
    assert floor.lead is whole.lead is None
    markdown = found.to_markdown()
    assert f"| {100 * fmean(means):.1f} ± {100 * error:.1f} (3 × 2) | " in markdown
    assert f"± {100 * whole.ours.spread:.1f} (2) | – |" in markdown
    assert str(lead).replace("[", "\\[").replace("]", "\\]") in markdown
    assert "those of one seed paired" in markdown

    # Where one of the floor's sets diverges, the mean of those that are left would pass for that of the row.
    def diverging(*_: Any) -> Any:
        raise DivergedError("the networks have diverged.")

    for path in (tmp_path / "out").rglob("random-vpc1-seed2.*"):
        path.unlink()
    monkeypatch.setattr(run, "select", diverging)
    found = reproduced(store, tmp_path / "out", tiny, seeds=3)
    floor = found.lines[0]
    assert (floor.ours, floor.score) == (None, "2 of 6 diverged")
    assert not any(line.lead for line in found.lines)


@pytest.mark.usefixtures("made")
def test_a_set_that_was_made_otherwise_is_refused_by_name(store, tmp_path, tiny):
    tiny.write_text(TINY.replace("iterations = 3\nstatic", "iterations = 4\nstatic"))
    says = r"prism-vpc1-seed0.safetensors' belongs to another run: its .*iterations is 3"
    with pytest.raises(ArtifactError, match=says):
        reproduced(store, tmp_path / "out", tiny)


def test_sets_that_start_from_another_one_are_taken_where_a_table_goes_on(store, tmp_path, tiny):
    select(store, output=tmp_path / "chosen")
    tiny.write_text(TINY.replace("[condense]", f'[condense]\ninit = "{tmp_path / "chosen"}"'))
    found = [reproduced(store, tmp_path / "out", tiny, rows=["prism"]).to_markdown() for _ in range(2)]
    assert found[0] == found[1]


def test_one_divergence_costs_one_number_not_the_table(store, tmp_path, tiny, monkeypatch):
    original, score = run.condense, run.evaluate

    def diverging(store: ClipStore, config: CondenseConfig, how: Run) -> Any:
        if config.insertion == "never":
            raise DivergedError("the loss of class 'class0' is not finite at iteration 2.")
        return original(store, config, how)

    def half(*given: Any, **options: Any) -> Any:
        result = score(*given, **options)
        if options["label"].startswith("with insertion"):
            replace(result, runs=result.runs[1:]).save(given[3].output)
            raise DivergedError("the network of seed 0 diverged.")
        return result

    monkeypatch.setattr(run, "condense", diverging)
    monkeypatch.setattr(run, "evaluate", half)
    found = reproduced(store, tmp_path / "out", tiny)
    assert [line.score for line in found.lines[1:3]] == ["1 of 2 diverged", "2 of 2 diverged"]
    assert [bool(line.ours) for line in found.lines] == [True, False, False, True]
    text = found.to_markdown()
    assert "| 1 of 2 diverged |" in text
    assert "without insertion, VPC 1: the loss of class 'class0' is not finite at iteration 2." in text


@pytest.mark.parametrize("count", [1, 5, 10])
def test_every_set_has_networks_of_its_own_and_the_rate_of_its_vpc(make_store, tmp_path, count):
    store, chosen = make_store(train=40, random_test_windows=3), {"seeds": 2, "vpc": [count], "rows": ["prism"]}
    places = plan(exhibit("table1"), [store], tmp_path, **chosen)
    ((first, second),) = [place.sets for place in places]
    assert [step.config.network_seed for step in (first, second)] == [0, 1]
    assert {step.config.lr for step in (first, second)} == {{1: 1.0, 5: 25.0, 10: 50.0}[count]}
    assert set(places[0].scores[0].config.all_seeds).isdisjoint(places[0].scores[1].config.all_seeds)
    with pytest.raises(ConfigError, match="random windows of each test video"):  # Before the hours of its sets.
        plan(exhibit("table1"), [make_store(train=40)], tmp_path, **chosen)


def test_a_recipe_sets_the_first_network_of_a_row_but_not_its_seeds(store, tmp_path):
    (recipe := tmp_path / "recipe").write_text("[select]\nembedder_seed = 7\n[condense]\nnetwork_seed = 5\n")
    chosen = {"scale": "small", "seeds": 2, "vpc": [1], "rows": ["herding", "prism"], "recipes": [recipe]}
    herding, prism = (place.sets for place in plan(exhibit("table1"), [store], tmp_path, **chosen))
    assert [(step.config.seed, step.config.embedder_seed) for step in herding] == [(0, 7), (1, 8)]
    assert [(step.config.seed, step.config.network_seed) for step in prism] == [(0, 5), (1, 6)]
    recipe.write_text("[condense]\nseed = 4\n")
    with pytest.raises(ConfigError, match=r"seed = 4 by the recipes, but row 'PRISM' has 0\. Leave it out"):
        plan(exhibit("table1"), [store], tmp_path, **chosen)


def test_training_on_all_clips_is_not_refused_a_recipe_whose_numbers_begin_above_one(make_store, tmp_path):
    (recipe := tmp_path / "recipe").write_text("[condense]\nlr = { 5 = 7.0 }\n")
    chosen = {"vpc": [5], "rows": ["prism", "whole"], "recipes": [recipe]}
    prism, whole = plan(exhibit("table1"), [make_store(train=20, random_test_windows=3)], tmp_path, **chosen)
    assert (prism.sets[0].config.lr, whole.cell.vpc) == (7.0, 0)


def test_a_dry_run_makes_nothing_and_says_the_commands_that_are_missing(store, tmp_path, tiny):
    said = reproduced(store, tmp_path / "out", tiny, dry_run=True).missing
    assert len(said) == 7
    assert all(line.startswith("prism ") for line in said)
    assert not (tmp_path / "out").exists()


def test_a_file_that_has_the_name_of_a_row_is_not_taken_for_its_recipe(store, tmp_path, tiny, monkeypatch):
    (tmp_path / "prism").write_text("not a recipe")
    monkeypatch.chdir(tmp_path)
    assert reproduced(store, tmp_path / "out", tiny, dry_run=True).missing


def test_rows_of_two_stores_of_one_name_stand_apart(store, make_store, tmp_path, tiny):
    stores = [store, make_store(seed=1)]
    assert len({one.name for one in stores}) == 1
    found = reproduce("table6a", stores, tmp_path / "out", scale="small", recipes=[tiny], dry_run=True)
    assert len({column.text(line) for column in COLUMNS for line in found.lines if column.heading == "data"}) == 2


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [({}, True), ({"layout": "folders"}, False), ({"size": 48}, False), ({"official_split": 2}, False)],
)
def test_a_store_of_the_papers_clips_alone_is_set_against_its_numbers(
    make_store, tmp_path, tiny, changed, is_same
):
    made, options = make_store(), with_options(IngestConfig(), read_recipe("miniucf")["ingest"])
    store = ClipStore(made.path, replace(made.header, settings=as_dict(options) | changed), made.sources)
    found = reproduce("table6a", [store], tmp_path, scale="small", recipes=[tiny], dry_run=True)
    assert {(line.data, line.is_same_data) for line in found.lines} == {("MiniUCF", is_same)}
    assert is_same != any("is not the paper's data" in note for note in found.notes)


def test_a_set_is_made_before_every_network_that_scores_it(store, tmp_path, tiny):
    said = "\n".join(reproduced(store, tmp_path, tiny, "table4", dry_run=True).missing)
    sets = set(re.findall(r"\S+\.safetensors", said))
    assert len(sets) == 6
    assert all(said.index(f" -o {path}") < said.index(f"evaluate {path}") for path in sets)


@pytest.mark.usefixtures("made")
def test_a_steps_command_makes_the_same_set(store, tmp_path, tiny):
    places = plan(exhibit("table6a"), [store], tmp_path / "again", scale="small", recipes=[tiny])
    step = places[2].sets[0]
    words = step.command.split()
    step.path.parent.mkdir(parents=True)
    assert command(*words[1:], "--device", "cpu") == 0
    (first,) = (tmp_path / "out").rglob(step.path.name)
    assert first.read_bytes() == step.path.read_bytes()


@pytest.fixture
def line_of(store) -> Callable[..., Line]:
    def build(cell: Cell, ours: list[float], *, is_same_data: bool = True, split: str = "test") -> Line:
        data = Data("store", store.fingerprint, split, 4, 2, {"top1": 0.5}, 1000, 2)
        subject = Subject("condensed", "set", "prism", 2, 4, 100, 10 + cell.vpc, {"seed": 0}, "set", 2)
        runs = tuple(NetworkRun(seed, {"top1": one / 100}, 0.1, 1.0) for seed, one in enumerate(ours))
        result = Result("ours", "clean", subject, data, {"epochs": 5}, runs, {})
        return Line(cell, store, "MiniUCF", is_same_data, (), (), Row((result,)))

    return build


SEVENTEEN = replace(cell_of("table6a", "MiniUCF", "with insertion"), printed="17.9 ± 0.3")


def test_stored_clips_have_a_column_only_where_a_set_holds_more_than_it_shows(line_of):
    plain = line_of(SEVENTEEN, [17.9])
    taken = replace(plain, row=Row((of_subject(plain.row.first, stored_clips=2150),)))
    table = exhibit("table6a")
    alone, beside = (Comparison(table, "full", lines, Path("out")) for lines in ((plain,), (plain, taken)))
    assert "stored clips" not in alone.to_markdown()
    assert "| stored clips |" in beside.to_markdown()
    assert "2,150" in beside.to_markdown()


def test_accuracy_is_drawn_against_compression_with_the_papers_points_on_the_papers_data_only(line_of):
    cells = [cell for cell in exhibit("figure3").cells["MiniUCF"] if cell.label in (FLOOR, "PRISM")]
    lines = [line_of(cell, [9.0, 10.0, 11.0]) for cell in cells]
    (_, _), (ours, printed) = grouped(curves_of(lines), lambda curve: curve.mark.marker)
    assert (ours.name, printed.name, printed.mark.filled) == ("PRISM", "", False)
    assert ours.points == [pytest.approx((1 + vpc / 10, 10, 3**-0.5)) for vpc in (1, 5, 10, 30)]
    assert printed.points[0] == pytest.approx((0.2, 17.9, 0.3), abs=0.01)
    (plot,) = Comparison(exhibit("figure3"), "full", tuple(lines), Path("out")).plots
    assert plot.source.startswith("data:image/svg")
    elsewhere = [line_of(cell, [9.0], is_same_data=False) for cell in cells]
    assert all(curve.mark.filled for curve in curves_of(elsewhere))


@pytest.mark.parametrize(
    ("table", "option"),
    [
        ("select", "vpc = 3"),
        ("select", 'method = "herding"'),
        ("condense", 'method = "static-dynamic"'),
        ("evaluate", 'model = "cnn-gru"'),
    ],
)
def test_a_recipe_that_makes_something_else_than_the_row_says_is_refused(make_store, tmp_path, table, option):
    recipe = tmp_path / "own.toml"
    recipe.write_text(f"[{table}]\n{option}\n")
    with pytest.raises(ConfigError, match=r"by the recipes, but row '.*' has .*\. Leave it out of the recipe\."):
        plan(exhibit("table1"), [make_store(random_test_windows=3)], tmp_path, recipes=[recipe], vpc=[1])


def test_a_recipe_that_makes_two_rows_one_is_refused(make_store, tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text('[condense]\ninsertion = "never"\n')
    with pytest.raises(ConfigError, match=r"prism-.*' and 'without-insertion-.*' are one set by the recipes"):
        plan(exhibit("table6a"), [make_store()], tmp_path, scale="small", recipes=[recipe])


def test_scores_on_other_clips_than_the_papers_are_said(line_of):
    lines = [line_of(SEVENTEEN, [40.0], split=split) for split in ("test", "test-random", "val")]
    said = [" ".join(Comparison(exhibit("table6a"), "full", (line,), Path("out")).notes) for line in lines]
    assert ["Scored on val clips" in text for text in said] == [False, False, True]
    assert not any("Scored on" in text for text in said[:2])


def test_a_caution_stands_once_for_all_sets_of_a_row_and_its_options_go_into_a_recipe(line_of):
    def set_of(seed: int) -> Result:
        scored = zip(line.row.first.runs, (0.7 * seed, 0.7), strict=True)
        runs = tuple(replace(run, seed=run.seed + 2 * seed, train_loss=loss) for run, loss in scored)
        return replace(of_subject(line.row.first, config={"seed": seed}), runs=runs, config={"seeds": 3})

    line = line_of(SEVENTEEN, [40.0, 41.0])
    lines = line, replace(line, row=Row((set_of(0), set_of(1))))
    plain, doubted = ([*Comparison(exhibit("table6a"), "full", (one,), Path("out")).notes] for one in lines)
    (caution,) = [note for note in doubted if "Caution" in note]
    assert re.search(r": 4 of 6 networks are there.* The training loss of 3 of 4 networks ended at 0\.70", caution)
    assert [sum("--recipe" in note for note in notes) for notes in (plain, doubted)] == [0, 1]


def test_cautions_and_failures_say_of_which_data_and_network_they_are(make_store, tmp_path):
    some = plan(exhibit("table4"), [make_store(), make_store(classes=3)], tmp_path, scale="small", rows=["whole"])
    found = Comparison(
        exhibit("table4"), "full", tuple(replace(line, failures=("died.",)) for line in some), tmp_path
    )
    assert f"store ({some[-1].store.fingerprint[:8]}), cnn-lstm, Whole Dataset: died." in [*found.notes][-1]


@pytest.mark.parametrize("name", exhibits())
def test_the_title_of_a_table_names_the_papers(name):
    title = Comparison(exhibit(name), "full", (), Path("out")).sheet.title
    assert re.fullmatch(
        r".+: the paper's ((Table|Figure) \w( \(\w\))?|Tables 1 and 2|Section 4.2|Appendix) and ours", title
    )
