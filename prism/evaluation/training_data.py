"""The clips that networks are trained on, of a condensed set or of a store, and their record in a result."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Subject, relative_to_result
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.evaluation.options import EvaluateConfig
from prism.machine.randomness import generator
from prism.networks.training import Draw

RENDERING = Lock()
"""Networks that begin together would each render a copy of their own."""


class TrainingData:
    """Clips of a condensed set, or training clips of a store: all, or `train_vpc` of each class, drawn by seed."""

    def __init__(self, source: CondensedSet | ClipStore, subject: Subject, train_vpc: int = 0) -> None:
        self.source, self.subject, self.train_vpc = source, subject, train_vpc
        self._rendered: Clips | None = None

    def clips(self, seed: int) -> Clips | Draw:
        """The clips for the network of a seed; of a set that is random they are drawn anew in every epoch."""
        if isinstance(self.source, ClipStore):
            every = self.source.clips("train")
            if not self.train_vpc:
                return every
            return every.subset(self.source.sample(self.train_vpc, generator(seed, "subset")))
        if self.source.is_random:
            return self.source.clips
        with RENDERING:
            if self._rendered is None:
                self._rendered = self.source.clips()
            return self._rendered


def of_set(
    given: CondensedSet | str | Path, store: ClipStore, config: EvaluateConfig, output: Path | None
) -> TrainingData:
    """A condensed set, or its file, for a result at `output`; refused where it does not fit the store."""
    condensed = given if isinstance(given, CondensedSet) else CondensedSet.load(given)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError(
            "evaluate.train_vpc needs a store to --train on; a condensed set is trained on as a whole."
        )
    made_by, made_from = condensed.source.get("config"), condensed.source.get("store")
    subject = Subject(
        kind="condensed",
        path="" if isinstance(given, CondensedSet) else relative_to_result(given, output),
        method=str(condensed.source.get("method", "unknown")),
        num_videos=len(condensed),
        num_keyframes=condensed.num_keyframes,
        num_bytes=condensed.num_bytes,
        float32_bytes=condensed.float32_bytes,
        config=made_by if isinstance(made_by, dict) else {},
        fingerprint=condensed.fingerprint,
        stored_clips=condensed.stored_clips,
        # A set of another tool does not say where its clips are from.
        made_from=made_from if isinstance(made_from, str) and not store.is_source(made_from) else "",
        videos=replace(condensed, source={}).fingerprint,
    )
    return TrainingData(condensed, subject)


def of_store(source: ClipStore, store: ClipStore, config: EvaluateConfig, output: Path | None) -> TrainingData:
    """The training clips of a store, for a result at `output`; refused where they do not fit the scored store."""
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), "evaluate.train_vpc")
    counts = source.counts("train")
    num_clips = int((counts.clamp(max=config.train_vpc) if config.train_vpc else counts).sum())
    num_bytes = num_clips * source.clip_bytes
    is_own = source.fingerprint == store.fingerprint
    # After another cut of the splits a video keeps its class, path and length.
    trained, scored = (
        {(one.label, one.path, one.video_frames) for one in map(some.sources.__getitem__, some.positions(split))}
        for some, split in ((source, "train"), (store, config.split))
    )
    subject = Subject(
        kind="store",
        path=relative_to_result(source.path, output),
        method="subset" if config.train_vpc else "full",
        num_videos=num_clips,
        num_keyframes=num_clips * source.num_frames,
        num_bytes=num_bytes,
        float32_bytes=4 * num_bytes,
        config={},
        fingerprint=source.fingerprint,
        shared_videos=0 if is_own else len(trained & scored),
    )
    return TrainingData(source, subject, config.train_vpc)


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    if source.classes != store.classes:
        # Labels are positions in the order of the classes.
        differ = sorted(set(source.classes) ^ set(store.classes))
        how = (
            f"different classes: only one of them has '{differ[0]}'" if differ else "their classes in other orders"
        )
        raise ConfigError(f"{what} and the data '{store.path}' have {how}. Name the store of {what} with --data.")
    for name in ("num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            option = f"--{name.replace('_', '-')} {source.size[0] if name == 'size' else ours}"
            raise ConfigError(
                f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}. "
                f"Ingest the data again with {option}."
            )
