"""Ranks: whether two lists of scores put candidates in one order, and how sure that is.

Scores have the shape (…, C) for C candidates, a higher one being better. Equal scores share a rank. A list in
which all scores are equal has no order: its correlation with any other is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from prism.machine.randomness import generator

DIGITS = 9
"""Scores that agree so far are equal: the mean of three shares depends on their order in the last bit."""


def kendall(scores: Tensor, others: Tensor) -> Tensor:
    """Kendall's τ-b of two lists of scores: pairs in one order less pairs in opposite orders, as a share.

    Args:
        scores, others: (…, C).

    Returns:
        (…), in −1..1. Of C candidates without equal scores, all in one order, it is 1.

    Source: Kendall, "The treatment of ties in ranking problems" (Biometrika 33, 1945).
    """
    ours, theirs = _orders(scores), _orders(others)
    agreeing, of_ours, of_theirs = (
        (a * b).sum((-2, -1)) for a, b in ((ours, theirs), (ours, ours), (theirs, theirs))
    )
    return _share(agreeing, of_ours, of_theirs)


def spearman(scores: Tensor, others: Tensor) -> Tensor:
    """Spearman's ρ of two lists of scores: the correlation of their ranks, equal scores having the mean one.

    Args:
        scores, others: (…, C).

    Returns:
        (…), in −1..1.

    Source: Spearman, "The proof and measurement of association between two things" (1904).
    """
    # The sum of a row of orders is twice its rank, counted from the middle.
    ours, theirs = _orders(scores).sum(-1), _orders(others).sum(-1)
    return _share((ours * theirs).sum(-1), (ours * ours).sum(-1), (theirs * theirs).sum(-1))


def regret(full: Tensor, scores: Tensor) -> Tensor:
    """What is lost by the choice of the candidate with the best score: full's best less full's score of it.

    Args:
        full: (…, C), the scores that count.
        scores: (…, C), those that choose; of several best ones the mean loss.

    Returns:
        (…), 0 or more, in the unit of `full`.
    """
    is_picked = best(scores).to(full.dtype)
    return full.amax(-1) - (full * is_picked).sum(-1) / is_picked.sum(-1)


def best(scores: Tensor) -> Tensor:
    """(…, C): True at the best of the scores (…, C), at several where they are equal."""
    rounded = scores.round(decimals=DIGITS)
    return rounded == rounded.amax(-1, keepdim=True)


def _orders(scores: Tensor) -> Tensor:
    """(…, C, C): 1 where the first of a pair is better, −1 where the second is, 0 where they are equal."""
    rounded = scores.double().round(decimals=DIGITS)
    return (rounded[..., :, None] - rounded[..., None, :]).sign()


def _share(both: Tensor, ours: Tensor, theirs: Tensor) -> Tensor:
    whole = (ours * theirs).sqrt()
    return torch.where(whole > 0, both / whole.clamp(min=1e-300), 0.0)


MOST_PAIRS = 2**22
"""Pairs of candidates that are compared at a time, over all draws; each takes 8 bytes several times."""
MEASURES = {"tau": kendall, "rho": spearman, "regret": lambda scores, full: regret(full, scores)}
"""What is measured of the scores on a set and those on all clips."""


@dataclass(frozen=True)
class Agreement:
    """How well sets of one kind put candidates in the order of the full data.

    Attributes:
        values: for each key of `MEASURES` its mean over the sets.
        draws: for each key (B,), the same of every draw of the bootstrap.
    """

    values: Mapping[str, float]
    draws: Mapping[str, Tensor]

    def interval(self, measure: str, level: float) -> tuple[float, float]:
        """The percentiles of the bootstrap between which the share `level` of its draws lies."""
        return _percentiles(self.draws[measure], level)

    def lead(self, other: "Agreement", measure: str, level: float) -> tuple[float, float, float]:
        """How far a measure lies above that of another kind, and its interval over the same candidates."""
        low, high = _percentiles(self.draws[measure] - other.draws[measure], level)
        return self.values[measure] - other.values[measure], low, high


def _percentiles(draws: Tensor, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = torch.quantile(draws, torch.tensor([tail, 1 - tail], dtype=draws.dtype)).tolist()
    return low, high


def agreement(full: Tensor, scores: Tensor, *, kind: str, seed: int, resamples: int) -> Agreement:
    """Measure how well sets of one kind put candidates in the order of the full data, with a bootstrap.

    A draw of the bootstrap takes as many candidates as there are, with repetition; for each of these as many
    networks on all clips as it has; as many sets; and for each candidate and set as many networks. Candidates and
    networks on all clips are the same in a draw whatever the kind, so that kinds can be compared draw by draw.

    Args:
        full: (C, K), the scores of K networks of each candidate on all clips.
        scores: (S, C, M), those of M networks of each candidate on each of S sets.
        kind: the name of the kind, which gives it sets and networks of its own.
        seed: of the bootstrap.
        resamples: draws (B), one or more.
    """
    full, scores = full.double(), scores.double()
    means = full.mean(-1)
    values = {name: float(of(scores.mean(-1), means).mean()) for name, of in MEASURES.items()}
    shared, own = generator(seed, "resample"), generator(seed, "resample", kind)
    num_sets, num_candidates, num_networks = scores.shape
    shape = (resamples, num_candidates)
    candidates = torch.randint(num_candidates, shape, generator=shared)
    networks = torch.randint(full.shape[1], (*shape, full.shape[1]), generator=shared)
    drawn_full = full[candidates[..., None], networks].mean(-1)
    total = {name: torch.zeros(resamples, dtype=torch.float64) for name in MEASURES}
    for _ in range(num_sets):
        sets = torch.randint(num_sets, (resamples, 1, 1), generator=own)
        networks = torch.randint(num_networks, (*shape, num_networks), generator=own)
        drawn = scores[sets, candidates[..., None], networks].mean(-1)
        parts = [some.split(max(1, MOST_PAIRS // num_candidates**2)) for some in (drawn, drawn_full)]
        for name, of in MEASURES.items():
            total[name] += torch.cat(list(map(of, *parts))) / num_sets
    return Agreement(values, total)


def own_agreement(full: Tensor) -> dict[str, float] | None:
    """How well the networks on all clips agree with themselves: each against the mean of the others.

    A set that ranked exactly as the full data does, with one network of each candidate, would reach about this.

    Args:
        full: (C, K), the scores of K networks of each candidate.

    Returns:
        For each key of `MEASURES` its mean over the K; None for one network.
    """
    num = full.shape[1]
    if num < 2:
        return None
    full = full.double()
    one = full.T
    others = (full.sum(-1) - one) / (num - 1)
    return {name: float(of(one, others).mean()) for name, of in MEASURES.items()}
