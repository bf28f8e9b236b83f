"""Results: a number comes with its n, and a damaged file is refused by name."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from settings import refusal_of

from prism.artifacts.results import Data, NetworkRun, Result, Subject, by_recording, relative_to_result
from prism.errors import ArtifactError


def a_result(shares=(0.25, 0.5)) -> Result:
    return Result(
        label="PRISM",
        task="classification",
        protocol="clean",
        subject=Subject("condensed", "set.safetensors", "prism", 2, 5, 1000, 4000, {"vpc": 1}, "f" * 64, 2),
        data=Data("store", "0" * 64, "test", 20, 6, {"top1": 0.25, "top5": 1.0}, 16000, 6),
        config={"epochs": 3, "lr": 0.01},
        runs=tuple(NetworkRun(seed, {"top1": top1, "top5": 1.0}, 0.1, 2.0) for seed, top1 in enumerate(shares)),
        provenance={"host": "ü"},
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_saved_result_is_read_back_unchanged(tmp_path, accuracies):
    result = replace(a_result(accuracies), file=tmp_path / "r.json")
    result.save(tmp_path / "r.json")
    assert Result.load(tmp_path / "r.json") == result
    assert (tmp_path / "r.json").read_text(encoding="utf-8") == result.to_json()


def test_hits_are_counted_by_recording_and_kept_with_their_class():
    clips = [("run", "g1"), ("run", "g2"), ("run", "g1"), ("walk", "g1")]
    assert by_recording(clips, [1, 0, 1, 1]) == ("2 0", "1")
    assert by_recording([*clips, *clips], [1] * 8) == ("4 2", "2")


@pytest.mark.parametrize("hits", [("3 0", "1"), ("2", "1"), ("2 0",), ("2 -1", "1"), ("2 x", "1"), ("1 0", "1")])
def test_hits_that_the_recordings_cannot_have_are_refused(tmp_path, hits):
    whole = a_result((0.5,))
    data, (run,) = replace(whole.data, recordings=("2 1", "1"), num_clips=6), whole.runs
    replace(whole, data=data, runs=(replace(run, hits=("2 0", "1")),)).save(tmp_path / "good")
    replace(whole, data=data, runs=(replace(run, hits=hits),)).save(tmp_path / "bad")
    Result.load(tmp_path / "good")
    with pytest.raises(ArtifactError, match="hits are not those of its recordings and its score"):
        Result.load(tmp_path / "bad")


def test_a_summary_is_the_mean_the_sample_deviation_and_the_number_of_runs():
    values = (0.1, 0.3, 0.8)
    mean = sum(values) / 3
    deviation = (sum((x - mean) ** 2 for x in values) / 2) ** 0.5
    assert a_result(values).summary() == pytest.approx((mean, deviation, 3))
    assert a_result(values).summary("top5") == (1.0, 0.0, 3)
    # One run has no deviation, and scores are shown in percent.
    assert a_result((0.4,)).summary() == (0.4, None, 1)
    assert json.loads(a_result((0.4,)).to_json())["summary"]["top1"] == {"mean": 0.4, "std": None, "n": 1}
    # The standard error of the mean: the deviation is 36.1.
    assert "top-1 40.0 ± 20.8 (3), top-5" in str(a_result(values))
    assert str(a_result((0.5,))) == "PRISM: top-1 50.0 ± – (1), top-5 100.0 ± – (1), on 20 test clips"


def test_networks_that_did_not_learn_even_their_training_clips_are_counted_and_said():
    guess = math.log(6)
    losses = [guess, 0.999 * guess, 0.9 * guess, 3 * guess]
    result = replace(a_result(), runs=tuple(replace(a_result().runs[0], train_loss=loss) for loss in losses))
    assert result.num_untrained == 3
    assert "may not have learned" not in result.caution
    said = str(result)
    assert "Caution: the training loss of 3 of 4 networks ended at 1.79 or above, where guessing has 1.79" in said
    assert "Try --max-grad-norm 20, a smaller --lr, or more --epochs." in result.caution
    # No option is proposed that is set already.
    assert "Try a smaller --lr, or more --epochs." in replace(result, config={"max_grad_norm": 20.0}).caution
    assert a_result().num_untrained == 0
    halfway = replace(a_result(), runs=tuple(replace(run, train_loss=0.6 * guess) for run in a_result().runs))
    assert "networks may not have learned all that they were shown: their training loss ended" in halfway.caution


def test_a_result_that_lacks_networks_says_so_until_they_are_there():
    stopped = replace(a_result(), config={"seeds": 3})
    assert "Caution: 2 of 3 networks are there: the run was stopped, or the others have diverged." in str(stopped)
    three = a_result((0.1, 0.2, 0.3))
    assert three.caution == replace(three, config={"seeds": 3}).caution == ""


def test_five_guesses_among_five_classes_are_no_score():
    result = a_result((0.4,))
    few = replace(result, data=replace(result.data, num_classes=5, scored_classes=5))
    assert (few.metrics, result.metrics) == (("top1",), ("top1", "top5"))
    assert "top-5" not in str(few)
    assert list(json.loads(few.to_json())["summary"]) == ["top1"]


def test_paths_are_relative_to_the_result_so_that_a_folder_of_runs_can_move(tmp_path):
    assert relative_to_result(tmp_path / "set.safetensors", tmp_path / "result.json") == "set.safetensors"
    assert relative_to_result(tmp_path / "a" / "store", tmp_path / "b" / "result.json") == "../a/store"


def test_a_result_that_is_saved_in_another_folder_names_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a_result().save("a/b/r")
    Result.load("a/b/r").save("c/r")
    for found in (Result.load("a/b/r"), Result.load("c/r")):
        assert found.locate(found.subject.path).resolve() == tmp_path / "set.safetensors"
        assert found.locate(found.data.path).resolve() == tmp_path / "store"


def test_a_folder_of_results_may_be_a_link(tmp_path):
    store, folder, link = tmp_path / "store", tmp_path / "far" / "away", tmp_path / "link"
    store.mkdir()
    folder.mkdir(parents=True)
    link.symlink_to(folder)
    (tmp_path / "far" / "other").mkdir()
    (tmp_path / "other").mkdir()
    beside = relative_to_result(tmp_path / "far" / "other", link / "r.json")
    assert replace(a_result(), file=link / "r.json").locate(beside).samefile(tmp_path / "far" / "other")
    for written, read in ((link, folder), (folder, link), (link, link)):
        path = relative_to_result(store, written / "r.json")
        assert replace(a_result(), file=read / "r.json").locate(path).samefile(store)
    assert relative_to_result(link / "set", link / "r.json") == "set"
    assert replace(a_result(), file=link / "r.json").locate("x" * 5000) == link / ("x" * 5000)


def edited(**changes: object) -> str:
    """The text of a valid result with some of its values replaced; None deletes."""
    content = json.loads(a_result().to_json())
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = content
        for parent in parents:
            place = place[int(parent) if parent.isdigit() else parent]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return json.dumps(content)


HOSTILE = {
    "empty": "",
    "truncated": a_result().to_json()[:200],
    "not json": "accuracy: 99",
    "another format": edited(format="prism-clip-store"),
    "no label": edited(label=None),
    "runs are text": edited(runs="three"),
    "a run has a field of its own": edited(runs__0__evil=1),
    "top1 is NaN": edited(runs__0__scores__top1=float("nan")),
    "top1 exceeds one": edited(runs__0__scores__top1=99.5),
    "an unknown metric": edited(runs__0__scores__r1=0.5),
    "chance exceeds one": edited(data__chance__top1=2.0),
    "of before subjects had a fingerprint": edited(subject__fingerprint=None),
    "subject stores fewer clips than it shows": edited(subject__stored_clips=1),
    "stored clips are below zero": edited(subject__stored_clips=-2),
    "subject config is a list": edited(subject__config=[]),
    "config holds infinity": edited(config__lr=float("inf")),
    "a run takes longer than the world": edited(runs__0__seconds=1e308),
    "top1 is beyond hits": edited(runs__0__hits=["2"], data__recordings=["2"], runs__0__scores__top1=1e308),
    "a lone surrogate": edited(label="\ud800"),
}


def test_what_is_edited_is_refused_for_its_edit_alone(tmp_path):
    (tmp_path / "r.json").write_text(edited(), encoding="utf-8")
    assert Result.load(tmp_path / "r.json").runs == a_result().runs


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_or_foreign_result_is_refused_in_one_sentence(tmp_path, name):
    (path := tmp_path / "r.json").write_text(HOSTILE[name], encoding="utf-8")
    assert str(path) in refusal_of(ArtifactError, Result.load, path)
