"""Rankings: files that come back as they were, sets that belong together, and sentences on damaged files."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from orders import ranking_of

from prism.artifacts.info import describe
from prism.artifacts.kinds import RANKING, kind_of
from prism.artifacts.rankings import FULL, Ranking
from prism.artifacts.results import Result
from prism.errors import ResultError

WHOLE = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.7], [0.8, 0.6]]
SETS = [[[0.1], [0.2], [0.4], [0.3]], [[0.4], [0.3], [0.2], [0.1]]]


@pytest.fixture
def ranking() -> Ranking:
    return ranking_of(WHOLE, noise=SETS, random=SETS[:1])


def test_a_ranking_comes_back_from_its_file_as_it_was(ranking, tmp_path):
    ranking.save(tmp_path / "ranking.json")
    loaded = Ranking.load(tmp_path / "ranking.json")
    assert loaded == ranking
    assert list(loaded.candidates) == list(ranking.candidates)
    assert loaded.to_json() == ranking.to_json()
    assert describe(tmp_path / "ranking.json")["noise_tau"] == pytest.approx(-1 / 6, abs=1e-3)


def test_a_ranking_of_many_candidates_is_known_as_one(ranking, tmp_path):
    # The candidates stand before the name of the format.
    many = {f"candidate{number}": {"model": "cnn-gru", "lr": 0.01} for number in range(2_000)}
    replace(ranking, candidates=many).save(tmp_path / "ranking.json")
    assert kind_of(tmp_path / "ranking.json") == RANKING


def test_scores_stand_in_the_order_of_candidates_and_seeds(ranking):
    assert torch.equal(ranking.scores[FULL], torch.tensor(WHOLE, dtype=torch.float32).double())
    assert ranking.of_kind(ranking.kinds[0]).shape == (2, 4, 1)


def test_sets_that_differ_in_their_seeds_alone_are_of_one_kind(ranking):
    assert [(kind.name, kind.sets) for kind in ranking.kinds] == [("noise", (0, 1)), ("random-0", (2,))]
    other = replace(ranking.sets[1], subject=replace(ranking.sets[1].subject, config={"vpc": 2, "seed": 1}))
    apart = replace(ranking, sets=(ranking.sets[0], other, ranking.sets[2]))
    assert [kind.sets for kind in apart.kinds] == [(0,), (1,), (2,)]
    # By their own networks, as condensed sets are, too.
    drawn = tuple(
        replace(one, subject=replace(one.subject, config=one.subject.config | {"network_seed": number}))
        for number, one in enumerate(ranking.sets)
    )
    assert [kind.sets for kind in replace(ranking, sets=drawn).kinds] == [(0, 1), (2,)]
    # Of sets of which nothing is known, none belong together.
    unknown = tuple(replace(one, subject=replace(one.subject, config={})) for one in ranking.sets)
    assert [kind.sets for kind in replace(ranking, sets=unknown).kinds] == [(0,), (1,), (2,)]


def test_sets_of_two_lists_are_two_kinds_though_their_files_have_one_name(ranking):
    listed = {"from_list": "chosen.txt", "storage": "uint8", "quality": 35, "takes": 1}
    sets = tuple(
        replace(one, subject=replace(one.subject, method="list", config=listed)) for one in ranking.sets[:2]
    )
    apart = replace(ranking, sets=(*sets, ranking.sets[2]))
    assert [kind.sets for kind in apart.kinds] == [(0,), (1,), (2,)]


def test_kinds_have_different_names(ranking):
    names = [replace(one, name="set-1") for one in ranking.sets]
    assert [kind.name for kind in replace(ranking, sets=tuple(names)).kinds] == ["set", "set-1"]
    for named, said in (("vpc5-{}", "vpc5"), ("set-{}-1", "set")):
        several = [replace(one, name=named.format(number)) for number, one in enumerate(ranking.sets[:2])]
        assert replace(ranking, sets=(*several, ranking.sets[2])).kinds[0].name == said
    stray = (replace(ranking.sets[0], name="a-1"), replace(ranking.sets[1], name="b-2"), ranking.sets[2])
    assert [kind.name for kind in replace(ranking, sets=stray).kinds] == ["noise", "random-0"]


def test_no_network_on_a_set_shares_its_seed_with_one_on_all_clips_or_of_its_kind(ranking):
    seeds = ranking.expected
    assert list(seeds[FULL]) == [0, 1]
    assert [list(seeds[number]) for number in range(3)] == [[2], [3], [2]]


def test_an_unfinished_ranking_has_no_order(ranking):
    partial = replace(ranking, trials=ranking.trials[:-1])
    assert not partial.is_complete
    with pytest.raises(ResultError, match=r"not finished\. Repeat its command with --resume"):
        _ = partial.agreements


def test_a_training_that_diverged_counts_as_nothing(ranking):
    first = replace(ranking.trials[-1], score=None)
    assert replace(ranking, trials=(*ranking.trials[:-1], first)).scores[2][3, 0] == 0


def test_the_picks_of_a_kind_are_counted_over_its_sets(ranking):
    assert ranking.picks(ranking.kinds[0]) == {"candidate2": 1, "candidate0": 1}


def test_equal_candidates_are_all_picked():
    tied = ranking_of([[0.5]] * 3, noise=[[[0.2], [0.4], [0.4]], [[0.3], [0.3], [0.3]]])
    assert tied.best(FULL) == list(tied.candidates)
    assert tied.picks(tied.kinds[0]) == {"candidate1": 2, "candidate2": 2, "candidate0": 1}


def test_the_search_takes_the_time_of_one_network_of_each_candidate(ranking):
    assert (ranking.seconds(FULL), ranking.seconds(0)) == (36, 4)


DAMAGES = {
    "no trials": (lambda c: c.pop("trials"), "it has no 'trials'"),
    "another format": (lambda c: c.update(format="prism-rankin"), "does not say format 'prism-ranking'"),
    "a newer version": (lambda c: c.update(version=2), "format version 2, but this PRISM reads 1"),
    "a score of 2": (lambda c: c["trials"][0].update(score=2.0), "a score lies outside 0..1"),
    "a score that is text": (lambda c: c["trials"][0].update(score="1"), "is not of type float"),
    "a trial of no set": (lambda c: c["trials"][0].update(set=3), "belongs to no candidate, set or seed"),
    "a trial of no candidate": (lambda c: c["trials"][0].update(candidate=4), "belongs to no candidate"),
    "a trial twice": (lambda c: c["trials"].append(c["trials"][0]), "or is there twice"),
    "negative seconds": (lambda c: c["trials"][0].update(seconds=-1.0), "the seconds of a trial are out of range"),
    "two of one name": (lambda c: c["candidates"].append(c["candidates"][0]), "two candidates have one name"),
    "no candidates": (lambda c: c.update(candidates=[], trials=[]), "no candidate or no set"),
    "a billion networks": (lambda c: c["config"].update(seeds=10**9), "config.seeds is out of range"),
    "a set that is text": (lambda c: c["sets"].append("a"), "'a' is not of type dict"),
    "a set of 10^400 bytes": (
        lambda c: c["sets"][0]["subject"].update(num_bytes=10**400),
        "num_bytes is not between 1 and 2",
    ),
    "no chance": (lambda c: c["data"].update(chance={}), "it has no 'top1'"),
    "an unknown field": (lambda c: c["trials"][0].update(note=1), "unexpected keyword argument 'note'"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_ranking_is_refused_with_what_is_wrong(name, ranking, tmp_path):
    damage, says = DAMAGES[name]
    content = json.loads(ranking.to_json())
    damage(content)
    (tmp_path / "ranking.json").write_text(json.dumps(content))
    with pytest.raises(ResultError, match=says):
        Ranking.load(tmp_path / "ranking.json")


@given(at=st.integers(0, 3000), byte=st.integers(0, 255))
def test_no_broken_byte_raises_anything_but_a_sentence(at, byte, tmp_path):
    text = bytearray(ranking_of(WHOLE, noise=SETS).to_json().encode())
    text[at % len(text)] = byte
    (tmp_path / "ranking.json").write_bytes(text)
    with suppress(ResultError):
        Ranking.load(tmp_path / "ranking.json")


def test_a_ranking_and_a_result_are_told_apart(ranking, tmp_path):
    ranking.save(tmp_path / "ranking.json")
    with pytest.raises(ResultError, match="is a ranking, not a result"):
        Result.load(tmp_path / "ranking.json")
    with pytest.raises(ResultError, match="does not exist"):
        Ranking.load(tmp_path / "missing.json")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ResultError, match=r"is text, not a ranking\. prism rank makes one"):
        Ranking.load(tmp_path / "text")
