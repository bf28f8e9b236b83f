"""Coreset selection: real clips, in the same form as condensed ones."""

from dataclasses import dataclass, replace

import pytest
import torch

import prism
from prism.errors import ConfigError, DivergedError
from prism.machine import progress
from prism.machine.randomness import generator
from prism.networks import trained
from prism.networks.trained import trained_embeddings
from prism.recipes import read_recipe
from prism.selection.methods import Herding, KCenter, Selection
from prism.selection.options import SELECTIONS, SelectConfig

SMALL = {"width": 2, "epochs": 1, "device": "cpu"}


def select(store, **options):
    return prism.select(store, **(SMALL | options))


@pytest.mark.parametrize("method", SELECTIONS.registry)
@pytest.mark.parametrize("vpc", [1, 3])
def test_every_method_picks_vpc_different_real_clips_of_each_class(store, method, vpc):
    chosen = select(store, method=method, vpc=vpc)
    real = store.clips("train")
    pixels = (chosen.render() * 255).round().to(torch.uint8)
    found = [next(i for i in range(len(real)) if torch.equal(real.frames[i], clip)) for clip in pixels]
    assert len(set(found)) == 2 * vpc
    assert chosen.mask.all()
    assert real.labels[found].tolist() == chosen.labels.tolist() == [0] * vpc + [1] * vpc
    assert chosen.source["clips"] == [store.sources[i].path for i in found]


@pytest.mark.parametrize("recipe", ["random", "herding", "k-center"])
def test_without_options_one_exact_clip_stands_for_each_video_as_in_the_recipes_of_the_field(store, recipe):
    made = prism.select(store)
    assert not made.is_random
    assert (made.encoding.storage, made.stored_clips, len(made)) == ("uint8", 2, 2)
    config = SelectConfig(**read_recipe(recipe)["select"])
    assert replace(config, method="random") == SelectConfig()


def points(num: int, seed: int) -> torch.Tensor:
    return torch.randn(num, 3, generator=generator(seed, "points"), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(20))
def test_herding_agrees_with_trying_every_clip(seed):
    cloud, chosen = points(7, seed), []
    for _ in range(7):
        left = [i for i in range(7) if i not in chosen]
        means = {i: sum(cloud[j] for j in [*chosen, i]) / (len(chosen) + 1) for i in left}
        chosen.append(min(left, key=lambda i: float((means[i] - cloud.mean(dim=0)).square().sum())))
        assert Herding().choose(cloud, len(chosen), generator(0, "x")) == chosen


@pytest.mark.parametrize("seed", range(20))
def test_k_center_agrees_with_measuring_every_distance(seed):
    cloud = points(7, seed)
    chosen = [min(range(7), key=lambda i: float((cloud[i] - cloud.mean(dim=0)).norm()))]
    while len(chosen) < 7:
        left = [i for i in range(7) if i not in chosen]
        chosen.append(max(left, key=lambda i: min(float((cloud[i] - cloud[j]).norm()) for j in chosen)))
        assert KCenter().choose(cloud, len(chosen), generator(0, "x")) == chosen


@pytest.mark.parametrize("method", [Herding(), KCenter()])
@pytest.mark.parametrize("vpc", range(1, 6))
def test_no_clip_is_picked_twice_even_where_all_are_alike(method, vpc):
    assert len(set(method.choose(torch.ones(5, 3), vpc, generator(0, "x")))) == vpc


@pytest.mark.parametrize("method", ["herding", "k-center"])
def test_a_smaller_choice_is_the_beginning_of_a_larger_one(store, method):
    few, many = (select(store, method=method, vpc=vpc).source["clips"] for vpc in (1, 3))
    assert few == [many[0], many[3]]


def embeddings_of(store, **how):
    return trained_embeddings(store, "convnet3d", torch.device("cpu"), **({"width": 2} | how))


@pytest.mark.parametrize("epochs", [0, 1])
def test_embeddings_are_computed_once_and_made_again_when_damaged(make_store, monkeypatch, epochs):
    store, how = make_store(), {"epochs": epochs, "seed": 0}
    first = embeddings_of(store, **how)
    assert first.shape == (len(store.positions("train")), 8)
    (cached,) = (store.path / "cache").iterdir()
    written = cached.stat().st_mtime_ns
    assert torch.equal(embeddings_of(store, **how), first)
    assert cached.stat().st_mtime_ns == written
    cached.write_bytes(b"damaged")
    assert torch.equal(embeddings_of(store, **how), first)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_network_that_has_died_is_drawn_again_and_another_seed_draws_another(make_store, monkeypatch, epochs):
    shown, embed = [], trained.outputs_of

    def dying(network, clips, *rest):
        shown.append(embed(network, clips, *rest))
        return shown[-1] if len(shown) % 4 in (3, 0) else torch.zeros_like(shown[-1])

    monkeypatch.setattr(trained, "outputs_of", dying)
    found = [embeddings_of(make_store(), epochs=epochs, seed=seed) for seed in (0, 1)]
    assert [torch.equal(found[i // 4], shown[i]) for i in range(8)] == [False, False, True, True] * 2
    assert not torch.equal(*found)


def test_no_clip_is_chosen_by_a_network_that_an_evaluation_begins_with(make_store, monkeypatch):
    seeds = []
    monkeypatch.setattr(trained, "train", lambda *_, seed, **__: seeds.append(seed))
    monkeypatch.setattr(trained, "outputs_of", lambda backbone, clips, *rest: torch.eye(len(clips), 8))
    for seed in range(3):
        embeddings_of(make_store(), epochs=0, seed=seed)
    assert len({*seeds} - {*range(9)}) == 3


def test_networks_that_all_die_are_told_and_nothing_is_chosen(make_store, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "outputs_of", lambda backbone, clips, *rest: torch.zeros(len(clips), 8))
    store = make_store()
    says = r"^10 networks have diverged, or embed all clips alike\. Pass a larger --width"
    with pytest.raises(DivergedError, match=says):
        select(store, method="herding", output=tmp_path / "set")
    assert not (tmp_path / "set").exists()


@dataclass(frozen=True)
class Outermost(Selection):
    """A method of somebody else: the clips farthest from a point, or nonsense."""

    centre: float = 0.0
    chooses: str = "all"

    def choose(self, embeddings, num, generator):
        order = (embeddings - self.centre).norm(dim=1).argsort(descending=True).tolist()
        return {
            "all": order[:num],
            "few": order[: num - 1],
            "twice": order[:1] * num,
            "outside": [-1] * num,
            "numbers": torch.tensor(order[:num]) + 0.5,
            "none": None,
            "positions": torch.tensor(order[:num]),
        }[self.chooses]


NAME = f"{__name__}:Outermost"


def test_a_method_of_ones_own_chooses_as_an_object_and_by_its_name(store):
    as_object = select(store, method=Outermost(centre=2.5), vpc=2)
    by_name = select(store, method=f"{NAME}(centre=2.5)", vpc=2)
    assert as_object.source == by_name.source
    assert as_object.source["method"] == as_object.source["config"]["method"] == f"{NAME}(centre=2.5)"
    assert as_object.source["clips"] != select(store, method=Outermost(centre=-9.0), vpc=2).source["clips"]
    assert select(store, method=Outermost).source["method"] == NAME


def test_a_quality_that_no_storage_reads_makes_no_other_record(store):
    assert select(store, vpc=2, quality=90).source == select(store, vpc=2).source
    assert select(store, storage="h264", quality=90).source["config"]["quality"] == 90


def test_a_method_without_embeddings_trains_no_network(make_store):
    store = make_store()
    select(store, method="random", model="no.such:Network")
    assert not (store.path / "cache").exists()


@pytest.mark.parametrize("chooses", ["few", "twice", "outside", "numbers", "none"])
def test_a_method_that_does_not_choose_different_clips_is_refused(store, chooses):
    given = r"gave (\[.*\]|tensor\(\[.*\]\)|None) for class 'class0'"
    with pytest.raises(ConfigError, match=given + r", but it must choose 2 different positions in 0\.\.3"):
        select(store, method=Outermost(chooses=chooses), vpc=2)


def test_positions_may_lie_in_a_tensor(store):
    as_list, as_tensor = (select(store, method=Outermost(chooses=how), vpc=2) for how in ("all", "positions"))
    assert as_tensor.source["clips"] == as_list.source["clips"]


def test_a_selection_shows_how_far_its_network_is(make_store, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    select(make_store(), method="herding", epochs=2, progress=True)
    found = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert found == [f"Training: {n} of 2 epochs" for n in (1, 2)]


def test_memory_that_is_exhausted_gets_one_sentence(store, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr("prism.selection.select.trained_embeddings", full)
    with pytest.raises(ConfigError, match=r"out of memory \(CUDA out of memory\)\. Pass a smaller --width\."):
        select(store, method="herding")
