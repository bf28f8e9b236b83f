"""Data set objects as a source: items with frames and a label, as in Hugging Face datasets and torchvision.

Every item becomes a folder of lossless pictures; a CSV list names the folders, and is ingested like any list.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from prism.errors import ClipError, SourceError
from prism.ingestion.decode import as_rgb
from prism.ingestion.listing import SPLIT_NAMES, DataSet
from prism.machine.files import writing
from prism.machine.progress import progress_bar
from prism.machine.text_io import as_text, csv_text, reason

VIDEO_KEYS, LABEL_KEYS = ("video", "frames"), ("label", "labels")
"""Keys of the frames and of the label in an item that is a dictionary."""


def write_items(source: DataSet, folder: Path, progress: bool) -> Path:
    """Write the items of a data set object to a folder; return the path of the CSV list of its videos."""
    rows, allowed = [], ", ".join(SPLIT_NAMES)
    for split, items in source.items() if isinstance(source, Mapping) else [("", source)]:
        if split and split not in SPLIT_NAMES:
            raise SourceError(f"the data set has the split {split!r}, but it must be one of {allowed}.")
        # Class names for labels that are numbers: in `features` of Hugging Face, in `classes` of torchvision.
        owner: Any = items
        while hasattr(owner, "dataset") and hasattr(owner, "indices"):
            owner = owner.dataset  # A `Subset` of PyTorch, as `random_split` makes.
        # Other data sets have attributes of these names: features of their own, or a number of classes.
        features = features if isinstance(features := getattr(owner, "features", None), Mapping) else {}
        named = (getattr(features.get(key), "names", None) for key in LABEL_KEYS)
        names = next(filter(None, named), getattr(owner, "classes", None))
        names = cast(Any, names) if isinstance(names, list | tuple | np.ndarray) else None
        with progress_bar("Reading", None, "items", enabled=progress) as advance:
            for number, item in enumerate(_each(items)):
                path = f"{split}/{number:07}".lstrip("/")
                where = f"item {number} of the {split or 'whole'} data set"
                frames, label, group = _parts(item, names, where)
                with writing(folder):
                    (folder / path).mkdir(parents=True)
                    for index, frame in enumerate(_frames(frames, where)):
                        Image.fromarray(frame).save(folder / path / f"{index}.png", compress_level=1)
                rows.append((path, label, split, group))
                advance()
    path = folder / "list.csv"
    with writing(folder):
        path.write_text(csv_text(("path", "label", "split", "group"), rows), encoding="utf-8")
    return path


def _each(items: Any) -> Iterator[Any]:
    # Only the length ends many data sets: an index beyond it may give anything. Those of PyTorch that can only be
    # iterated have a `__getitem__` as well, which fails.
    is_iterable_only = any(kind.__name__ == "IterableDataset" for kind in type(items).__mro__)
    if hasattr(items, "__getitem__") and hasattr(items, "__len__") and not is_iterable_only:
        return map(items.__getitem__, range(len(items)))
    if not isinstance(items, Iterable):
        kind = type(items).__name__
        raise SourceError(f"the source is of type {kind}, but it must be a folder, a list or a data set.")
    return iter(items)


def _parts(item: Any, names: Sequence[str] | None, where: str) -> tuple[Any, str, str]:
    """The frames, class and recording of an item; other values, such as audio, are ignored."""
    frames, label, group = None, None, ""
    if isinstance(item, Mapping):
        frames, label = (next((item[k] for k in keys if k in item), None) for keys in (VIDEO_KEYS, LABEL_KEYS))
        group = item.get("group")
    elif isinstance(item, tuple | list) and len(item) > 1:
        frames, label = item[0], item[-1]
    if frames is None or label is None:
        raise ClipError(f"{where} must be (frames, label), or a table with 'video' and 'label'.")
    if not isinstance(label, str):
        most, number = len(names) if names is not None else 2**31, -1
        with suppress(TypeError):
            number = operator.index(cast(Any, label))
        if not 0 <= number < most:
            known = "0, 1, …" if names is None else f"0..{most - 1}"
            raise ClipError(f"{where} has the label {str(label)[:80]!r}, but it must be a name or one of {known}.")
        label = str(number if names is None else names[number])
    # pandas has nan, NaT or <NA> for a missing group.
    group = "" if not isinstance(group, str) and str(group) in ("None", "nan", "NaT", "<NA>") else str(group)
    return frames, _plain(label, "label", where), group and _plain(group, "group", where)


def _plain(text: str, what: str, where: str) -> str:
    """The text of a label or group, if a CSV list gives it back unchanged; else a ClipError."""
    if not text or text != text.strip() or text != as_text(text) or re.search(r"[\0\r\n]", text):
        allowed = "one line of text, in UTF-8 and without a zero byte or spaces at its ends"
        raise ClipError(f"{where} has the {what} {text[:80]!r}, but it must be {allowed}.")
    return text


def _frames(video: Any, where: str) -> np.ndarray:
    """The frames of an item as (T, H, W, 3) uint8, from an array, a tensor or a sequence of frames."""
    try:
        if not hasattr(video, "shape"):
            video = [np.asarray(as_rgb(one) if isinstance(one, Image.Image) else one) for one in video]
        frames = np.asarray(video)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        raise ClipError(f"{where} has frames that cannot be read: {reason(error)}.") from None
    if frames.ndim == 4 and frames.shape[1] == 3 != frames.shape[-1]:
        frames = frames.transpose(0, 2, 3, 1)
    most = {"f": 1, "i": 255, "u": 255}.get(frames.dtype.kind, -1)
    is_right = frames.ndim == 4 and frames.shape[-1] == 3 and frames.size
    if not (is_right and frames.min() >= 0 and frames.max() <= most):
        values = f", values {frames.min():.3g} to {frames.max():.3g}" if is_right else ""
        problem = f"frames of {frames.dtype} with shape {frames.shape}{values}"
        allowed = "(T, H, W, 3) or (T, 3, H, W), whole numbers of 0..255 or floats of 0..1"
        raise ClipError(f"{where} has {problem}, but they must be {allowed}.")
    return (frames if most == 255 else 255 * frames.astype(np.float32) + 0.5).astype(np.uint8)
