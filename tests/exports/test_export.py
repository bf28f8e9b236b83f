"""The verb: whole or not at all, one sentence for every mistake, and a page that says what is in the folder."""

import json
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from settings import contents, refusal_of

from prism.artifacts.condensed import CondensedSet
from prism.errors import ArtifactError, ConfigError, OutputError
from prism.evaluation.evaluate import evaluate
from prism.exports.export import export
from prism.exports.videos import Format, folder_names
from prism.selection.select import select

TOS = ["videofolder", "webdataset", "tensors", "gif"]


@pytest.fixture
def chosen(store) -> CondensedSet:
    return select(store)


@pytest.mark.parametrize("to", TOS)
def test_an_export_is_whole_leaves_nothing_beside_it_and_stays_until_it_may_be_overwritten(chosen, tmp_path, to):
    made = export(chosen, tmp_path / "out", to=to)
    assert list(tmp_path.iterdir()) == [made.path]
    assert (made.path.is_dir(), made.num_videos) == (to != "gif", 2)
    assert made.num_bytes == sum(map(len, contents(tmp_path).values()))
    assert str(made).startswith(f"Wrote {tmp_path / 'out'}: ")
    before = contents(tmp_path)
    with pytest.raises(OutputError, match=r"exists already\. Choose another path, or pass --overwrite"):
        export(chosen, made.path, to=to)
    assert contents(tmp_path) == before
    export(chosen, made.path, to=to, overwrite=True)
    assert contents(tmp_path) == before


def test_a_folder_that_is_no_export_is_never_overwritten(chosen, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    (tmp_path / "file").write_text("precious")
    # A source of videos may say how it flips.
    (tmp_path / "precious" / "prism.json").write_text('{"flip": true}')
    for path in (tmp_path / "precious", tmp_path / "file"):
        with pytest.raises(OutputError, match=r"is (not|no part of) a folder that prism export has written.*\.$"):
            export(chosen, path, overwrite=True)
    with pytest.raises(OutputError, match="is a folder, but a file is to be written"):
        export(chosen, tmp_path / "precious", to="gif", overwrite=True)
    assert (tmp_path / "precious" / "file").read_text() == (tmp_path / "file").read_text() == "precious"


def test_an_export_that_is_protected_is_refused_before_any_work(chosen, tmp_path, monkeypatch):
    export(chosen, tmp_path / "out")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match=r"out' is protected: chmod -R u\+w .*out ends this"):
        export(chosen, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("mark", ["a", '{"entries": ["."]}', '{"entries": [".", ""], "made_by": "prism export"}'])
def test_a_mark_of_another_program_or_of_everything_gives_no_folder_away(chosen, tmp_path, mark):
    (tmp_path / "prism.json").write_text(mark)
    (tmp_path / "precious").write_text("precious")
    with pytest.raises(OutputError, match="is no part of a folder that prism export has written"):
        export(chosen, tmp_path, overwrite=True)
    (tmp_path / "precious").unlink()
    if "made_by" not in mark:
        assert "prism.json' is no part of" in refusal_of(OutputError, export, chosen, tmp_path, overwrite=True)


@pytest.mark.parametrize("name", ["LICENSE", ".git/HEAD", "train/mine/a.mp4", "train/{}/LICENSE"])
def test_an_export_that_holds_what_somebody_put_there_is_never_overwritten(chosen, tmp_path, name):
    export(chosen, tmp_path / "hub")
    precious = tmp_path / "hub" / name.format(chosen.classes[0])
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("precious")
    with pytest.raises(OutputError, match=r"' is no part of .* Move it away"):
        export(chosen, tmp_path / "hub", overwrite=True)
    assert precious.read_text() == "precious"
    precious.unlink()
    inside = tmp_path / "hub" / "train" / "set.safetensors"
    chosen.save(inside)
    with pytest.raises(OutputError, match=r"set\.safetensors' is no part of"):
        export(inside, tmp_path / "hub", overwrite=True)
    assert inside.exists()


def test_what_fails_in_the_midst_leaves_the_older_export(chosen, tmp_path):
    @dataclass(frozen=True)
    class Failing(Format):
        def write(self, condensed, path):
            (path / "half").write_text("half")
            raise ArtifactError("half-way.")
            yield

    export(chosen, tmp_path / "out", to="tensors")
    before = contents(tmp_path)
    for path in (tmp_path / "out", tmp_path / "new"):
        assert "half-way" in refusal_of(ArtifactError, export, chosen, path, to=Failing(), overwrite=True)
    assert contents(tmp_path) == before


def test_options_that_a_format_does_not_have_are_named(chosen, tmp_path, capsys):
    export(chosen, tmp_path / "out", to="tensors", fps=4.0, lossless=True)
    unused = [f"Caution: {option} is not used with --to tensors." for option in ("fps = 4.0", "lossless = True")]
    assert [line for line in capsys.readouterr().err.splitlines() if "Caution" in line] == unused
    export(chosen, tmp_path / "videos", lossless=True, quality=10)
    assert "Caution: quality = 10 is not used" in capsys.readouterr().err
    export(chosen, tmp_path / "sheet", to="gif", fps=4.0)
    assert "Caution" not in capsys.readouterr().err


def test_a_format_of_ones_own_is_an_object_with_a_write(chosen, tmp_path):
    @dataclass(frozen=True)
    class Arrays(Format):
        first: int = 0

        def write(self, condensed, path):
            for video in range(self.first, len(condensed)):
                clip = condensed.render(torch.tensor([video]))[0]
                np.save(path / f"{video}.npy", clip.numpy())
                yield clip, clip

    export(chosen, tmp_path / "out", to=Arrays(first=1))
    assert np.array_equal(np.load(tmp_path / "out" / "1.npy"), chosen.render()[1].numpy())

    class Nothing(Format):
        def write(self, condensed, path):
            (path / "nothing").touch()

    assert export(chosen, tmp_path / "nothing", to=Nothing()).psnr is None


def test_the_page_has_what_the_hub_looks_for_and_no_name_breaks_out_of_it(chosen, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    hostile = '"]\n```\n---\nlicense: mit'
    export(replace(chosen, classes=("a", hostile), source={"method": hostile}), tmp_path / "out")
    found = hub.DatasetCard.load(tmp_path / "out" / "README.md")
    assert (found.data.license, found.data.task_categories) == ("unknown", ["video-classification"])
    assert found.data.configs[0]["data_files"][0]["path"] == ["train/*/*.mp4", "metadata.jsonl"]
    assert "2 videos of 2 classes" in found.text
    assert found.text.count("```") == 3


def test_the_page_shows_scores_and_settings_of_an_evaluation_of_that_set_and_of_no_other(chosen, store, tmp_path):
    made = evaluate(chosen, store, output=tmp_path / "result", width=2, epochs=1, seeds=2)
    replace(made, config=made.config | {"seeds": 3}).save(tmp_path / "part")
    export(chosen, tmp_path / "part-out", result=str(tmp_path / "part"))
    page = (tmp_path / "part-out" / "README.md").read_text(encoding="utf-8")
    assert "\n    Caution: 2 of 3 networks are there" in page
    export(chosen, tmp_path / "out", result=str(tmp_path / "result"))
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert str(made).splitlines()[0] in page
    assert json.loads(page.split("```json")[2].split("```")[0]) == made.config
    other = replace(chosen, source={"method": "other"})
    with pytest.raises(ConfigError, match="result' is of another set"):
        export(other, tmp_path / "other", result=str(tmp_path / "result"))


@given(st.lists(st.text("aA_ ./走2", max_size=3).map(lambda name: name.replace("走", "走" * 40)), max_size=12))
@example(["a b", "a b_2", "a_b", "../../up", ".", ""])
@example(["走" * 87, "走" * 88])
def test_folders_of_different_classes_differ_stay_inside_and_fit_a_file_system(classes):
    names = folder_names(tuple(classes))
    assert len({name.casefold() for name in names}) == len(classes)
    assert all(len(name.encode()) <= 110 and name.strip(".") and "/" not in name for name in names)
