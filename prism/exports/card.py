"""The card of an exported folder: what it holds, how it was made and how it scores, for the Hub."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import HEADINGS, Result, percent
from prism.condensation.options import METHODS
from prism.config import as_arguments, chosen
from prism.exports.format import Format, Loss
from prism.exports.options import ExportConfig
from prism.reports.text import counted, in_bytes, printable

SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
"""The Hub's names for the number of videos below each of these."""
LICENCE = "unknown  # to be filled in: the licence of the videos that the set was made from"


def card_text(
    condensed: CondensedSet, form: Format, config: ExportConfig, result: Result | None, loss: Loss, num_bytes: int
) -> str:
    """The text of `README.md`.

    Args:
        condensed: the set, as it was given.
        form: the format of the export.
        config: its options.
        result: scores of networks that were trained on the set; None for none.
        loss: what readers of the export do not see.
        num_bytes: bytes of the exported files.
    """
    program = form.program(condensed.stored_clips)
    return "\n".join(
        [
            *("---", *_front_matter(condensed, form), "---", ""),
            f"# {counted(len(condensed.classes), 'class', 'classes')} of video, condensed",
            "",
            "A few videos of each class stand for a whole data set of labelled action clips "
            "([dataset distillation](https://huggingface.co/papers?q=dataset%20distillation)). "
            "They are made to train networks on, and were written by PRISM.",
            *("", "| | |", "|---|---|", *_facts(condensed, loss, num_bytes)),
            *("", "The label of a video is the position of its class:", "", *_fenced(list(condensed.classes))),
            *(("", "## How to read it", "", *_fenced(program, "python")) if program else ()),
            *("", "## How it was made", "", *_making(condensed, config)),
            *("", "## How it scores", "", *_scores(result)),
            *(
                "",
                "## Licence",
                "",
                "**To be filled in**, here and above. The videos were made from others, whose",
            ),
            *("licence and terms apply. They may show what those show.", ""),
        ]
    )


def _front_matter(condensed: CondensedSet, form: Format) -> Iterator[str]:
    num = condensed.stored_clips
    yield f"license: {LICENCE}"
    yield "task_categories:\n- video-classification"
    yield "tags:\n- dataset-distillation\n- dataset-condensation\n- video\n- prism"
    yield f"size_categories:\n- {next((name for most, name in SIZES.items() if num < most), '1M<n<10M')}"
    if form.data_files:
        # Without these lines a class that is called `test` would be taken for a split.
        paths = "".join(f"\n    - {json.dumps(pattern)}" for pattern in form.data_files)
        yield f"configs:\n- config_name: default\n  data_files:\n  - split: train\n    path:{paths}"
    else:
        yield "viewer: false"


def _facts(condensed: CondensedSet, loss: Loss, num_bytes: int) -> Iterator[str]:
    (height, width), counts = condensed.size, condensed.labels.bincount(minlength=len(condensed.classes)).tolist()
    yield f"| classes | {len(condensed.classes)} |"
    yield f"| videos per class (VPC) | {' to '.join(map(str, sorted({min(counts), max(counts)})))} |"
    if (takes := condensed.takes) > 1:
        yield f"| clips here for each of them | {takes}, of which an epoch of training shows one at random |"
    elif condensed.is_random:
        yield "| clips here for each of them | one of those that it stands for |"
    yield f"| a clip | {condensed.num_frames} frames of {height} × {width} pixels |"
    yield f"| bytes of the set | {condensed.num_bytes:,} ({in_bytes(condensed.num_bytes)}) |"
    yield f"| bytes of this export | {num_bytes:,} ({in_bytes(num_bytes)}) |"
    yield f"| loss of this export | {loss} |"
    yield f"| a horizontal flip keeps the label | {'yes' if condensed.flip else 'no'} |"
    for name in ("mean", "std"):
        values = ", ".join(f"{value:.4f}" for value in getattr(condensed.normalisation, name))
        yield f"| {name} of the real pixels, in 0..1 | {values} |"


def _making(condensed: CondensedSet, config: ExportConfig) -> Iterator[str]:
    """The commands that made the set and the export, whose paths are left to the reader; and what the set says.

    No command makes a set that was made without PRISM: its options stand beside its method.
    """
    source, said = condensed.source, ["method", "versions", "store"]
    # A selection records which clips it chose.
    is_selected, made = "clips" in source, source.get("config")
    lines = [["prism", "export", "SET", "-o", "FOLDER", *as_arguments({"to": config.to, **chosen(config)})]]
    if isinstance(made, dict) and (is_selected or METHODS.is_name(source.get("method"))):
        verb = "select" if is_selected else "condense"
        lines.insert(0, ["prism", verb, "STORE", "-o", "SET", *as_arguments(dict(sorted(made.items())))])
    else:
        said.insert(1, "config")
    yield from _fenced("\n".join(shlex.join(map(printable, words)) for words in lines), "sh")
    yield ""
    yield from _fenced({key: source.get(key) for key in said})


def _scores(result: Result | None) -> Iterator[str]:
    if result is None:
        yield "No result was given. `prism evaluate` makes one, `prism export --result` puts it here."
        return
    yield "| score | mean ± standard deviation (networks), % | chance, % |"
    yield "|---|---|---|"
    for metric in result.metrics:
        chance = 100 * result.data.chance[metric]
        yield f"| {HEADINGS[metric]} | {percent(result.summary(metric))} | {chance:.1f} |"
    yield ""
    if result.caution:
        yield from (f"Caution: {result.caution}", "")
    scored_on = counted(result.data.num_clips, "real clip")
    yield f"The networks were trained on nothing but this set, and scored on {scored_on}, with these options:"
    yield ""
    scored = {"split": result.data.split, "protocol": result.protocol, "options": result.config}
    yield from _fenced(scored)


def _fenced(content: Any, language: str = "json") -> tuple[str, str, str]:
    """A block of code; no name can end it, since JSON writes line ends as escapes and `printable` does."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    return f"```{language}", text, "```"
