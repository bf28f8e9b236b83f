"""Training a network on clips by a schedule, and its outputs."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from prism.artifacts.clips import Clips, Standardisation, flip_at_random, mirror, shift_at_random, to_model_input
from prism.errors import AGAIN, DivergedError
from prism.machine.devices import explained, send
from prism.machine.progress import Advance, no_progress
from prism.machine.randomness import generator
from prism.networks.feed import Feed
from prism.networks.initial import initialise
from prism.networks.network import Network, check_output, use_generator
from prism.networks.options import Schedule
from prism.networks.sgd import SGD

Draw = Callable[[Generator], Clips]
"""Draws the clips of an epoch from a generator; their number and labels are the same in every epoch."""

within_memory = partial(explained, "--width, or where there is one --hidden or --batch-size", AGAIN)


def train(
    network: nn.Module,
    clips: Clips | Draw,
    normalisation: Standardisation,
    schedule: Schedule,
    *,
    seed: int,
    flip: bool | Tensor,
    advance: Advance = no_progress,
) -> float:
    """Train a network by SGD with momentum 0.9 and weight decay 5e-4; returns the mean loss of the last epoch.

    The network starts from fresh initial values, where it stays with 0 epochs; the loss is 0 then.

    Args:
        network: its values are replaced.
        clips: on the CPU; batches move to the network's device. A `Draw` is called in every epoch.
        seed: seed of initial values, order, dropout, flips, shifts and drawn clips.
        flip: True mirrors a clip at random each time that it is shown, a bool mask (N,) the same clips every time.
        advance: called after every epoch.

    Raises:
        DivergedError: the loss is not finite.
    """
    device = next(network.parameters()).device
    # Each kind of draw has its own stream: without flips the order stays the same. All are drawn on the CPU, to be
    # the same for every device, except dropout masks, which are too many to be sent.
    initialise(network, generator(seed, "init"))
    use_generator(network, generator(seed, "dropout", device=device))
    order, flips, shifts = (generator(seed, name) for name in ("order", "flip", "shift"))
    optimizer = SGD([list(network.parameters())], momentum=0.9, weight_decay=5e-4)
    feed, mean_loss = None, 0.0
    for epoch in range(schedule.epochs):
        shown = clips if isinstance(clips, Clips) else clips(generator(seed, "clips", epoch))
        if feed is None or shown is not clips:
            feed = Feed(shown.frames, device)
        total = torch.zeros((), device=device)
        network.train()
        for batch in torch.randperm(len(shown), generator=order).split(schedule.batch_size):
            # Flips and shifts only move pixels, which a GPU does in a hundredth of the time.
            frames, labels = feed.rows(batch), send(shown.labels[batch], device)
            if isinstance(flip, Tensor):
                frames = mirror(frames, flip[batch])
            elif flip:
                frames = flip_at_random(frames, flips)
            if schedule.shift:
                frames = shift_at_random(frames, schedule.shift, shifts)
            inputs = to_model_input(frames, normalisation)
            outputs = network(inputs)
            if isinstance(network, Network):
                check_output(network, "forward", outputs, inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            if schedule.max_grad_norm:
                nn.utils.clip_grad_norm_(network.parameters(), schedule.max_grad_norm)
            optimizer.step([schedule.rate(epoch)])
            # Summed on the device and read once an epoch: reading a loss would wait for the GPU at every step.
            total += loss.detach() * len(labels)
        mean_loss = float(total) / len(shown)
        if not math.isfinite(mean_loss):
            raise diverged(f"the training loss of seed {seed} is not finite in epoch {epoch + 1}", schedule)
        advance()
    return mean_loss


def diverged(problem: str, schedule: Schedule) -> DivergedError:
    limit = "" if schedule.max_grad_norm else "--max-grad-norm 20 or "
    return DivergedError(f"{problem}. Try {limit}--lr {schedule.lr / 10:g}.")


@torch.no_grad()
def outputs_of(
    network: nn.Module,
    clips: Clips,
    normalisation: Standardisation,
    batch_size: int,
    flips: Generator | None = None,
    method: Literal["embed", "forward"] = "forward",
) -> Tensor:
    """Outputs (N, …) of a method of a network, on the CPU; `flips` draws which clips are mirrored, half of them.

    The network is left in eval mode. Unless each batch is standardised, no row depends on its batch.
    """
    feed, found = Feed(clips.frames, next(network.parameters()).device), []
    network.eval()
    for batch in torch.arange(len(clips)).split(batch_size):
        frames = feed.rows(batch)
        inputs = to_model_input(flip_at_random(frames, flips) if flips else frames, normalisation)
        found.append(getattr(network, method)(inputs))
        if isinstance(network, Network):
            check_output(network, method, found[-1], inputs)
    return torch.cat([outputs.float() for outputs in found]).cpu()


def guessed_right(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """(N,) whether the label of a row is among its k largest logits."""
    guesses = logits.topk(min(k, logits.shape[1]), dim=1).indices
    return (guesses == labels[:, None]).any(dim=1)
