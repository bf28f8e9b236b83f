"""The verb `prism export`: it checks options, writes the files and the page for the Hub, and measures the loss."""

import json
import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import STORE, kind_of
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.config import as_path, chosen
from prism.errors import ConfigError
from prism.exports.options import FORMATS, ExportConfig
from prism.exports.videos import Format, sheet_of
from prism.machine.devices import plain_torch
from prism.machine.files import (
    check_output_file,
    check_output_folder,
    lock,
    new_folder,
    replace_atomically,
    replace_folder,
    write_synced,
    writing,
)
from prism.machine.progress import note, progress_bar
from prism.machine.run import Run, split_options
from prism.machine.text_io import canonical_json, parse_json, printable, read_text
from prism.reports.text import counted, in_bytes

MARK, MADE_BY = "prism.json", "prism export"


@dataclass(frozen=True)
class Export:
    """An export: its folder or file, its videos and bytes.

    Attributes:
        psnr: peak signal-to-noise ratio in dB (peak 1) of the exported clips against the clips of the set;
            infinite if nothing is lost, None for a picture, from which no clips are read.
    """

    path: Path
    num_videos: int
    num_bytes: int
    psnr: float | None

    def __str__(self) -> str:
        said = f"Wrote {self.path}: {counted(self.num_videos, 'video')}, {in_bytes(self.num_bytes)}."
        return said if self.psnr is None else f"{said} {_loss(self.psnr)}"


def _loss(psnr: float) -> str:
    if psnr == math.inf:
        return "Its clips are those of the set."
    return f"The PSNR to the clips of the set is {psnr:.1f} dB."


@plain_torch()
def export(
    condensed: CondensedSet | ClipStore | str | Path,
    output: str | Path,
    config: ExportConfig | None = None,
    run: Run | None = None,
    **options: Any,
) -> Export:
    """Write the videos of a condensed set in a format that other tools read.

    Args:
        condensed: the set, or its file; or a store, of which a `gif` shows `clips` of each class and split.
        output: the folder to make, or the file for `gif`; it appears when it is complete.
        config, run: the format and its options; overwriting and progress.
        options: fields of `ExportConfig` and of `prism.machine.run.Run`, in place of `config` and `run`.

    Raises:
        ConfigError: the set does not fit the format.
        OutputError: the output exists, is no export, cannot be written, or another run is writing it.
    """
    config, run = split_options(ExportConfig, config, run, options)
    output, reads, form = as_path(output), [condensed], FORMATS.make(config.to, config)
    condensed = _set_of(condensed, config)
    result = Result.load(config.result) if config.result else None
    if result and result.subject.fingerprint != condensed.fingerprint:
        raise ConfigError(f"result '{config.result}' is of another set.")
    condensed = condensed.apart()
    if condensed.is_random:
        note("Each video stands for several clips: one of each is exported.", enabled=run.progress)
    if form.is_folder and output.suffix.lower() == ".gif":
        raise ConfigError(f"output '{output}' would be a folder. Pass --to gif, or choose another name.")
    if config.to == "gif" and output.suffix.lower() not in ("", ".gif"):
        raise ConfigError(f"output '{output}' would be a GIF. Choose a name that ends in .gif.")
    used = FORMATS.fields(config.to) | {"to", "result" if form.is_folder else "clips"}
    used -= {"quality"} if config.lossless and "lossless" in used else set()
    for option, value in chosen(config).items():
        if option not in used:
            note(f"Caution: {option} = {value!r} is not used with --to {FORMATS.name_of(config.to)}.")
    psnr, errors = None, list[float]()
    with lock(output):
        if form.is_folder:
            what = "a folder that prism export has written"
            check_output_folder(output, run.overwrite, MARK, what, _entries(output))
        else:
            check_output_file(output, run.overwrite, reads)
        bar = progress_bar("Exporting", len(condensed), "videos", enabled=run.progress)
        with new_folder(output) as folder, writing(output), bar as step:
            for clip, shown in form.write(condensed, folder) or ():
                errors.append(float((clip - shown).double().square().mean()))
                step()
            if errors:
                # 1e-12 is below half a level in one pixel of a million, and above the error of float32 arithmetic.
                psnr = -10 * math.log10(error) if (error := fmean(errors)) > 1e-12 else math.inf
            if form.is_folder:
                _describe(condensed, form, folder, "" if psnr is None else _loss(psnr), result)
                replace_folder(folder, output)
            else:
                replace_atomically(next(folder.iterdir()), output)
    num_bytes = sum(file.stat().st_size for file in ([output] if output.is_file() else _files(output)))
    return Export(output, len(condensed), num_bytes, psnr)


def _set_of(source: CondensedSet | ClipStore | str | Path, config: ExportConfig) -> CondensedSet:
    if not isinstance(source, CondensedSet | ClipStore):
        path = as_path(source, "a condensed set, or its file,")
        source = ClipStore.open(path) if kind_of(path) == STORE else CondensedSet.load(path)
    if isinstance(source, CondensedSet):
        return source
    if config.to != "gif":
        raise ConfigError(f"a store is shown on a sheet, not as {config.to!r}. Pass --to gif.")
    return sheet_of(source, config.clips)


def _filled(template: str, **values: str) -> str:
    return resources.files("prism.exports").joinpath(template).read_text(encoding="utf-8").format(**values)


def _describe(condensed: CondensedSet, form: Format, folder: Path, loss: str, result: Result | None) -> None:
    """Write the class names, the page for the Hub, and the mark of an export."""
    names = "".join(f"{printable(name)}\n" for name in condensed.classes)
    write_synced(folder / "classes.txt", names.encode())
    # The files are named, because `datasets` would otherwise take a class called `test` for a split.
    files = {"split": "train", "path": form.data_files}
    scores = ""
    if result:
        lines = "\n    ".join(map(printable, str(result).splitlines()))
        scores = _filled("scores.md", result=lines, config=json.dumps(result.config))
    page = _filled(
        "page.md",
        configs=json.dumps([{"config_name": "default", "data_files": [files]}] if form.data_files else []),
        videos=counted(len(condensed), "video"),
        classes=counted(len(condensed.classes), "class", "classes"),
        loss=loss,
        # JSON escapes line ends, so that no name can end the block.
        source=json.dumps(condensed.source, ensure_ascii=False),
        scores=scores,
    )
    write_synced(folder / "README.md", page.encode())
    entries = sorted({MARK, *(file.relative_to(folder).as_posix() for file in _files(folder))})
    mark = {"entries": entries, "flip": condensed.flip, "made_by": MADE_BY}
    write_synced(folder / MARK, (canonical_json(mark) + "\n").encode())


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def _entries(output: Path) -> list[str]:
    """The files of an earlier export, as its mark lists them; none if another program made the mark."""
    try:
        mark = parse_json(read_text(output / MARK))
        return list(map(str, mark["entries"])) if mark["made_by"] == MADE_BY else []
    except (OSError, ValueError, LookupError, TypeError):
        return []
