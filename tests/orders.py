"""Rankings with scores of our own, for tests that train nothing."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from prism.artifacts.rankings import FULL, RankedSet, RankedTrial, Ranking
from prism.artifacts.results import Data, Subject
from prism.config import as_dict
from prism.evaluation.options import Candidate, RankConfig

VERSIONS = {"prism": "0.1.0", "torch": "2", "python": "3"}


def subject(method: str, number: int, **config: object) -> Subject:
    """A set of ten clips; `number` is its seed."""
    return Subject(
        "condensed",
        f"{method}-{number}.safetensors",
        method,
        10,
        20,
        60_000,
        240_000,
        {"vpc": 1, "seed": number, **config},
        f"{method}{number}",
    )


def ranking_of(full: Tensor | Sequence[Sequence[float]], **kinds: object) -> Ranking:
    """A ranking of scores (C, K) on all clips, and (S, C, M) on the S sets of each kind by its name.

    The first half of the candidates are ConvNet3Ds, the others CNN+GRUs. A network takes 1 second on a set and 9
    on all clips.
    """
    tables: Mapping[str, Tensor] = {name: torch.as_tensor(scores) for name, scores in kinds.items()}
    full = torch.as_tensor(full)
    num = len(full)
    networks = ["convnet3d" if place < num / 2 else "cnn-gru" for place in range(num)]
    candidates = {
        f"candidate{place}": as_dict(Candidate(model=model, lr=0.01 * (place + 1)))
        for place, model in enumerate(networks)
    }
    seeds = {len(one) for table in tables.values() for one in table[0]}
    config = as_dict(RankConfig(seeds=seeds.pop(), full_seeds=full.shape[1]))
    sets = [
        RankedSet(f"{name}-{number}", subject(name, number), 50.0)
        for name, table in tables.items()
        for number in range(len(table))
    ]
    whole = Subject("store", "store", "full", 500, 4000, 10**7, 4 * 10**7, {}, "store")
    data = Data("store", "store", "val", 100, 10, {"top1": 0.1}, 4 * 10**7)
    empty = Ranking(candidates, config, data, whole, tuple(sets), (), VERSIONS)
    of_sets = [one for table in tables.values() for one in table]
    scores = {FULL: full, **dict(enumerate(of_sets))}
    trials = tuple(
        RankedTrial(place, number, seed, float(scores[number][place, at]), 9.0 if number == FULL else 1.0)
        for place in range(num)
        for number, chosen in empty.expected.items()
        for at, seed in enumerate(chosen)
    )
    return Ranking(candidates, config, data, whole, tuple(sets), trials, VERSIONS)
