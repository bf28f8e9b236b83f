"""Retrieval: the loss is the published one, recall is what a loop counts, and the protocol is the stated one."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.evaluation.retrieve import chance_of_recall, recall_at, retrieve, supervised_contrastive
from prism.machine.randomness import generator
from prism.selection.select import select

module = sys.modules["prism.evaluation.retrieve"]
TINY = {"width": 2, "epochs": 2, "seeds": 2, "device": "cpu"}


@pytest.fixture
def gallery_store(make_store) -> ClipStore:
    return make_store(train=10)


@pytest.fixture
def chosen(gallery_store) -> CondensedSet:
    return select(gallery_store, vpc=2)


def score(condensed, store, **options) -> Result:
    return retrieve(condensed, store, **(TINY | options))


def points(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed, "points"), dtype=torch.float64)


# The loss.


def contrasted_by_hand(embeddings: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """Equation 2 of Khosla et al., written as sums."""
    z = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    losses = []
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        total = sum(np.exp(z[i] @ z[a] / temperature) for a in others)
        if positives:
            losses.append(-np.mean([np.log(np.exp(z[i] @ z[p] / temperature) / total) for p in positives]))
    return float(np.mean(losses)) if losses else 0.0


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9), st.integers(0, 99), st.sampled_from([0.1, 0.5, 2.0]))
def test_the_loss_agrees_with_the_formula_in_numpy(labels, seed, temperature):
    embeddings = points(len(labels), 5, seed=seed)
    ours = supervised_contrastive(embeddings, torch.tensor(labels), temperature)
    assert ours.item() == pytest.approx(contrasted_by_hand(embeddings.numpy(), np.array(labels), temperature))


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 1], [0, 1, 2, 0, 3], [0, 0, 0, 0, 0]])
def test_the_gradient_of_the_loss_matches_finite_differences(labels):
    embeddings = points(5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: supervised_contrastive(x, torch.tensor(labels), 0.3), embeddings)


# Recall.


def recall_by_hand(
    queries: np.ndarray, query_labels: list[int], gallery: np.ndarray, labels: list[int], k: int
) -> float:
    hits = 0
    for query, label in zip(queries, query_labels, strict=True):
        cosines = [query @ clip / np.linalg.norm(query) / np.linalg.norm(clip) for clip in gallery]
        nearest = sorted(range(len(gallery)), key=lambda i: -cosines[i])[:k]
        hits += any(labels[i] == label for i in nearest)
    return hits / len(queries)


@pytest.mark.parametrize("seed", range(3))
def test_recall_agrees_with_measuring_every_cosine(seed, monkeypatch):
    monkeypatch.setattr(module, "QUERIES", 3)
    queries, gallery = points(7, 4, seed=seed), points(25, 4, seed=seed + 100)
    draw = generator(seed, "labels")
    query_labels, labels = (torch.randint(0, 6, (n,), generator=draw) for n in (7, 25))
    found = recall_at(queries, query_labels, gallery, labels)
    assert list(found) == ["r1", "r5", "r10", "r20"]
    for k in (1, 5, 10, 20):
        by_hand = recall_by_hand(queries.numpy(), query_labels.tolist(), gallery.numpy(), labels.tolist(), k)
        assert found[f"r{k}"] == by_hand


def test_chance_is_what_random_embeddings_score():
    labels = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
    query_labels = torch.tensor([0, 0, 1, 2, 2, 2]).repeat(200)
    chance = chance_of_recall(query_labels, labels, (1, 5))
    assert chance["r1"] == pytest.approx((2 * 30 + 8 + 3 * 2) / 40 / 6)
    # Each of the 1,200 queries sees an order of its own.
    found = [
        recall_at(points(1, 30, seed=i), query_labels[i : i + 1], points(40, 30, seed=i + 9999), labels, (1, 5))
        for i in range(len(query_labels))
    ]
    for metric in ("r1", "r5"):
        assert np.mean([one[metric] for one in found]) == pytest.approx(chance[metric], abs=0.05)


# The verb.


def test_a_set_of_clips_that_tell_the_classes_apart_finds_every_one(make_store):
    # Dark on the left or on the right: the cosine sees it, and no flip may hide it.
    frames = np.full((2 * (10 + 1 + 2), 8, 3, 48, 48), 200, np.uint8)
    labels = np.repeat([0, 1, 0, 1, 0, 1], [10, 10, 1, 1, 2, 2])
    frames[labels == 0, ..., :24], frames[labels == 1, ..., 24:] = 20, 20
    store = make_store(train=10, frames=frames, flip=False)
    result = score(select(store), store, width=4, epochs=20)
    assert result.summary("r1") == (1.0, 0.0, 2)


def test_a_batch_holds_two_views_of_each_clip_so_that_even_one_video_per_class_has_a_positive(
    gallery_store, monkeypatch
):
    seen = []

    def watched(embeddings: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
        seen.append((embeddings.detach().clone(), labels.tolist()))
        return supervised_contrastive(embeddings, labels, temperature)

    monkeypatch.setattr(module, "supervised_contrastive", watched)
    score(select(gallery_store, vpc=1), gallery_store, seeds=1, epochs=1)
    ((embeddings, labels),) = seen
    assert sorted(labels) == [0, 0, 1, 1]
    assert labels[:2] == labels[2:]
    assert not torch.equal(embeddings[:2], embeddings[2:])


def test_queries_are_never_flipped_or_shifted(gallery_store, chosen, monkeypatch):
    """Their scores do not depend on the batch, nor on anything drawn after training."""
    results, original, seen = [], module.outputs_of, []
    for size in (3, 8, 128):
        monkeypatch.setattr(
            module, "outputs_of", lambda *given, size=size: seen.append(given[-1]) or original(*given[:-1], size)
        )
        results.append([(run.scores, run.train_loss) for run in score(chosen, gallery_store).runs])
    assert results[0] == results[1] == results[2]
    # Unpatched, in the batches of training, whose memory is counted: two views of each of four clips.
    assert set(seen) == {8}


def test_a_gallery_of_fewer_clips_than_the_largest_k_is_refused_before_training(store):
    with pytest.raises(ConfigError, match=r"Recall@20 needs 20 clips to search, but '.*' has 8 training clips"):
        score(select(store), store, epochs=10**9)
