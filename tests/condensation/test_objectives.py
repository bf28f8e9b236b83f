"""Distribution matching against its formula (paper, section 3.4)."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prism.artifacts.clips import Normalisation
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import ClassSums, Showing, between_class_energy, real_class_means
from prism.condensation.objectives import match, squared_distance

SHAPE = (3, 3, 2, 2)
"""T, C, H, W of the clips in these tests."""


class TinyNetwork(nn.Module):
    """A smooth stand-in for a network: an embedding of every value of the clip, in float64."""

    IS_BATCH_INVARIANT = True
    embed_dim = 5

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        values = np.random.default_rng(seed).standard_normal((int(np.prod(SHAPE)), 5))
        self.weight = nn.Parameter(torch.from_numpy(values), requires_grad=False)
        self.batches: list[int] = []

    def embed(self, clips: torch.Tensor) -> torch.Tensor:
        self.batches.append(len(clips))
        return torch.tanh(clips.flatten(1).double() @ self.weight)


def embedded_in_numpy(network: TinyNetwork, clips: np.ndarray) -> np.ndarray:
    """Clips (N, T, C, H, W) as the network embeds them, axes (N, C, T, H, W)."""
    flat = clips.transpose(0, 2, 1, 3, 4).reshape(len(clips), -1)
    return np.tanh(flat @ network.weight.numpy())


def random_clips(num: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((num, *SHAPE)))


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 100))
def test_distribution_matching_agrees_with_the_formula_in_numpy(num_classes, dim, seed):
    real, syn = np.random.default_rng(seed).standard_normal((2, num_classes, dim))
    expected = [np.linalg.norm(real[c] - syn[c]) ** 2 for c in range(num_classes)]
    losses = squared_distance(torch.from_numpy(real), torch.from_numpy(syn))
    np.testing.assert_allclose(losses.numpy(), expected)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 10), st.integers(0, 100))
def test_match_is_equation_8_whatever_the_chunk(num_classes, vpc, chunk, seed):
    network = TinyNetwork()
    clips = random_clips(num_classes * vpc, seed)
    real = np.random.default_rng(seed + 1).standard_normal((num_classes, 5))
    losses, _ = match(network, torch.from_numpy(real), clips, squared_distance, chunk=Chunk(chunk))
    for c in range(num_classes):
        mean = embedded_in_numpy(network, clips[c * vpc : (c + 1) * vpc].numpy()).mean(axis=0)
        assert losses[c].item() == pytest.approx(((real[c] - mean) ** 2).sum())


def test_the_gradient_of_match_equals_finite_differences():
    network, real = TinyNetwork(), torch.from_numpy(np.random.default_rng(3).standard_normal((2, 5)))
    clips = random_clips(4)
    _, gradient = match(network, real, clips, squared_distance, chunk=Chunk(2))

    def total(moved: torch.Tensor) -> float:
        return match(network, real, moved, squared_distance, chunk=Chunk(8))[0].sum().item()

    step = 1e-6
    for seed in range(20):
        direction = random_clips(4, seed=100 + seed)
        slope = (total(clips + step * direction) - total(clips - step * direction)) / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_the_gradient_does_not_depend_on_the_chunk():
    network, real, clips = TinyNetwork(), torch.randn(3, 5, dtype=torch.float64), random_clips(6)
    whole_losses, whole = match(network, real, clips, squared_distance, chunk=Chunk(6))
    for chunk in (1, 2, 3, 4, 100):
        losses, gradient = match(network, real, clips, squared_distance, chunk=Chunk(chunk))
        torch.testing.assert_close(losses, whole_losses)
        torch.testing.assert_close(gradient, whole)


def test_a_chunk_holds_whole_classes_and_no_more_clips_than_it_may():
    network, real = TinyNetwork(), torch.zeros(5, 5, dtype=torch.float64)
    match(network, real, random_clips(10), squared_distance, chunk=Chunk(4))
    assert network.batches == [4, 4, 2]


def test_a_class_of_matching_means_costs_nothing_and_moves_nothing():
    network, clips = TinyNetwork(), random_clips(2)
    real = network.embed(clips.transpose(1, 2))
    losses, gradient = match(network, real, clips, squared_distance, chunk=Chunk(2))
    assert losses.sum() == 0
    assert gradient.abs().sum() == 0


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 7), st.integers(0, 100))
def test_class_means_are_right_for_classes_of_any_size_in_parts_of_any_size(counts, size, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    embeddings = np.random.default_rng(seed).standard_normal((len(labels), 3))
    sums = ClassSums(len(counts))
    for first in range(0, len(labels), size):
        rows, of_rows = (torch.from_numpy(part[first : first + size]) for part in (embeddings, labels))
        sums.add(rows, of_rows)
    means = sums.means(torch.tensor(counts))
    expected = np.stack([embeddings[labels == c].mean(axis=0) for c in range(len(counts))])
    np.testing.assert_allclose(means.numpy(), expected, atol=1e-7)

    whole = ClassSums(len(counts))
    whole.add(torch.from_numpy(embeddings), torch.from_numpy(labels))
    assert torch.equal(means, whole.means(torch.tensor(counts)))


@given(st.integers(2, 5), st.integers(0, 100))
def test_between_class_energy_is_the_squared_distance_of_the_means_from_their_mean(num_classes, seed):
    means = np.random.default_rng(seed).standard_normal((num_classes, 4))
    common = sum(means) / num_classes
    expected = sum(np.linalg.norm(mean - common) ** 2 for mean in means)
    assert between_class_energy(torch.from_numpy(means)).item() == pytest.approx(expected)


def test_between_class_energy_is_zero_where_the_classes_cannot_be_told_apart():
    assert between_class_energy(torch.ones(4, 3)) == 0


NORMALISATION = Normalisation((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
FRAMES = torch.from_numpy(np.random.default_rng(5).integers(0, 256, (7, *SHAPE), dtype=np.uint8))


def embedded_pixels(network: TinyNetwork, frames: torch.Tensor) -> np.ndarray:
    mean, std = (np.array(x).reshape(3, 1, 1) for x in (NORMALISATION.mean, NORMALISATION.std))
    return embedded_in_numpy(network, (frames.numpy() / 255 - mean) / std)


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_real_class_means_are_means_of_embedded_normalised_pixels(chunk):
    network, labels = TinyNetwork(), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    chosen = torch.tensor([2, 0, 3, 6, 5])
    means = real_class_means(network, FRAMES, chosen, labels, 2, NORMALISATION, Showing(), Chunk(chunk))
    embedded = embedded_pixels(network, FRAMES)
    expected = [embedded[[2, 0, 3]].mean(axis=0), embedded[[6, 5]].mean(axis=0)]
    np.testing.assert_allclose(means.numpy(), expected, atol=1e-6)
    assert max(network.batches) <= chunk


def test_real_clips_are_flipped_whole_or_not_at_all():
    network, labels = TinyNetwork(), torch.arange(7)

    def means(frames: torch.Tensor, flips: torch.Generator | Literal[False]) -> torch.Tensor:
        # One class per clip: its mean is the embedding of the clip or of its mirror image.
        return real_class_means(
            network, frames, torch.arange(7), labels, 7, NORMALISATION, Showing(flips), Chunk(8)
        )

    flipped = means(FRAMES, torch.Generator().manual_seed(0))
    is_plain = (flipped == means(FRAMES, False)).all(dim=1)
    is_mirrored = (flipped == means(FRAMES.flip(-1), False)).all(dim=1)
    assert (is_plain ^ is_mirrored).all()
    assert is_plain.any()
    assert is_mirrored.any()
