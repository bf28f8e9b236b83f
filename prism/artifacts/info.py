"""A few facts about a store, a condensed set or a result."""

from pathlib import Path
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import FOLDER, JSON, RESULT, SET, STORE, TENSORS, kind_of
from prism.artifacts.results import Result, percent
from prism.artifacts.store import ClipStore
from prism.errors import ArtifactError


def describe(path: str | Path) -> dict[str, Any]:
    """Facts about an artifact, most telling first; ArtifactError if it is none."""
    path = Path(path)
    if not path.exists():
        raise ArtifactError(f"'{path}' does not exist.")
    kind = kind_of(path)
    if kind == STORE:
        store = ClipStore.open(path)
        return {
            "kind": "clip store",
            "classes": list(store.classes),
            "clips": {split: len(store.positions(split)) for split in store.splits},
            "num_frames": store.num_frames,
            "size": list(store.size),
            "flip": store.flip,
            "skipped": store.header.num_skipped,
            "bytes": store.clip_bytes * len(store),
            "settings": store.header.settings,
            "fingerprint": store.fingerprint,
        }
    if kind in (RESULT, JSON):
        result = Result.load(path)
        return {
            "kind": "result",
            "label": result.label,
            "task": result.task,
            **{f"{metric}_percent": percent(result.summary(metric)) for metric in result.metrics},
            **({"caution": result.caution} if result.caution else {}),
            "protocol": result.protocol,
            "method": result.subject.method,
            "videos": result.subject.num_videos,
            "bytes": result.subject.num_bytes,
            "float32_bytes": result.subject.float32_bytes,
            "config": result.config,
        }
    if kind in (SET, TENSORS):
        condensed = CondensedSet.load(path)
        return {
            "kind": "condensed set",
            "method": condensed.source.get("method", "unknown"),
            "classes": list(condensed.classes),
            "videos": len(condensed),
            "takes": condensed.takes,
            "keyframes": condensed.num_keyframes,
            "num_frames": condensed.num_frames,
            "size": list(condensed.size),
            "encoding": condensed.encoding.NAME,
            "storage": condensed.storage,
            "bytes": condensed.num_bytes,
            "float32_bytes": condensed.float32_bytes,
            "source": condensed.source,
        }
    remedy = " prism ingest makes a store of a folder of videos." if kind == FOLDER else ""
    raise ArtifactError(f"'{path}' is {kind}, and neither a clip store, a condensed set nor a result.{remedy}")


def in_brief(fact: Any) -> Any:
    """A fact for one line: of a list with more than twelve items its length and first ones."""
    if isinstance(fact, dict):
        return {key: in_brief(value) for key, value in fact.items()}
    is_long = isinstance(fact, list) and len(fact) > 12
    return f"{len(fact)}: {', '.join(map(str, fact[:3]))}, …" if is_long else fact
