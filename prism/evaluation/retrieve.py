"""Retrieval: whether an embedding learned from a set brings real clips of one class together."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.evaluation.options import VIEWS, RetrieveConfig
from prism.evaluation.runs import RENAMED, Task, run_task
from prism.machine.run import Run, split_options
from prism.networks.embeddings import Backbone
from prism.networks.network import Network
from prism.networks.training import Draw, check_outputs, outputs_of, train

KS = (1, 5, 10, 20)
QUERIES = 256
"""Queries that are compared with the gallery at a time."""


def retrieve(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: RetrieveConfig | None = None,
    run: Run | None = None,
    *,
    train_store: ClipStore | str | Path | None = None,
    label: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Result:
    """Train embeddings on a set and score each once, by the real training clips nearest to each real query.

    Args:
        condensed, train_store, label, workers, options: as for `prism.evaluate`, and the errors as well.
        data: the store whose `config.split` are the queries and whose training clips are the gallery.
        config: network, loss and schedule.
        run: how it runs; its output is the result file, which is written after every seed.

    Raises:
        ConfigError: the gallery is too small.
    """
    config, run = split_options(RetrieveConfig, config, run, options, RENAMED)
    return run_task(Retrieval, condensed, data, config, run, train_store, label, workers)


def supervised_contrastive(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss, the mean over all clips that have a positive.

    Args:
        embeddings: (B, D), of any length; they are normalised here.
        labels: (B,). Every other clip of a clip's class is its positive, and all others are contrasted.
        temperature: the scale of the cosines.

    Source: Khosla et al., "Supervised contrastive learning" (NeurIPS 2020), equation 2.
    """
    points = functional.normalize(embeddings, dim=1)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    cosines = (points @ points.T / temperature).masked_fill(itself, -math.inf)
    log_share = cosines - cosines.logsumexp(dim=1, keepdim=True)
    is_positive = (labels[:, None] == labels) & ~itself
    num_positives = is_positive.sum(dim=1)
    of_each = -log_share.masked_fill(~is_positive, 0).sum(dim=1) / num_positives.clamp(min=1)
    return of_each.sum() / (num_positives > 0).sum().clamp(min=1)


def recall_at(
    queries: Tensor, query_labels: Tensor, gallery: Tensor, gallery_labels: Tensor, ks: tuple[int, ...] = KS
) -> dict[str, float]:
    """Share of queries (Q, D), in 0..1, with a clip of their class among the K nearest of the gallery by cosine.

    The gallery (G, D) has at least as many clips as the largest K. The keys are `r1`, `r5`, …, by K.
    """
    directions = functional.normalize(gallery, dim=1)
    hits = []
    for points, labels in zip(queries.split(QUERIES), query_labels.split(QUERIES), strict=True):
        nearest = (functional.normalize(points, dim=1) @ directions.T).topk(max(ks), dim=1).indices
        hits.append(gallery_labels[nearest] == labels[:, None])
    found = torch.cat(hits)
    return {f"r{k}": float(found[:, :k].any(dim=1).double().mean()) for k in ks}


def chance_of_recall(query_labels: Tensor, gallery_labels: Tensor, ks: tuple[int, ...] = KS) -> dict[str, float]:
    """The recall that is expected of K different clips drawn from the gallery at random."""
    size = len(gallery_labels)
    others = [size - int((gallery_labels == label).sum()) for label in query_labels.unique()]
    weights = [float((query_labels == label).double().mean()) for label in query_labels.unique()]
    return {
        f"r{k}": sum(w * (1 - math.comb(n, k) / math.comb(size, k)) for w, n in zip(weights, others, strict=True))
        for k in ks
    }


@dataclass(frozen=True)
class Retrieval(Task):
    """A network is trained to embed the clips of a class together, and scored by the neighbours of each query."""

    NAME = "retrieval"
    DOING = "Retrieving"
    config: RetrieveConfig

    def check(self) -> None:
        self.store.clips(self.config.split)
        num_searched = len(self.store.clips("train"))
        if num_searched < max(KS):
            raise ConfigError(
                f"Recall@{max(KS)} needs {max(KS)} clips to search, but '{self.store.path}' has {num_searched} "
                "training clips. Ingest more."
            )

    @property
    def chance(self) -> dict[str, float]:
        return chance_of_recall(self.store.clips(self.config.split).labels, self.store.clips("train").labels)

    def train_and_score(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        store, config, backbone = self.store, self.config, Backbone(network)
        schedule, normalisation = config.schedule, store.normalisation
        criterion = partial(supervised_contrastive, temperature=config.temperature)
        flip, how = store.flip, {"criterion": criterion, "advance": self.advance}
        loss = train(backbone, clips, normalisation, schedule, seed=seed, flip=flip, **how)
        queries, gallery = store.clips(config.split), store.clips("train")
        # In batches no larger than those of training, so that scoring takes no more memory.
        size = VIEWS * min(config.batch_size, self.data.subject.num_videos)
        q, g = (outputs_of(backbone, shown, normalisation, size) for shown in (queries, gallery))
        check_outputs(torch.cat([q, g]), seed, schedule)
        return loss, recall_at(q, queries.labels, g, gallery.labels)
