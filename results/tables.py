"""Tables of the pages of results, made from the result files of this folder."""

import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count, product, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from rows import (
    ABLATIONS,
    BESIDE_DEFAULT,
    BY_BYTES,
    CORESETS,
    EPOCHS,
    MAIN,
    MODELS,
    RATES,
    RIVALS,
    ROWS,
    SMALL_CLIPS,
    STORED_CLIPS,
)

from prism.artifacts.estimates import Estimate, Sample, sample_of
from prism.artifacts.results import UNLEARNED, Result

RESULTS = Path(os.path.relpath(Path(__file__).parent))
DOCS = ("results", "bytes", "ablations", "transfer", "uses")
PAGES = [RESULTS / "../README.md", *(RESULTS / f"../docs/{name}.md" for name in DOCS)]
USED = {
    "default": "**the default**",
    "ce": "**recipe `cross-entropy`**",
    "packed": "**`packed` in H.264**",
    "random": "random clips",
    "pixels": "pixels",
    "coded": "coded",
    "lowest": "coded, lowest quality",
}
"""Labels of the sets of uses.sh, and of pixels."""
K = TypeVar("K")
Pair = tuple[list[Result], list[Result]]
"""Results of two rows, of which the first may lead the second; one of them may be missing."""
Row = tuple[str, list[Result], Sequence[list[Result]]]
"""A name, results, and those of the rows over which it may lead, empty where there is none."""


def results_of(folder: str, row: str) -> list[Result]:
    """The results of the sets of a row, in their order."""
    files = (RESULTS / folder / f"{row}-{number}.json" for number in count())
    return [Result.load(file) for file in takewhile(Path.exists, files)]


def tried(folder: str, row: str) -> dict[str, list[Result]]:
    """The results of a row by the folders of its epochs, over the sets that all of these have."""
    every = {name: found for name in schedules(folder) if (found := results_of(name, row))}
    num = min(map(len, every.values()), default=0)
    return {name: found[:num] for name, found in every.items()}


def lead(ours: list[Result], theirs: list[Result]) -> Estimate | None:
    """The lead over the same seeds, as many as both have."""
    num = min(len(ours), len(theirs))
    samples = [
        Sample(dict(enumerate(of.scores.values())), of.hits, of.clips)
        for of in (sample_of(some[:num]) for some in (ours, theirs) if num)
    ]
    return samples[0].lead(samples[1]) if samples else None


def certain(leads: list[Estimate]) -> list[bool]:
    """Whether each lead is above or below 0 at a level of 5 % for all of them together (Holm, 1979)."""
    order = sorted(range(len(leads)), key=lambda i: leads[i].p_value)
    held = takewhile(lambda rank: leads[order[rank]].p_value <= 0.05 / (len(leads) - rank), range(len(leads)))
    found = {order[rank] for rank in held}
    return [i in found for i in range(len(leads))]


def starred(leads: dict[K, Estimate], unlearned: Collection[K] = ()) -> dict[K, str]:
    """Leads in words, with stars on those that are `certain`, but for those of networks that had not learned."""
    held = zip(leads.items(), certain([*leads.values()]), strict=True)
    return {key: str(one).replace("-", "−") + " *" * (star and key not in unlearned) for (key, one), star in held}


def leads_of(pairs: dict[K, Pair]) -> dict[K, str]:
    """The leads of pairs in words, with stars among all of them; a pair without results has none."""
    leads = {key: ahead for key, pair in pairs.items() if (ahead := lead(*pair))}
    return starred(leads, [key for key in leads if any(map(is_unlearned, pairs[key]))])


def footnote(leads: dict[K, str]) -> list[str]:
    """The line below a table that gives the number of its leads, by which stars are set."""
    num = len(leads)
    if any("*" in said for said in leads.values()):
        return ["", f"\\* of {num} lead{'s' * (num > 1)}."]
    return ["", f"No \\* among {num} leads."] if num > 1 else []


def is_unlearned(results: list[Result]) -> bool:
    """Whether networks may not have learned what they were shown, by their mean training loss."""
    losses = [run.train_loss for result in results for run in result.runs]
    return fmean(losses) > UNLEARNED * math.log(results[0].data.num_classes)


def top1(results: list[Result]) -> str:
    return sample_of(results).in_percent + " †" * is_unlearned(results)


def over_sets(sample: Sample) -> str:
    """A score with its error, without the numbers of sets and networks."""
    return sample.in_percent.partition(" (")[0]


def results_by_row(folder: str, rows: Iterable[str]) -> dict[str, list[Result]]:
    every = {row: found for row in rows if (found := results_of(folder, row))}
    if not every:
        raise SystemExit(f"make.py: results/{folder} has no results of {', '.join(rows) or 'any row'}.")
    return every


def head(*cells: str) -> list[str]:
    """The first two lines of a table, whose first column is aligned to the left."""
    return [f"| {' | '.join(cells)} |", f"|---{'|---:' * (len(cells) - 1)}|"]


def vpc_of(result: Result) -> int:
    return result.subject.num_videos // result.data.num_classes


def videos(result: Result) -> str:
    return f"VPC {vpc_of(result)}"


def table(
    every: dict[str, list[Result]],
    beside: dict[str, str],
    epochs: Callable[[str], dict[str, list[Result]]] = lambda row: {},
) -> str:
    """Scores and sizes of rows, and their leads over those of `beside`, which names their columns.

    `epochs` gives the results of a row after other numbers of epochs, for which no leads are shown.
    """
    rows: list[Row] = []
    for row, found in every.items():
        over = [[] if row in CORESETS or row == other else every[other] for other in beside]
        rows.append((ROWS[row][0], found, over))
        rows += [(f"the same, {n} epochs", more, [[]] * len(beside)) for n, more in epochs(row).items()]
    some, below, default = (
        next(iter(every.values()))[0],
        dict[str, dict[str, Pair]](),
        every.get("two-quarter", []),
    )
    if "random" in beside:
        below["The default over"] = {said: (default, every.get(row, [])) for row, said in RIVALS.items()}
        below["Over the default"] = {said: (every.get(row, []), default) for row, said in BESIDE_DEFAULT.items()}
    # Names of rows say whether two frames or all of them are stored.
    stored = {keyframes(found[0]) for found in every.values()}
    is_plain = stored <= {"2.0", max(stored, key=float)}
    heads = [videos(some), *["key-frames"] * (not is_plain), "kB", "top-1", *beside.values()]

    def sizes(found: list[Result]) -> list[str]:
        return [*[keyframes(found[0])] * (not is_plain), kilobytes(found)]

    return with_leads(heads, rows, sizes, below)


def with_leads(
    heads: list[str],
    rows: list[Row],
    sizes: Callable[[list[Result]], list[str]],
    below: dict[str, dict[str, Pair]] = {},  # noqa: B006
) -> str:
    """A table of rows: name, sizes, score, and leads, with stars; further leads stand below, by sentence."""
    pairs: dict[Any, Pair] = {
        (i, j): (row[1], over) for i, row in enumerate(rows) for j, over in enumerate(row[2])
    }
    pairs |= {(start, said): pair for start, some in below.items() for said, pair in some.items()}
    leads, lines = leads_of(pairs), head(*heads)
    for i, (label, found, over) in enumerate(rows):
        said = [leads.get((i, j), "–") for j in range(len(over))]
        lines.append(f"| {' | '.join([label, *sizes(found), top1(found), *said])} |")
    for start, some in below.items():
        every = [f"{said} {leads[start, said]}" for said in some if (start, said) in leads]
        lines += ["", f"{start}: {', '.join(every)}."] if every else []
    return "\n".join([*lines, *footnote(leads), ""])


def bytes_of(found: list[Result]) -> int:
    return found[0].subject.float32_bytes


def kilobytes(found: list[Result]) -> str:
    return f"{bytes_of(found) / 1000:,.0f}"


def keyframes(result: Result) -> str:
    return f"{result.subject.num_keyframes / result.subject.num_videos:.1f}"


def best_of(every: dict[str, list[Result]], rows: Iterable[str]) -> str:
    """The one of these rows that scores best; empty where there is none."""
    return max((row for row in rows if row in every), key=lambda row: sample_of(every[row]).mean, default="")


def with_one_kind_of_small_clips(every: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """The rows without the worse kind of small real clips, and without sparse ones other than the recipe's."""
    lesser = {*SMALL_CLIPS} - {best_of(every, SMALL_CLIPS)}
    lesser |= {"herding-four-half", "herding-placed"} if "herding-budget" in every else set()
    return {row: found for row, found in every.items() if row not in lesser}


def main_table(folder: str) -> str:
    """The main rows, with their leads over random clips and the best coreset; or all rows where none has a lead.

    A row whose clips had not been learned is shown after more epochs too.
    """
    rows = [row for row in ROWS if "-vpc" not in folder or row not in STORED_CLIPS]
    found = with_one_kind_of_small_clips(results_by_row(folder, rows))
    best = best_of(found, CORESETS)
    several = {row for row in found if len(found[row]) > 1}
    if best not in several or several <= {*CORESETS}:
        return table(found, {})

    def epochs(row: str) -> dict[str, list[Result]]:
        others = schedules(folder)[1:] if is_unlearned(found[row]) else []
        every = filter(None, (results_of(other, row) for other in others))
        return {str(more[0].config["epochs"]): more for more in every}

    beside = {row: f"over {ROWS[row][0]}" for row in ("random", best) if len(found.get(row, [])) > 1}
    return table({row: found[row] for row in MAIN if row in found}, beside, epochs)


def ablations(folder: str) -> str:
    """The default, and what differs from it, with the lead of each over the default."""
    return table(results_by_row(folder, ABLATIONS), {"two-quarter": "over the default"})


def beside_scenes(folder: str) -> str:
    """The ablations of a folder where motion decides, beside those of ucf101-21, where looks do."""
    every = {name: results_by_row(name, ("random", *ABLATIONS)) for name in (folder, "ucf101-21")}
    leads = leads_of(
        {
            (name, row): (found.get(row, []), found["two-quarter"])
            for (name, found), row in product(every.items(), ABLATIONS)
            if row != "two-quarter"
        }
    )
    over = "over the default"
    lines = head("VPC 1", "key-frames", "share of bytes", "signs", over, "ucf101-21", over)
    for row in ABLATIONS:
        some = [(found[row], found["random"]) for found in every.values() if row in found]
        if not some:
            continue
        found, clips = some[0]
        cells = [ROWS[row][0], keyframes(found[0]), f"1/{bytes_of(clips) / bytes_of(found):.0f}"]
        for name, of_data in every.items():
            cells += [top1(of_data[row]) if row in of_data else "–", leads.get((name, row), "–")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *footnote(leads), ""])


def objectives(folder: str) -> str:
    """Objectives and representations that were tried, with the lead of each over the default of 400 iterations."""
    rows = (
        *("two-quarter", "default-400", "cross-entropy", "cross-entropy-1", "cross-entropy-3", "yuv420"),
        *("characteristic-0.05", "differences", "frequencies"),
    )
    return table(results_by_row(folder, rows), {"default-400": "over the default"})


def placements(folder: str) -> str:
    """Real clips of as many key-frames in the mean, and the leads over evenly spread ones."""
    rows = results_by_row(folder, ("three-half", "three-placed", "three-budget"))
    return table(rows, {"three-half": "over evenly spread"})


def in_equal_bytes(folder: str) -> str:
    """Rows of all numbers of videos by bytes, with leads over whole clips by herding in as many or more.

    Each is scored after the fewest epochs in which networks had learned it, else after the most.
    """
    base, rows, whole = re.sub(r"-\d+-epochs$", "", folder), list[tuple[str, list[Result]]](), list[list[Result]]()
    for vpc in EPOCHS:
        every: dict[str, list[Result]] = {}
        folders = schedules(f"{base}-vpc{vpc}") if vpc > 1 else [folder]
        for name, row in product(folders, BY_BYTES if vpc > 1 else ("herding", "all-60")):
            if (found := results_of(name, row)) and (row not in every or is_unlearned(every[row])):
                every[row] = found
        whole += [every["herding"]] if "herding" in every else []
        rows += [(ROWS[row][0], found) for row, found in with_one_kind_of_small_clips(every).items()]
    with_lead: list[Row] = []
    for label, found in sorted(rows, key=lambda row: bytes_of(row[1])):
        larger = next((one for one in whole if bytes_of(one) >= bytes_of(found)), found)
        with_lead.append((label, found, [[] if larger is found else larger]))
    return with_leads(
        ["set", "VPC", "kB", "file", "top-1", "over herding, whole"],
        with_lead,
        lambda found: [str(vpc_of(found[0])), kilobytes(found), f"{found[0].subject.num_bytes / 1000:,.0f}"],
    )


def side_by_side(every: dict[str, dict[str, list[Result]]], heading: str, least: int) -> list[str]:
    """A table of the rows that have results in at least `least` of its columns."""
    lines = head(heading, *every)
    for row in [row for row in ROWS if sum(row in found for found in every.values()) >= least]:
        cells = [top1(found[row]) if row in found else "–" for found in every.values()]
        lines.append(f"| {ROWS[row][0]} | {' | '.join(cells)} |")
    return lines


def validation(_: str) -> str:
    """Scores of the first set of rows on validation clips, after each number of epochs."""
    lines = head("VPC 1", *RATES.values())
    for row in ("random", "herding", "static-dynamic", "published", "two-quarter", "cross-entropy"):
        cells = [ROWS[row][0]]
        for folder in RATES:
            means = (f"{100 * sample_of(found[:1]).mean:.1f}" for found in tried(folder, row).values())
            cells.append(", ".join(means) or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def rates(_: str) -> str:
    """Scores on validation clips of each method at several rates, on each kind of data."""
    rows = [row for row in ROWS if row not in CORESETS]
    folders = {"signs": "rates-signs", "spoken digits": "rates-lips", "ucf101-21": "rates-ucf101-21"}
    every = {name: results_by_row(folder, rows) for name, folder in folders.items()}
    return "\n".join([*side_by_side(every, "VPC 1", 1), ""])


def headline(_: str) -> str:
    """Main rows of the signs and of ucf101-21, for a first page; after more epochs if they were not learned."""
    names = {row: ROWS[row][0] for row in ("random", "herding", "mean", "static-dynamic", "published")}
    names["two-quarter"] = "**PRISM's default: two small key-frames**"
    names["cross-entropy-half"] = ROWS["cross-entropy-half"][0]
    lines = head("one video of each class", "kB", "ten moving signs", "kB", "21 classes of UCF101")
    for row, name in names.items():
        cells = [name]
        for folder in ("glyphs-375-epochs", "ucf101-21"):
            found = results_of(folder, row)
            if is_unlearned(found):
                found = results_of(schedules(folder)[-1], row) or found
            cells += [kilobytes(found), over_sets(sample_of(found))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def schedules(folder: str) -> list[str]:
    """Folders of a data set's results, one for each number of epochs."""
    others = [path.name for path in RESULTS.glob(f"{folder}-[0-9]*-epochs")]
    return sorted([folder, *others], key=lambda name: int(name.split("-")[-2]) if name != folder else 0)


def by_network(folder: str) -> str:
    """Scores of a data set's sets by networks of every kind, and the leads of the default by each."""
    every = {
        name: {row: found for row in ROWS if (found := results_of(folder + ending, row))}
        for ending, name in MODELS.items()
    }
    every = {name: found for name, found in every.items() if "two-quarter" in found}
    lines = side_by_side(every, "VPC 1", 2)
    over = product(("random", "published"), every.items())
    leads = leads_of({(row, name): (found["two-quarter"], found.get(row, [])) for row, (name, found) in over})
    for other in ("random", "published"):
        said = [f"{name} {leads[other, name]}" for name in every if (other, name) in leads]
        lines += ["", f"The default over {ROWS[other][0]}: {', '.join(said)}."]
    return "\n".join([*lines, *footnote(leads), ""])


def used(what: str, folder: str) -> list[tuple[str, dict[str, Any], Sample]]:
    """Rows of an example's results: the label, what was measured, and the accuracies of all seeds."""
    every = json.loads((RESULTS / f"uses/{what}-{folder}.json").read_text(encoding="utf-8"))["rows"]
    # The name of a row is the path of its sets, as in uses.sh, or a word of the example and a number.
    kinds = (Path(row["name"]).name.removeprefix(f"{folder}-").partition("-{seed}")[0] for row in every)
    labels = (USED.get(kind.rstrip(" 0123456789"), kind) for kind in kinds)
    samples = (Sample({seed: [one / 100] for seed, one in enumerate(row["accuracy"])}) for row in every)
    return list(zip(labels, every, samples, strict=True))


def memories(folder: str) -> str:
    """Memories by bytes, and leads of condensed ones over the next larger coded one, and over the largest pixels.

    Recipe `cross-entropy` is left out, as its networks know classes that have not arrived yet.
    """
    every = sorted(used("memory", folder), key=lambda some: some[1]["bytes"])
    every = [some for some in every if some[0] != USED["ce"]]
    pixels = [sample for label, _, sample in every if label == USED["pixels"]][-1]
    leads = dict[tuple[int, str], Estimate]()
    for i, (label, _, sample) in enumerate(every):
        coded = next((theirs for name, _, theirs in every[i:] if name.startswith("coded")), None)
        for beside, rival in (("coded", coded), ("pixels", pixels)):
            if label.startswith("**") and rival and (found := sample.lead(rival)):
                leads[i, beside] = found
    stars = starred(leads)
    lines = head("memory", "bytes", "clips", "accuracy", "over coded clips", "over the most pixels")
    for i, (label, row, sample) in enumerate(every):
        sizes = [f"{row['bytes']:,.0f}", f"{row['clips']:.3g}"] if label != "all at once" else ["–", "–"]
        cells = [
            label,
            *sizes,
            over_sets(sample),
            *(stars.get((i, beside), "–") for beside in ("coded", "pixels")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *footnote(stars), ""])


def transformers(folder: str) -> str:
    """Accuracies of a transformer by what it was trained on, and leads over random clips, the first row."""
    every = used("transformer", folder)
    leads = {i: found for i, (*_, sample) in enumerate(every) if i and (found := sample.lead(every[0][2]))}
    stars, lines = starred(leads), head("trained on", "videos", "accuracy", "over random clips")
    for i, (label, row, sample) in enumerate(every):
        lines.append(f"| {label} | {row['videos']:,} | {over_sets(sample)} | {stars.get(i, '–')} |")
    return "\n".join([*lines, *footnote(stars), ""])


TABLES = {
    "": main_table,
    " ablations": ablations,
    " beside": beside_scenes,
    " objectives": objectives,
    " placement": placements,
    " bytes": in_equal_bytes,
    " networks": by_network,
    " validation": validation,
    " rates": rates,
    " headline": headline,
    " memory": memories,
    " transformer": transformers,
}
"""Tables by the word behind the folder in their comments."""


def page(text: str) -> str:
    """A page with its tables made again, each between two comments that name its folder."""

    def again(found: re.Match[str]) -> str:
        start, folder, which, end = found.groups()
        return start + TABLES[which](folder) + end

    return re.sub(r"(<!-- ([\w.-]+)( \w+|) -->\n).*?(<!-- /\2\3 -->)", again, text, flags=re.DOTALL)
