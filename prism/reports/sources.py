"""Sources: the sets and stores that results name, found again, or a sentence that says why not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.config import as_path
from prism.errors import ConfigError, PrismError
from prism.reports.text import sentence


def load_results(paths: Sequence[str | Path]) -> list[Result]:
    """The results of files, each once; no file, or a `Result` in place of one, is refused."""
    if not paths:
        raise ConfigError("report needs at least one result file, as prism evaluate writes them.")
    if any(isinstance(given, Result) for given in paths):
        needed = "report needs the file of a result, not the result itself: by the file's place it finds the set"
        raise ConfigError(f"{needed} and the store. The verb that made it writes one with output=.")
    places = [as_path(path, "the path of a result") for path in paths]
    return [Result.load(path) for path in {path.resolve(): path for path in places}.values()]


@dataclass(frozen=True)
class SetFile:
    """A condensed set that one or more results were made of, as far as it can be shown.

    Attributes:
        name: the labels of those results, sorted, with the file's name where another set has the same.
        problem: a sentence on why the set is not there.
    """

    path: Path
    name: str
    condensed: CondensedSet | None = None
    problem: str = ""


def find_sets(results: Sequence[Result]) -> list[SetFile]:
    """The sets of results, each once, by label and path."""
    users: dict[Path, list[Result]] = {}
    for one in results:
        if one.subject.kind == "condensed" and one.subject.path:
            users.setdefault(one.locate(one.subject.path), []).append(one)
    labels = {path: sorted({one.label for one in some}) for path, some in users.items()}
    shared = Counter(map(tuple, labels.values()))
    found = []
    for path in sorted(users, key=lambda path: (labels[path], str(path))):
        name = " / ".join(labels[path])
        name += f" ({path.stem})" if shared[tuple(labels[path])] > 1 else ""
        found.append(_open_set(path, name, users[path]))
    return found


def _open_set(path: Path, name: str, results: Sequence[Result]) -> SetFile:
    try:
        condensed = CondensedSet.load(path)
    except (PrismError, OSError) as error:
        return SetFile(path, name, None, f"Set {name} cannot be shown: {error}")
    ours = (len(condensed), condensed.num_keyframes, condensed.float32_bytes, path.stat().st_size)
    subjects = [one.subject for one in results]
    is_same = all(ours == (s.num_videos, s.num_keyframes, s.float32_bytes, s.num_bytes) for s in subjects)
    # Results of earlier versions name no fingerprint.
    if not is_same or any(s.fingerprint not in ("", condensed.fingerprint) for s in subjects):
        changed = f"Set '{path}' has changed since it was evaluated. Its videos are not shown."
        return SetFile(path, name, None, changed)
    return SetFile(path, name, condensed)


def find_store(results: Sequence[Result]) -> tuple[ClipStore | None, str]:
    """The store that results with one fingerprint were scored on, or a sentence that says why it is missing."""
    problem = ""
    for path in sorted({one.locate(one.data.path) for one in results}):
        try:
            store = ClipStore.open(path, verify=False)
        except (PrismError, OSError) as error:
            problem = problem or f"{sentence(str(error))} No real clips are shown beside the videos."
            continue
        if store.fingerprint == results[0].data.fingerprint:
            return store, ""
        problem = f"Store '{path}' holds other clips than the results were scored on. They are not shown."
    return None, problem
