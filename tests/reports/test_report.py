"""The report shows what the files say, names what is missing, and needs nothing beside itself."""

import base64
import io
import re
import weakref
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exhibits import HOSTILE, HOSTILE_NAMES, Exhibit, load
from PIL import Image
from rich.console import Console
from settings import of_subject, refusal_of

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.static_dynamic import KERNEL, StaticDynamicEncoding
from prism.artifacts.results import Result, Subject
from prism.errors import ConfigError
from prism.reports import plots
from prism.reports.page import report, summary_tables
from prism.reports.rows import columns_of, notes_on, role_of, rows_of
from prism.reports.text import grouped, printable
from prism.reports.videos import Tile, encode, with_strips


@pytest.fixture
def exhibit(tmp_path) -> Exhibit:
    return Exhibit.build(tmp_path / "runs", ["meeting", "parting"])


def page_of(results: list[Path]) -> str:
    return report(results, results[0].parent / "page.html", overwrite=True).read_text(encoding="utf-8")


def test_a_page_has_the_name_of_one(exhibit):
    results = exhibit.everything()
    for name in ("page.txt", "page.json", "page.html.pdf"):
        said = refusal_of(ConfigError, report, results, exhibit.folder / name)
        assert said.endswith(f"{name}' would be a page in HTML. Choose a name that ends in .html.")
        assert not (exhibit.folder / name).exists()
    for name in ("page", "page.HTM", "page.txt.html"):
        assert report(results, exhibit.folder / name).exists()


class Words(HTMLParser):
    """The text and the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.links = "", [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.text += data


def test_the_page_begins_with_its_conclusion_then_shows_the_videos_then_the_table(exhibit):
    page = page_of(exhibit.everything())
    words = Words(page).text
    for text in ("90.0 ± 5.8 (3)", "6 (3.00)", "a guess scores 50.", "subset (floor)", "full (ceiling)"):
        assert text in words
    said = words[words.index("The best set is") :]
    assert said.startswith("The best set is “PRISM”: top-1 50.0 ± 5.8 (3) % in 18.")
    assert said.partition("KiB")[2].startswith(
        ", above the floor (30.0 % in 12 KiB), below the ceiling (90.0 % in 48 KiB), not above chance (50 %)."
    )
    assert page.index("The best set is") < page.index('class="gallery"') < page.index('<table class="results">')
    assert "<h1>store</h1>" in page
    header = exhibit.folder / "store" / "store.json"
    header.write_text(header.read_text().replace('"settings": {}', '"settings": {"name": "Moving signs"}'))
    assert "<h1>Moving signs</h1>" in page_of(exhibit.everything())
    assert "fingerprint" in words
    assert "a digest of all clips, labels and splits" in words
    assert "The protocol clean normalises" in words


def test_rows_count_storage_as_the_paper_does(exhibit):
    rows = rows_of(load([exhibit.of_set(exhibit.condensed("set.safetensors"))]))
    texts = {column.heading: column.text(rows[0]) for column in columns_of(rows)}
    assert texts["% of full"] == f"{100 * 6 / 64:.3g}"
    assert texts["key-frames"] == "6 (3.00)"


def test_stored_clips_have_a_column_and_a_note_only_where_a_set_holds_more_than_it_shows(exhibit):
    subject = Subject("condensed", "takes.safetensors", "random", 2, 16, 1000, 4000, {"takes": 0}, "of takes", 86)
    plain, console = exhibit.everything(), Console(width=80, file=io.StringIO(), force_terminal=False)
    taken = exhibit.save(subject, "takes")
    assert "tored clips" not in page_of(plain)
    words = Words(page_of([*plain, taken])).text
    assert "stored clips" in words
    assert "86" in words.split()
    assert "each epoch shows a random subset of them" in words
    for paths, has_column in ((plain, False), ([*plain, taken], True)):
        console.file = io.StringIO()
        for table, _ in summary_tables(load(paths)):
            console.print(table)
        said = console.file.getvalue()
        assert ("stored" in said) == has_column
        assert max(map(len, said.splitlines())) <= 80


def test_clips_of_a_copy_of_the_store_are_its_ceiling_and_those_of_another_one_are_not(exhibit):
    result = Result.load(exhibit.of_store("full", 8))
    assert role_of(of_subject(result, path="copy")) == "ceiling"
    assert role_of(of_subject(result, fingerprint="of other clips, which lie in its place now")) == ""


def test_splits_protocols_and_data_are_never_put_in_one_table(exhibit, tmp_path):
    made = exhibit.condensed("set.safetensors")
    other = Exhibit.build(tmp_path / "others", ["a", "b", "c"])
    paths = [
        exhibit.of_set(made),
        exhibit.of_set(made, split="val"),
        exhibit.of_set(made, protocol="wang2024"),
        other.of_store("full", 12),
    ]
    assert [len(group) for group in grouped(load(paths), lambda one: one.group)] == [1, 1, 1, 1]
    page = page_of(paths)
    assert page.count('<table class="results">') == 4
    assert "different data sets" in page
    assert "settings may have been chosen on" in page


def test_different_training_of_rivals_is_pointed_out_with_defaults_that_a_result_leaves_out(exhibit):
    made, config = exhibit.condensed("set.safetensors"), {"model": "convnet3d", "epochs": 500}
    own = config | {"flip": "never", "epochs": 9}
    results = load([exhibit.of_set(made, "A", config=own), exhibit.of_set(made, "B", config=config)])
    said = " ".join(notes_on(rows_of(results)))
    for words in ("flip: never (“A”) and protocol (“B”)", "epochs: 500 (“B”)"):
        assert f"different {words}" in said
    assert not any("different" in note for note in notes_on(rows_of([results[0]] * 2)))


def test_rows_have_marks_that_differ_and_a_floor_is_hollow(exhibit):
    paths = [exhibit.of_set(exhibit.condensed("set.safetensors"), label) for label in "abc"]
    marks = plots.marks_of(rows_of(load([*paths, exhibit.of_store("subset", 2)])))
    assert len({mark.glyph for mark in marks}) == len({mark.colour for mark in marks}) == 4
    assert [mark.filled for mark in marks] == [False, True, True, True]


def test_the_terminal_shows_a_table_for_each_data_set_with_the_cautions_of_the_page(exhibit, tmp_path):
    other = Exhibit.build(tmp_path / "others", ["a", "b", "c"])
    paths = [*exhibit.everything(), other.of_store("full", 12, split="train"), other.of_store("subset", 3)]
    tables = summary_tables(load(paths))
    assert sorted(len(table.rows) for table, _ in tables) == [1, 1, 3]
    (caution,) = [caution for _, cautions in tables for caution in cautions]
    assert caution in Words(page_of(paths)).text


def test_the_same_files_give_the_same_page_in_any_order(exhibit):
    paths = exhibit.everything()
    assert page_of(paths) == page_of([*paths[::-1], paths[0]])
    assert [row.role for row in rows_of(load(paths[::-1]))] == ["floor", "", "ceiling"]


def test_the_page_leads_nowhere_and_runs_nothing(exhibit):
    page = page_of(exhibit.everything())
    words = Words(page)
    assert "script" not in words.tags
    allowed = {"data:", "data:image/webp;base64", "data:image/svg+xml;base64"}
    assert {link.split(",")[0] for link in words.links} <= allowed
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import| style=| on[a-z]+=", page)
    assert "secret-host" not in page


def test_hostile_names_are_escaped_and_stand_in_no_plot(tmp_path):
    assert printable("\ud800 \u202e\x1b[0m é 動") == "\\ud800 \\u202e\\x1b[0m é 動"
    exhibit = Exhibit.build(tmp_path / "runs", HOSTILE_NAMES, size=8)
    page = page_of([exhibit.of_set(exhibit.condensed("set.safetensors"), HOSTILE, protocol=HOSTILE)])
    words = Words(page)
    assert "script" not in words.tags
    for name in HOSTILE_NAMES:
        assert printable(name) in words.text
    assert not set(page) & set("\x1b\u202e\x00\r")
    (plot,) = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    text = base64.b64decode(plot).decode()
    assert "hurt" not in text
    assert "<dc:date>" not in text
    assert set(re.findall(r'href="([^#"]{5})', text)) <= {"data:"}


def test_a_set_that_is_missing_or_has_changed_since_is_named(exhibit):
    paths = exhibit.everything()
    exhibit.condensed("set.safetensors", keyframes=4)
    page = page_of(paths)
    assert "has changed since it was evaluated" in page
    assert "of 8 stored" not in page
    again = exhibit.of_set(exhibit.condensed("set.safetensors", keyframes=2), label="Again")
    assert "has changed since it was evaluated" in page_of([*paths, again])
    (exhibit.folder / "set.safetensors").unlink()
    words = Words(page_of(paths)).text
    assert re.search(r"Set PRISM cannot be shown: '.*set\.safetensors' does not exist\.", words)
    assert "50.0 ± 5.8 (3)" in words
    held = [exhibit.folder / f"{name}.json" for name in ("own", "other")]
    for name in held:
        of_subject(replace(Result.load(again), label=name.stem), path="").save(name)
    words = Words(page_of(held)).text
    for name in held:
        assert f"Set {name.stem} was scored in memory. Its videos are not shown." in words


def test_many_sets_that_are_missing_do_not_hide_the_table(exhibit):
    paths = [exhibit.of_set(exhibit.condensed(f"{n}.safetensors"), f"{n}") for n in range(1, 7)]
    for n in range(1, 7):
        (exhibit.folder / f"{n}.safetensors").unlink()
    page = page_of(paths)
    shown, _, folded = page.partition("More sets that are not shown: 3<")
    assert shown.count("cannot be shown") == folded.count("cannot be shown") == 3


def test_a_store_that_is_missing_or_another_one_is_named(exhibit, tmp_path):
    paths = exhibit.everything()
    (exhibit.folder / "store").rename(exhibit.folder / "moved")
    words = Words(page_of(paths)).text
    assert re.search(r"No real clips are shown beside the videos: '.*store' does not exist", words)
    assert "3 of 8 stored" in words
    other = Exhibit.build(tmp_path / "other", ["x", "y"])
    other.store.path.rename(exhibit.folder / "store")
    page = page_of(paths)
    assert "holds other clips than the results were scored on" in page
    assert "real clip</strong>" not in page


def test_sets_are_named_by_folder_where_files_have_one_name_and_read_one_at_a_time(exhibit, monkeypatch):
    sets = [exhibit.condensed(f"{name}/set.safetensors", keyframes) for keyframes, name in enumerate("abc", 2)]
    paths, read, loaded = [exhibit.of_set(path) for path in sets], CondensedSet.load, list[Any]()

    def load_alone(path: Path) -> CondensedSet:
        assert sum(one() is not None for one in loaded) <= 1  # The one before.
        loaded.append(weakref.ref(made := read(path)))
        return made

    monkeypatch.setattr(CondensedSet, "load", load_alone)
    words = Words(page_of(paths)).text
    assert len(loaded) == 6  # For the facts, then for the pictures of both classes.
    assert all(words.count(f"PRISM ({name}/set)") >= 1 + 2 for name in "abc")  # A row, and two pictures.


def test_a_set_without_keyframes_is_shown_by_what_it_renders(exhibit):
    draw = torch.Generator().manual_seed(0)
    parts = [torch.randn(shape, generator=draw) for shape in [(4, 3, 16, 16), (4, 8, 16, 16), KERNEL, KERNEL[:1]]]
    encoding = StaticDynamicEncoding.of_parts(*parts, "float32")
    store, path = exhibit.store, exhibit.folder / "parts.safetensors"
    CondensedSet(encoding, torch.tensor([0, 1]), store.classes, store.normalisation, True).save(path)
    page = page_of([exhibit.of_set(path, "parts")])
    assert page.count("rendered by static-dynamic") == 2
    assert "<i></i>" not in page  # No frame is interpolated.
    assert "of 8 stored" not in page
    assert "4 (2.00)" in Words(page).text  # 2 videos with 2 static images each


def test_a_strip_holds_64_frames_at_most_in_their_order():
    levels = torch.tensor([0, 200, 50, 250, 100], dtype=torch.uint8).view(5, 1, 1, 1)
    strip = np.asarray(Image.open(io.BytesIO(encode(levels.expand(5, 3, 8, 8)))).convert("L"), dtype=float)
    found = strip.reshape(8, 5, 8).mean(axis=(0, 2))
    assert abs(found - levels.flatten().numpy()).max() < 10
    assert Image.open(io.BytesIO(encode(torch.zeros(70, 3, 4, 8, dtype=torch.uint8)))).size == (64 * 8, 4)


@pytest.mark.parametrize("budget", [0, 20_000, 60_000, 10**9])
def test_strips_keep_within_the_budget_and_the_first_of_each_class_goes_last(budget):
    clip = torch.rand(8, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    tiles = [Tile("", rank % 5, lambda: clip[None], "", "", "", (64, 64), 8) for rank in range(10)]
    kept = with_strips(tiles, budget)
    assert sum(len(tile.source) * 3 / 4 for tile in kept) <= budget + 400
    assert (len(kept) == 10) == (budget == 10**9)
    assert [tile.rank for tile in kept] == sorted(tile.rank for tile in tiles)[: len(kept)]
