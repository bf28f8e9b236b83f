"""Ranking: candidates are trained as evaluate trains them, a killed run goes on, and mistakes cost nothing."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.rankings import FULL, Ranking
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import ConfigError, Interrupted, OutputError, ResultError, StoreError
from prism.evaluation import rank as module
from prism.evaluation.candidates import BUILT_IN, read_candidates
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import Candidate
from prism.evaluation.rank import rank
from prism.networks.network import Network
from prism.selection.select import select


class Colours(Network):
    """The mean colours of a clip, mixed: it trains in no time."""

    def __init__(
        self, *, num_classes: int, num_frames: int, size: int | tuple[int, int], width: int = 4, depth: int = 1
    ) -> None:
        super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
        layers = [nn.Sequential(nn.Linear(width if i else 3, width), nn.ReLU()) for i in range(depth)]
        self.layers, self.classifier, self.embed_dim = nn.Sequential(*layers), nn.Linear(width, num_classes), width

    def embed(self, clips: Tensor) -> Tensor:
        return self.layers(clips.mean(dim=(2, 3, 4)))

    def forward(self, clips: Tensor) -> Tensor:
        return self.classifier(self.embed(clips))


OWN = f"{__name__}:Colours"
CANDIDATES = {
    "narrow": {"model": OWN, "width": 2},
    "wide": {"model": OWN, "width": 8, "lr": 0.1},
    "deep": {"model": f"{OWN}(depth=2)", "shift": 0.1},
}
FAST = {
    "steps": 2,
    "full_steps": 4,
    "batch_size": 4,
    "resamples": 100,
    "device": "cpu",
    "workers": 1,
    "candidates": CANDIDATES,
}

Ranked = Callable[..., Ranking]


@pytest.fixture(scope="module")
def sets(store: ClipStore, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    paths = [tmp_path_factory.mktemp("sets") / f"random-{seed}.safetensors" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        select(store, output=path, seed=seed)
    return paths


@pytest.fixture(scope="module")
def ranked(store: ClipStore, sets: list[Path]) -> Ranked:
    return lambda **options: rank(options.pop("sets", sets), store, **(FAST | options))


@pytest.fixture(scope="module")
def whole(ranked: Ranked) -> Ranking:
    """A ranking that nothing disturbed."""
    return ranked()


def scores(ranking: Ranking) -> list[tuple[int, int, int, float | None]]:
    return [(one.candidate, one.set, one.seed, one.score) for one in ranking.trials]


def test_every_score_is_that_of_evaluate(ranked, store, sets):
    found = ranked(seeds=2)
    shared = {"batch_size": 4, "split": "val", "device": "cpu"}
    deep = {**CANDIDATES["deep"], **shared}
    # Two clips of a set are one step, eight clips of the store two.
    on_set = evaluate(sets[1], store, seeds=2, seed=4, epochs=2, **deep)
    on_all = evaluate(None, store, train_store=store, seeds=2, seed=0, epochs=2, **deep)
    assert found.scores[1][2].tolist() == [run.scores["top1"] for run in on_set.runs]
    assert found.scores[FULL][2].tolist() == [run.scores["top1"] for run in on_all.runs]
    assert found.data == replace(on_set.data, path=found.data.path, chance={"top1": 0.5})


def test_every_set_gets_the_same_steps_whatever_it_holds(store, tmp_path, monkeypatch):
    seen = []

    def noted(condensed: CondensedSet | None, *given: object, **options: object):
        seen.append((len(condensed) if condensed else 8, given[1].epochs))
        return evaluate(condensed, *given, **options)

    monkeypatch.setattr(module, "evaluate", noted)
    sets = [select(store, vpc=1), select(store, vpc=4, seed=1)]
    rank(sets, store, **(FAST | {"steps": 6, "full_seeds": 1}))
    assert set(seen) == {(8, 2), (2, 6), (8, 3)}


def test_one_seed_gives_one_ranking_wherever_its_sets_come_from(ranked, sets, whole):
    given = ranked(sets=[CondensedSet.load(path) for path in sets])
    assert scores(given) == scores(whole)
    assert str(given) == str(whole)
    assert [one.name for one in given.sets] == ["random", "random"]


def test_another_seed_trains_other_networks(ranked, sets):
    assert {trial.seed for trial in ranked(seed=5, sets=sets[:1]).trials} == {5, 6, 7}


def test_no_score_depends_on_how_many_are_trained_side_by_side_or_where(ranked, whole):
    assert scores(ranked(workers=3)) == scores(whole)
    with ThreadPoolExecutor(2) as executor:
        assert scores(ranked(executor=executor, workers=None)) == scores(whole)
        with pytest.raises(ConfigError, match=r"workers = 2, but it must be left out with an engine"):
            ranked(executor=executor, workers=2)


def test_a_ranking_that_is_stopped_waits_for_no_training(ranked, monkeypatch):
    first, ended = threading.Lock(), []

    def noted(*given: object, **options: object):
        if not first.acquire(blocking=False):
            raise KeyboardInterrupt
        try:
            return evaluate(*given, **options)
        except BaseException as error:
            ended.append(type(error))
            raise

    monkeypatch.setattr(module, "evaluate", noted)
    with pytest.raises(KeyboardInterrupt):
        ranked(workers=2, full_steps=5 * 10**4)
    assert ended == [Interrupted]


@pytest.mark.parametrize("after", [1, 5])
def test_a_ranking_that_was_stopped_goes_on_to_the_same_scores(ranked, whole, tmp_path, monkeypatch, after):
    path, calls = tmp_path / "ranking.json", []

    def dying(*given: object, **options: object):
        calls.append(given)
        if len(calls) > after:
            raise KeyboardInterrupt
        return evaluate(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "evaluate", dying)
        with pytest.raises(Interrupted, match=r"done are kept\. Run the same command with --resume"):
            ranked(output=path)
    assert [found.name for found in tmp_path.iterdir()] == ["ranking.json"]
    kept = Ranking.load(path)
    assert not kept.is_complete
    assert {(one.candidate, one.set) for one in kept.trials} == {
        (place, number) for place in range(3) for number in (FULL, 0, 1) if 3 * place + number + 1 < after
    }
    assert scores(ranked(output=path, resume=True)) == scores(whole)
    assert scores(Ranking.load(path)) == scores(whole)


def test_a_finished_ranking_trains_nothing_more_and_takes_other_resamples(ranked, whole, tmp_path, monkeypatch):
    whole.save(tmp_path / "ranking.json")
    monkeypatch.setattr(module, "evaluate", None)
    again = ranked(output=tmp_path / "ranking.json", resume=True, resamples=200)
    assert again.trials == whole.trials
    assert len(again.agreements["random"].draws["tau"]) == 200
    assert Ranking.load(tmp_path / "ranking.json").config["resamples"] == 200


def test_resume_refuses_the_ranking_of_other_options_and_overwrite_replaces_it(ranked, sets, whole, tmp_path):
    path = tmp_path / "ranking.json"
    whole.save(path)
    with pytest.raises(OutputError, match="exists already"):
        ranked(output=path)
    with pytest.raises(ResultError, match=r"belongs to another run: its config.steps is 2, not 3"):
        ranked(output=path, resume=True, steps=3)
    changed = CANDIDATES | {"wide": {"model": OWN, "width": 8, "lr": 0.2}}
    with pytest.raises(ResultError, match=r"its candidates.wide.lr is 0.1, not 0.2"):
        ranked(output=path, resume=True, candidates=changed)
    assert ranked(output=path, overwrite=True, steps=3, sets=sets[:1]).config["steps"] == 3
    with pytest.raises(ConfigError, match="resume needs the output"):
        ranked(resume=True)


def test_a_candidate_that_diverges_scores_nothing_and_the_others_go_on(ranked, sets):
    wild = CANDIDATES | {"wild": {"model": OWN, "lr": 1e30}}
    found = ranked(candidates=wild, full_steps=8, steps=8, seeds=2, sets=sets[:1])
    assert {one.score for one in found.trials if one.candidate == 3} == {None}
    assert None not in {one.score for one in found.trials if one.candidate < 3}
    assert found.scores[FULL][3].tolist() == [0, 0]


def test_the_built_in_candidates_are_twelve_or_more_and_fit_small_clips(store):
    found = read_candidates()
    assert len(found) >= 12
    assert {candidate.model for candidate in found.values()} == {"convnet3d", "cnn-gru"}
    assert len({candidate.shift for candidate in found.values()}) > 1
    assert all(f"[{name}]" in BUILT_IN.read_text() for name in found)


def test_candidates_come_from_a_file_or_as_values(tmp_path):
    (tmp_path / "mine.toml").write_text("[b]\nwidth = 2\n[a]\nlr = 0.1\n[c]\nmodel = 'cnn-gru'\nhidden = 4\n")
    found = read_candidates(tmp_path / "mine.toml")
    assert list(found) == ["b", "a", "c"]
    assert found == read_candidates({"b": Candidate(width=2), "a": {"lr": 0.1}, "c": found["c"]})
    assert as_dict(found["c"])["model"] == "cnn-gru"


FILES = {
    "two": ("[a]\n[b]\nwidth = 2\n", "are 2, but a ranking needs at least 3"),
    "one name twice": ("[a]\n[b]\n[a]\n", "cannot be read: Cannot declare"),
    "one of two names": ("[a]\n[b]\nwidth = 2\n[c]\nlr = 0.01\n", "'a' and 'c' of .* have the same options"),
    "an unknown option": (
        "[a]\nwidht = 2\n",
        "'a' of .*: unknown key 'candidate.widht'. Did you mean 'candidate.width'",
    ),
    "a rate of 0": ("[a]\nlr = 0\n", r"'a' of .*: candidate.lr = 0.0, but it must be positive"),
    "an unknown network": ("[a]\nmodel = 'convnet'\n", "Did you mean 'convnet3d'"),
    "no tables": ("a = 1\n", r"'a' of .* is 1, but it must be a table of options, \[a\]"),
    "no TOML": ("a\n", "cannot be read"),
}


@pytest.mark.parametrize("name", FILES)
def test_candidates_that_cannot_be_ranked_are_refused_with_their_names(name, tmp_path):
    text, says = FILES[name]
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_candidates(tmp_path / "mine.toml")
    with pytest.raises(ConfigError, match=r"candidates '.*missing.toml' do not exist"):
        read_candidates(tmp_path / "missing.toml")


def test_what_does_not_fit_is_refused_before_anything_is_trained(
    ranked, store, make_store, sets, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "evaluate", None)
    path = tmp_path / "ranking.json"
    herded = [tmp_path / f"herded-{seed}.safetensors" for seed in (0, 1)]
    for seed, file in enumerate(herded):
        select(store, method="herding", epochs=0, seed=seed, output=file)
    small, other = select(make_store(size=32)), select(make_store(classes=["a", "b"]))
    for given, says in (
        ({"sets": []}, "at least one condensed set"),
        ({"sets": [sets[0], sets[0]]}, "the sets 'random-0' and 'random-0' are the same. Name each set once"),
        ({"sets": [sets[0], small]}, r"has size = \(32, 32\), but the data"),
        ({"sets": herded}, "the sets 'herded-0' and 'herded-1' are the same. Name each set once"),
        ({"sets": [other]}, "have different classes"),
        (
            {"candidates": CANDIDATES | {"big": {"hidden": 3}}},
            "candidate 'big': hidden = 3, but convnet3d does not",
        ),
        (
            {"candidates": CANDIDATES | {"lost": {"model": "nowhere:Net"}}},
            "candidate 'lost': .*cannot be imported",
        ),
        ({"split": "train"}, r"rank.split = 'train', but it must be one of val, test"),
        ({"stepps": 3}, r"unknown key 'rank.stepps'. Did you mean 'rank.steps'"),
        ({"seeds": 0}, r"rank.seeds = 0"),
        ({"workers": 0}, r"workers = 0, but it must be at least 1"),
    ):
        with pytest.raises(ConfigError, match=says):
            ranked(output=path, **given)
    assert not path.exists()


def test_a_store_without_the_split_says_so(make_store, sets):
    with pytest.raises(StoreError, match="has no val clips"):
        rank(sets, make_store(val=0), **FAST)


def test_a_set_of_another_store_is_cautioned_by_its_name(ranked, store, tmp_path, capsys):
    foreign = replace(select(store, vpc=1, seed=9), source={"method": "random", "store": "0" * 64})
    foreign.save(tmp_path / "foreign.safetensors")
    ranked(sets=[tmp_path / "foreign.safetensors"], progress=True)
    assert "Caution: 'foreign': the set was made from another store than" in capsys.readouterr().err


def test_a_set_that_holds_the_answer_ranks_as_the_full_data_does(make_store, tmp_path):
    # All clips as a set, as many steps: the orders differ by the networks' seeds alone.
    store = make_store(train=8, val=16, frames=bright(8, 16))
    sets = [select(store, vpc=8)]
    rates = {f"rate{i}": {"model": OWN, "width": 4, "lr": lr} for i, lr in enumerate((1e-5, 0.03, 0.3))}
    found = rank(sets, store, **(FAST | {"steps": 24, "full_steps": 24, "candidates": rates, "seeds": 2}))
    assert found.agreements["random"].values["regret"] < 0.1
    assert found.agreements["random"].values["tau"] > 0


def bright(train: int, val: int, test: int = 2):
    """Pixels of two classes, a dark and a bright one."""
    draw = torch.Generator().manual_seed(0)
    shape = (2 * (train + val + test), 8, 3, 48, 48)
    frames = torch.randint(0, 200, shape, generator=draw, dtype=torch.uint8)
    start = 0
    for count in (train, val, test):
        frames[start + count : start + 2 * count] += 40
        start += 2 * count
    return frames.numpy()
