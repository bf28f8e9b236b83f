"""Data sets as their authors publish them: one function for each, from official annotation files to a `Listing`.

Where test labels are not public (Kinetics, Something-Something), the validation videos are the test split, as
in the literature. docs/datasets.md shows the trees.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prism.errors import SourceError
from prism.ingestion.annotations import (
    Entry,
    annotation_files,
    annotation_folders,
    csv_rows,
    find_listed,
    not_found,
    read_json,
    read_lines,
)
from prism.ingestion.listing import Listing
from prism.ingestion.options import IngestConfig

UCF_FOLDERS = ("ucfTrainTestlist", "annotations", "splits")
HMDB_FOLDERS = ("testTrainMulti_7030_splits", "test_train_splits", "annotations", "splits")
KINETICS_FOLDERS = ("annotations", "kinetics400", "kinetics400/annotations")
SSV2_FOLDERS = ("labels", "annotations")

NO_TEST_LABELS = "The test labels of this data set are not public: its validation videos are the test split."

# fmt: off
MINIUCF = frozenset((
    "ApplyEyeMakeup", "BalanceBeam", "BandMarching", "BaseballPitch", "Basketball", "BasketballDunk", "Biking",
    "Billiards", "BlowingCandles", "Bowling", "BreastStroke", "CleanAndJerk", "CliffDiving", "CricketShot",
    "Diving", "FloorGymnastics", "FrisbeeCatch", "GolfSwing", "HammerThrow", "HighJump", "HorseRace",
    "HorseRiding", "HulaHoop", "IceDancing", "JumpingJack", "Knitting", "MilitaryParade", "Mixing",
    "ParallelBars", "PlayingPiano", "PlayingViolin", "PoleVault", "PommelHorse", "Punch", "Rafting", "Rowing",
    "SkateBoarding", "Skiing", "Skijet", "SkyDiving", "SoccerPenalty", "StillRings", "SumoWrestling", "Surfing",
    "Swing", "TennisSwing", "TrampolineJumping", "UnevenBars", "VolleyballSpiking", "WritingOnBoard",
))
# fmt: on
"""The 50 classes of UCF101 that make MiniUCF (Wang et al., arXiv 2312.00362)."""


# UCF101 and MiniUCF


def ucf101(source: Path, config: IngestConfig) -> Listing:
    """`<class>/v_<class>_g01_c01.avi` with classInd.txt, trainlist0N.txt and testlist0N.txt."""
    # The lists and the folders of some copies differ in case (HandstandPushups, HandStandPushups).
    return find_listed(source, _ucf_entries(source, config), parts=2, fold=str.casefold)


def miniucf(source: Path, config: IngestConfig) -> Listing:
    """UCF101's tree and lists, of which 50 classes are taken."""
    entries = [entry for entry in _ucf_entries(source, config) if entry.label in MINIUCF]
    lacking = sorted(MINIUCF - {entry.label for entry in entries})
    if lacking:
        raise SourceError(
            f"the lists under '{source}' have no videos of {len(lacking)} of MiniUCF's 50 classes, "
            f"the first is '{lacking[0]}'."
        )
    return find_listed(source, entries, parts=2, fold=str.casefold)


def _ucf_entries(source: Path, config: IngestConfig) -> list[Entry]:
    number = config.official_split
    names = [("classInd.txt",), (f"trainlist0{number}.txt",), (f"testlist0{number}.txt",)]
    folders = annotation_folders(source, config.annotations, UCF_FOLDERS)
    index, train, test = annotation_files(folders, names)
    classes = _ucf_classes(index)
    return [*_ucf_list(train, "train", classes), *_ucf_list(test, "test", classes)]


def _ucf_classes(path: Path) -> dict[str, tuple[int, str]]:
    """Number and name of each class, by its name in one case."""
    classes: dict[str, tuple[int, str]] = {}
    for where, line in read_lines(path):
        match = re.fullmatch(r"(\d{1,9})\s+([^/\s]+)", line, re.ASCII)
        if match is None:
            raise SourceError(f"{where} is '{line[:200]}', but it must be a number and a class.")
        number, name = int(match[1]), match[2]
        if name.casefold() in classes or number in {known for known, _ in classes.values()}:
            raise SourceError(f"{where} is '{line}', but this number or class is there already.")
        classes[name.casefold()] = (number, name)
    return classes


def _ucf_list(path: Path, split: str, classes: dict[str, tuple[int, str]]) -> Iterator[Entry]:
    """A train list has a class number after each path; a test list may."""
    for where, line in read_lines(path):
        match = re.fullmatch(r"([^/]+)/([^/]+?\.\w+)(?:\s+(\d{1,9}))?", line, re.ASCII)
        if match is None or (split == "train" and match[3] is None):
            form = "<class>/<video>.avi and the number of the class" if split == "train" else "<class>/<video>.avi"
            raise SourceError(f"{where} is '{line[:200]}', but it must be {form}.")
        folder, video, given = match.groups()
        if folder.casefold() not in classes:
            raise SourceError(f"{where} names class '{folder}', which classInd.txt does not have.")
        number, label = classes[folder.casefold()]
        if given and int(given) != number:
            raise SourceError(f"{where} gives class '{label}' the number {int(given)}, but classInd.txt {number}.")
        yield Entry(f"{folder}/{video}", label, split, where)


# HMDB51

HMDB_SPLITS = {
    "official": {"0": "", "1": "train", "2": "test"},
    "all-but-test": {"0": "train", "1": "train", "2": "test"},
}
"""For each train list what the lists' numbers mean."""


def hmdb51(source: Path, config: IngestConfig) -> Listing:
    """`<class>/<name>.avi` with a file `<class>_test_splitN.txt` for each class."""
    folders = annotation_folders(source, config.annotations, HMDB_FOLDERS)
    files, splits = _hmdb_files(folders, config.official_split), HMDB_SPLITS[config.train_list]
    return find_listed(source, [entry for path in files for entry in _hmdb_list(path, splits)], parts=2)


def _hmdb_files(folders: list[Path], number: int) -> list[Path]:
    """One file for each class that any of the three splits names, from the first folder that has some."""
    for folder in folders:
        # Copies made on a Mac have hidden files of the same names beside them.
        found = {path.name for path in folder.glob("*_test_split[123].txt") if not path.name.startswith(".")}
        if found:
            wanted = sorted({re.sub(r"\d\.txt$", f"{number}.txt", name) for name in found})
            return annotation_files([folder], [(name,) for name in wanted])
    raise not_found([f"<class>_test_split{number}.txt"], folders)


def _hmdb_list(path: Path, splits: dict[str, str]) -> Iterator[Entry]:
    """A name (which may hold spaces) and 1 for train, 2 for test, 0 for neither list."""
    label = re.sub(r"_test_split\d\.txt$", "", path.name)
    for where, line in read_lines(path):
        name, _, use = line.replace("\t", " ").rpartition(" ")
        name = name.strip()
        if not name or "/" in name or use not in splits:
            raise SourceError(f"{where} is '{line}', but it must be <name>.avi and 0, 1 or 2.")
        if splits[use]:
            yield Entry(f"{label}/{name}", label, splits[use], where)


# Kinetics-400

KINETICS_FILES = {
    "train": ("train.csv", "kinetics_train.csv"),
    "test": ("validate.csv", "val.csv", "kinetics_val.csv"),
}
KINETICS_SPLITS = {"train": ("train",), "test": ("validate", "val", "validation")}


def kinetics400(source: Path, config: IngestConfig) -> Listing:
    """`<youtube_id>_<start>_<end>.mp4`, flat or in folders, with train.csv and validate.csv."""
    folders = annotation_folders(source, config.annotations, KINETICS_FOLDERS)
    files = annotation_files(folders, list(KINETICS_FILES.values()))
    entries = [
        entry for split, path in zip(KINETICS_FILES, files, strict=True) for entry in _kinetics_list(path, split)
    ]
    if not entries:
        raise SourceError(f"'{files[0]}' and '{files[1]}' list no videos.")
    listing = find_listed(source, entries, parts=1)
    listing.notes.append(NO_TEST_LABELS)
    return listing


def _kinetics_list(path: Path, split: str) -> Iterator[Entry]:
    for line, row in csv_rows(path, ("label", "youtube_id", "time_start", "time_end", "split")):
        where = f"line {line} of '{path}'"
        if row["split"] not in KINETICS_SPLITS[split]:
            raise SourceError(f"{where} has split '{row['split']}', but it must be {KINETICS_SPLITS[split][0]}.")
        # A spreadsheet turns an id that starts with a minus sign into #NAME?.
        if not re.fullmatch(r"[\w-]+", row["youtube_id"], re.ASCII):
            raise SourceError(f"{where} has youtube_id '{row['youtube_id']}', which is none.")
        start, end = (_seconds(row[key], key, where) for key in ("time_start", "time_end"))
        if end <= start:
            raise SourceError(f"{where} has time_end {end}, but it must be after time_start {start}.")
        yield Entry(f"{row['youtube_id']}_{start:06d}_{end:06d}.mp4", row["label"], split, where)


def _seconds(text: str, column: str, where: str) -> int:
    if not re.fullmatch(r"\d{1,6}(\.0*)?", text, re.ASCII):
        raise SourceError(f"{where} has {column} '{text}', but it must be a whole number of seconds.")
    return int(float(text))


# Something-Something V2

SSV2_FILES = (
    ("something-something-v2-labels.json", "labels.json"),
    ("something-something-v2-train.json", "train.json"),
    ("something-something-v2-validation.json", "validation.json"),
)


def ssv2(source: Path, config: IngestConfig) -> Listing:
    """`<id>.webm` in a folder, with the three JSON files of labels, training and validation."""
    folders = annotation_folders(source, config.annotations, SSV2_FOLDERS)
    labels, train, validation = annotation_files(folders, SSV2_FILES)
    classes = _ssv2_classes(labels)
    entries = [*_ssv2_list(train, "train", classes), *_ssv2_list(validation, "test", classes)]
    unused = sorted(classes - {entry.label for entry in entries})
    if unused:
        raise SourceError(f"'{labels}' has class '{unused[0]}', which '{train}' has no video of.")
    listing = find_listed(source, entries, parts=1)
    listing.notes.append(NO_TEST_LABELS)
    return listing


def _ssv2_classes(path: Path) -> set[str]:
    """The classes, whose numbers must be 0, 1, … without a gap."""
    labels = read_json(path)
    if not isinstance(labels, dict) or not labels:
        raise SourceError(f"'{path}' must be an object of classes and their numbers.")
    numbers: dict[str, str] = {}
    for label, number in labels.items():
        if not label.strip() or not label.isprintable():
            raise SourceError(f"'{path}' has a class {label!r}, which is no printable text.")
        if str(number) in numbers:
            raise SourceError(f"'{path}' gives the number {number} to '{numbers[str(number)]}' and to '{label}'.")
        numbers[str(number)] = label
    for number in range(len(labels)):
        if str(number) not in numbers:
            raise SourceError(f"'{path}' has {len(labels)} classes, but none has the number {number}.")
    return set(labels)


def _ssv2_list(path: Path, split: str, classes: set[str]) -> Iterator[Entry]:
    videos = read_json(path)
    if not isinstance(videos, list):
        raise SourceError(f"'{path}' must be a list of videos.")
    for position, video in enumerate(videos, 1):
        where = f"entry {position} of '{path}'"
        name, template = _ssv2_video(video, where)
        label = re.sub(r"[\[\]]", "", template)
        if label not in classes:
            raise SourceError(f"{where} has template '{template}', which is no class of the labels file.")
        yield Entry(f"{name}.webm", label, split, where)


def _ssv2_video(video: Any, where: str) -> tuple[str, str]:
    if not isinstance(video, dict) or not {"id", "template"} <= video.keys():
        raise SourceError(f"{where} must be an object with id and template.")
    name, template = str(video["id"]), video["template"]
    if not re.fullmatch(r"\d+", name, re.ASCII) or not isinstance(template, str):
        raise SourceError(
            f"{where} has id '{name}' and template '{template}', but they must be a number and a text."
        )
    return name, template
