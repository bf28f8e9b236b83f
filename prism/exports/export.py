"""The verb `prism export`: checks, the files of the format, the card, and what was lost on the way."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import check_output_kind
from prism.artifacts.results import Result
from prism.config import as_dict, as_path
from prism.errors import ConfigError
from prism.exports.card import card_text
from prism.exports.format import Format, Loss
from prism.exports.options import FORMATS, ExportConfig
from prism.machine.files import (
    check_output_folder,
    discard_older,
    lock,
    partial_path,
    replace_atomically,
    replace_folder,
    sync_folder,
    write_synced,
    writing,
)
from prism.machine.progress import progress_bar
from prism.machine.run import OUTPUT, Run, split_options
from prism.machine.text_io import canonical_json, parse_json, read_text
from prism.reports.text import counted, in_bytes, printable

MARK = "prism.json"
"""What marks a folder as an export; `prism ingest` reads in it whether a flip keeps the labels."""
MADE_BY = "prism export"
CARD = "README.md"


@dataclass(frozen=True)
class Export:
    """What was exported.

    Attributes:
        path: the folder or file.
        num_videos: videos in it.
        num_bytes: bytes of all its files.
        loss: how far the clips that its readers see are from those of the set.
    """

    path: Path
    num_videos: int
    num_bytes: int
    loss: Loss

    def __str__(self) -> str:
        said = f"Wrote {self.path}: {counted(self.num_videos, 'video')}, {in_bytes(self.num_bytes)}."
        return f"{said} {self.loss}" if self.loss.num_values else said


def export(
    condensed: CondensedSet | str | Path,
    output: str | Path,
    config: ExportConfig | None = None,
    run: Run | None = None,
    *,
    result: Result | str | Path | None = None,
    **options: Any,
) -> Export:
    """Write the videos of a condensed set in a format that other tools read.

    Args:
        condensed: the set, or its file.
        output: the folder to make, or the file for the formats `gif`, `webp` and `mp4`; it appears when it is
            complete.
        config: the format and its options.
        run: how it runs.
        result: scores of the set for the card of a folder, or their file.
        options: fields of `ExportConfig` and of `prism.machine.run.Run`, in place of those above.

    Returns:
        What was written, and what of the set's clips other decoders do not see.

    Raises:
        ConfigError: the set does not fit the format, or the result is not its own.
        ArtifactError, ArtifactError: the set's file or the result cannot be used.
        OutputError: the output exists, is no export, cannot be written, or another run is writing it.
    """
    config, run = split_options(ExportConfig, config, run, options)
    reads = condensed, result
    condensed = condensed if isinstance(condensed, CondensedSet) else CondensedSet.load(condensed)
    form: Format = FORMATS.make(config.to, config)
    result = result if isinstance(result, Result | None) else Result.load(result)
    _check_result(condensed, form, config, result)
    form.check(condensed.apart())
    output = as_path(output, OUTPUT)
    _check_ending(output, form, as_dict(config)["to"])
    with lock(output):
        discard_older(output)
        _check_free(output, form, run.overwrite, reads)
        partial = partial_path(output)
        try:
            with writing(output):
                _remove(partial)
                made = _write(condensed, form, config, result, partial, run.progress)
                (replace_folder if form.is_folder else replace_atomically)(partial, output)
        finally:
            _remove(partial)
    return Export(output, *made)


def _write(
    condensed: CondensedSet, form: Format, config: ExportConfig, result: Result | None, path: Path, progress: bool
) -> tuple[int, int, Loss]:
    """Fill the folder, or write the file; returns the number of videos, the bytes and the loss."""
    videos, loss, num = condensed.apart(), Loss(), 0
    if form.is_folder:
        path.mkdir()
    with progress_bar("Exporting", len(videos), "videos", enabled=progress) as advance:
        for clip, shown in form.write(videos, path):
            loss.add(clip, shown)
            num += 1
            advance()
    if not form.is_folder:
        return num or len(videos), path.stat().st_size, loss
    write_synced(path / "classes.txt", "".join(f"{printable(name)}\n" for name in condensed.classes).encode())
    files = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    mark = {"entries": sorted({CARD, MARK, *files}), "flip": condensed.flip, "made_by": MADE_BY}
    write_synced(path / MARK, (canonical_json(mark) + "\n").encode())
    num_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    write_synced(path / CARD, card_text(condensed, form, config, result, loss, num_bytes).encode())
    sync_folder(path)
    return num, num_bytes, loss


def _check_result(condensed: CondensedSet, form: Format, config: ExportConfig, result: Result | None) -> None:
    if result is None:
        return
    if not form.is_folder:
        raise ConfigError(
            f"a result goes onto the card of a folder, which the format {as_dict(config)['to']} has not. "
            "Leave out --result."
        )
    if result.subject.fingerprint != condensed.fingerprint:
        raise ConfigError(
            f"the result '{result.label}' is that of another set: its fingerprint differs. Give the result of "
            "prism evaluate on this set."
        )


def _check_ending(output: Path, form: Format, name: str) -> None:
    """Refuse a name that ends like another format's file: a folder `set.gif` is what nobody wanted."""
    ending = output.suffix.lower().removeprefix(".")
    if ending in FORMATS.registry and ending != name and (form.is_folder or name in FORMATS.registry):
        what = "fills a folder" if form.is_folder else "is another one"
        raise ConfigError(
            f"output '{output}' ends as the format {ending} does, but the format {name} {what}. "
            f"Pass --to {ending}, or choose another name."
        )


def _check_free(output: Path, form: Format, overwrite: bool, reads: Iterable[object]) -> None:
    if form.is_folder:
        what = "a folder that prism export has written"
        check_output_folder(output, overwrite, MARK, what, _entries(output), MADE_BY, reads)
    else:
        check_output_kind(output, "a file of prism export", overwrite, reads)


def _entries(output: Path) -> list[str] | None:
    """What an earlier export put into its folder; None where its mark does not say."""
    try:
        return list(map(str, parse_json(read_text(output / MARK))["entries"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
