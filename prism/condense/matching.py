"""Objectives: how real and synthetic clips of a class compare under a random network (paper, section 3.4)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from prism.clips import Normalisation, flip_at_random, to_model_input

Objective = Callable[[Tensor, Tensor], Tensor]


def distribution_matching(real: Tensor, syn: Tensor) -> Tensor:
    """Squared distance between the mean embeddings of each class (paper, equation 8).

    Args:
        real: (C, D) mean embedding of the real clips of each class.
        syn: (C, D) mean embedding of its synthetic clips.

    Returns:
        (C,) losses; their sum is minimised.
    """
    return (real - syn).square().sum(dim=1)


OBJECTIVES: dict[str, Objective] = {"distribution": distribution_matching}


View = Callable[[Tensor, torch.Generator], Tensor]
"""What of the real clips (N, T, C, H, W) is matched: clips of the same shape."""


def whole_clips(clips: Tensor, generator: torch.Generator) -> Tensor:
    """The clips as they are."""
    return clips


def held_frames(clips: Tensor, generator: torch.Generator) -> Tensor:
    """One random frame of each clip, held for the length of the clip: what a still image is compared with."""
    num_clips, num_frames = clips.shape[:2]
    times = torch.randint(num_frames, (num_clips,), generator=generator, device=generator.device)
    everyone = torch.arange(num_clips, device=clips.device)
    return clips[everyone, times.to(clips.device), None].expand_as(clips)


def class_means(embeddings: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean of each class.

    Args:
        embeddings: (N, D).
        labels: (N,) class of each row, ascending.
        num_classes: C; every class must occur.

    Returns:
        (C, D). Rows are summed in a fixed order, so neither threads nor the device's scheduling change a bit.
    """
    counts = torch.bincount(labels, minlength=num_classes)
    slot = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels]
    table = embeddings.new_zeros(num_classes, int(counts.max()), embeddings.shape[1])
    table = table.index_put((labels, slot), embeddings)
    return table.sum(dim=1) / counts[:, None]


def between_class_energy(means: Tensor) -> float:
    """Energy of the class means around their common mean: what a loss must fall below to tell classes apart."""
    return float((means - means.mean(dim=0)).square().sum())


@torch.no_grad()
def real_class_means(
    network: nn.Module,
    frames: Tensor,
    clips: Tensor,
    labels: Tensor,
    num_classes: int,
    normalisation: Normalisation,
    *,
    flips: torch.Generator | bool,
    chunk: int,
    view: Callable[[Tensor], Tensor] = lambda clips: clips,
) -> Tensor:
    """Mean embedding of the real clips of each class.

    Only a chunk of the clips is in memory at a time.

    Args:
        network: on the device, and in the number format, that do the work.
        frames: (N, T, C, H, W) uint8 of all clips; they may stay on disk.
        clips: (n,) positions of the clips to use, grouped by class.
        labels: (N,) class of every clip.
        flips: a generator mirrors each clip at random; True takes every clip and its mirror image; False
            takes them as they are.
        chunk: clips that go through the network together.
        view: what of the clips is embedded.

    Returns:
        (C, D) float32 on the network's device.
    """
    weight = next(network.parameters())
    device, precision = weight.device, weight.dtype

    def embed_pixels(pixels: Tensor) -> Tensor:
        return network.embed(to_model_input(pixels, normalisation).to(precision)).float()  # type: ignore[operator]

    def embed(part: Tensor) -> Tensor:
        pixels = view(frames.index_select(0, part).to(device))
        if isinstance(flips, torch.Generator):
            pixels = flip_at_random(pixels, flips)
        embeddings = embed_pixels(pixels)
        if flips is True:
            embeddings = (embeddings + embed_pixels(pixels.flip(-1))) / 2
        return embeddings

    embeddings = torch.cat([embed(part) for part in clips.split(chunk)])
    return class_means(embeddings, labels[clips].to(device), num_classes)


def match(
    network: nn.Module, real: Tensor, clips: Tensor, objective: Objective, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Compare synthetic clips with the real class means.

    Whole classes go through the network together, as many as fit a chunk: a class's loss needs all its
    clips, and no other's.

    Args:
        network: the same random network that embedded the real clips.
        real: (C, D) from `real_class_means`.
        clips: (V, T, C, H, W) normalised synthetic clips, grouped by class, V / C for each.

    Returns:
        (C,) losses, and the gradient of their sum with respect to `clips`, of the same shape.
    """
    num_classes = len(real)
    vpc = len(clips) // num_classes
    losses, gradients = [], []
    for classes in torch.arange(num_classes).split(max(1, chunk // vpc)):
        first, last = int(classes[0]), int(classes[-1]) + 1
        part = clips[first * vpc : last * vpc].detach().requires_grad_()
        embeddings = network.embed(part.transpose(1, 2))  # type: ignore[operator]
        loss = objective(real[first:last], embeddings.view(last - first, vpc, -1).mean(dim=1))
        losses.append(loss.detach())
        gradients += torch.autograd.grad(loss.sum(), part)
    return torch.cat(losses), torch.cat(gradients)
