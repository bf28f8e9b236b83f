"""Data sets as their authors publish them: one layout for each, which reads the official annotation files.

The validation videos of Kinetics and Something-Something are the test split, as in the literature.
docs/datasets.md shows the trees.
"""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from prism.errors import SourceError
from prism.ingestion.annotations import (
    Entry,
    annotation_files,
    csv_rows,
    find_listed,
    not_found,
    read_json,
    read_lines,
)
from prism.ingestion.listing import Layout, Listing, require_folder
from prism.ingestion.options import IngestConfig

VALIDATION_IS_TEST = "The validation videos of this data set are the test split, as in the literature."

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


class OfficialLists(Layout):
    """Base of the layouts of published data sets: videos at any depth, with annotation files that list them.

    Attributes:
        usual_folders: where copies of the data set have the annotation files, beside the source itself.
        num_parts: parts at the end of a path that tell videos apart: 1 for the file name, 2 with its folder.
        ignores_case: the lists and the folders of some copies differ in case.
        notes: sentences that the user should read.
    """

    reads_annotations = True
    usual_folders: ClassVar[Sequence[str]] = ()
    num_parts: ClassVar[int] = 1
    ignores_case: ClassVar[bool] = False
    notes: ClassVar[Sequence[str]] = ()

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Look up the listed videos under the source."""
        require_folder(source)
        usual = [source, *(source / folder for folder in self.usual_folders)]
        folders = [source / config.annotations] if config.annotations else usual
        entries = self.entries(source, folders, config)
        fold = str.casefold if self.ignores_case else str
        listing = find_listed(source, entries, parts=self.num_parts, fold=fold)
        listing.notes.extend(self.notes)
        return listing

    @abstractmethod
    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read the annotation files.

        Args:
            source: the folder of the data set.
            folders: where the files may lie.
            config: options of `prism ingest`.
        """


class Ucf101(OfficialLists):
    """UCF101: `<class>/v_<class>_g01_c01.avi` with classInd.txt, trainlist0N.txt and testlist0N.txt."""

    num_splits = 3
    usual_folders = ("ucfTrainTestlist", "annotations", "splits")
    num_parts = 2
    # HandstandPushups, HandStandPushups.
    ignores_case = True

    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read the classes and the two lists of a split."""
        split = config.official_split
        names = [("classInd.txt",), (f"trainlist0{split}.txt",), (f"testlist0{split}.txt",)]
        index, train, test = annotation_files(folders, names)
        # Number and name of each class, by its name in one case.
        classes: dict[str, tuple[int, str]] = {}
        for where, line in read_lines(index):
            match = re.fullmatch(r"(\d{1,9})\s+([^/\s]+)", line, re.ASCII)
            if match is None:
                raise SourceError(f"{where} is '{line[:200]}', but it must be a number and a class.")
            number, name = int(match[1]), match[2]
            if name.casefold() in classes or number in {known for known, _ in classes.values()}:
                raise SourceError(f"{where} is '{line}', but this number or class is there already.")
            classes[name.casefold()] = (number, name)
        return [*_ucf_list(train, "train", classes), *_ucf_list(test, "test", classes)]


class MiniUcf(Ucf101):
    """MiniUCF: UCF101's tree and lists, of which 50 classes are taken."""

    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read UCF101's lists, and refuse those that lack one of the classes."""
        entries = [entry for entry in super().entries(source, folders, config) if entry.label in MINIUCF]
        lacking = sorted(MINIUCF - {entry.label for entry in entries})
        if lacking:
            raise SourceError(
                f"the lists under '{source}' have no videos of {len(lacking)} of MiniUCF's 50 classes, "
                f"the first is '{lacking[0]}'."
            )
        return entries


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


class Hmdb51(OfficialLists):
    """HMDB51: `<class>/<name>.avi` with a file `<class>_test_splitN.txt` for each class."""

    num_splits = 3
    has_spare_videos = True
    usual_folders = ("testTrainMulti_7030_splits", "test_train_splits", "annotations", "splits")
    num_parts = 2

    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read one file for each class that any of the three splits names, from the first folder that has some."""
        ending = f"_test_split{config.official_split}.txt"
        for folder in folders:
            # Copies made on a Mac have hidden files of the same names beside them.
            found = {path.name for path in folder.glob("*_test_split[123].txt") if not path.name.startswith(".")}
            if found:
                wanted = sorted({re.sub(r"_test_split\d\.txt$", ending, name) for name in found})
                files = annotation_files([folder], [(name,) for name in wanted])
                spare = "train" if config.train_list == "all-but-test" else ""
                splits = {"0": spare, "1": "train", "2": "test"}
                return [entry for file in files for entry in _hmdb_list(file, splits)]
        raise not_found([f"<class>{ending}"], folders)


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


class Kinetics400(OfficialLists):
    """Kinetics-400: `<youtube_id>_<start>_<end>.mp4`, flat or in folders, with train.csv and validate.csv."""

    usual_folders = ("annotations", "kinetics400", "kinetics400/annotations")
    notes = (VALIDATION_IS_TEST,)

    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read the two lists, which some copies have renamed."""
        names = [("train.csv", "kinetics_train.csv"), ("validate.csv", "val.csv", "kinetics_val.csv")]
        train, validation = annotation_files(folders, names)
        entries = [*_kinetics_list(train, "train"), *_kinetics_list(validation, "test")]
        if not entries:
            raise SourceError(f"'{train}' and '{validation}' list no videos.")
        return entries


KINETICS_SPLITS = {"train": ("train",), "test": ("validate", "val", "validation")}


def _kinetics_list(path: Path, split: str) -> Iterator[Entry]:
    for line, row in csv_rows(path, ("label", "youtube_id", "time_start", "time_end", "split")):
        where = f"line {line} of '{path}'"
        if row["split"] not in KINETICS_SPLITS[split]:
            raise SourceError(f"{where} has split '{row['split']}', but it must be {KINETICS_SPLITS[split][0]}.")
        # A spreadsheet turns an id that starts with a minus sign into #NAME?.
        if not re.fullmatch(r"[\w-]+", row["youtube_id"], re.ASCII):
            raise SourceError(f"{where} has youtube_id '{row['youtube_id']}', which is none.")
        for key in ("time_start", "time_end"):
            if not re.fullmatch(r"\d{1,6}(\.0*)?", row[key], re.ASCII):
                raise SourceError(f"{where} has {key} '{row[key]}', but it must be a whole number of seconds.")
        start, end = int(float(row["time_start"])), int(float(row["time_end"]))
        if end <= start:
            raise SourceError(f"{where} has time_end {end}, but it must be after time_start {start}.")
        yield Entry(f"{row['youtube_id']}_{start:06d}_{end:06d}.mp4", row["label"], split, where)


class SomethingSomething(OfficialLists):
    """Something-Something V2: `<id>.webm` in a folder, with JSON files of labels, training and validation."""

    usual_folders = ("labels", "annotations")
    notes = (VALIDATION_IS_TEST,)

    def entries(self, source: Path, folders: Sequence[Path], config: IngestConfig) -> list[Entry]:
        """Read the labels, numbered 0, 1, … without a gap, and the two lists; every class must have a video."""
        names = [f"{name}.json" for name in ("labels", "train", "validation")]
        choices = [(f"something-something-v2-{name}", name) for name in names]
        labels, train, validation = annotation_files(folders, choices)
        classes = read_json(labels)
        if not isinstance(classes, dict) or not classes:
            raise SourceError(f"'{labels}' must be an object of classes and their numbers.")
        numbers: dict[str, str] = {}
        for label, number in classes.items():
            if not label.strip() or not label.isprintable():
                raise SourceError(f"'{labels}' has a class {label!r}, which is no printable text.")
            if str(number) in numbers:
                given = f"the number {number} to '{numbers[str(number)]}' and to '{label}'"
                raise SourceError(f"'{labels}' gives {given}.")
            numbers[str(number)] = label
        for number in range(len(classes)):
            if str(number) not in numbers:
                raise SourceError(f"'{labels}' has {len(classes)} classes, but none has the number {number}.")
        entries = [*_ssv2_list(train, "train", classes), *_ssv2_list(validation, "test", classes)]
        unused = sorted(classes.keys() - {entry.label for entry in entries})
        if unused:
            raise SourceError(f"'{labels}' has class '{unused[0]}', which '{train}' has no video of.")
        return entries


def _ssv2_list(path: Path, split: str, classes: Collection[str]) -> Iterator[Entry]:
    videos = read_json(path)
    if not isinstance(videos, list):
        raise SourceError(f"'{path}' must be a list of videos.")
    for position, video in enumerate(videos, 1):
        where = f"entry {position} of '{path}'"
        if not isinstance(video, dict) or not {"id", "template"} <= video.keys():
            raise SourceError(f"{where} must be an object with id and template.")
        name, template = str(video["id"]), video["template"]
        if not re.fullmatch(r"\d+", name, re.ASCII) or not isinstance(template, str):
            raise SourceError(
                f"{where} has id '{name}' and template '{template}', but they must be a number and a text."
            )
        label = re.sub(r"[\[\]]", "", template)
        if label not in classes:
            raise SourceError(f"{where} has template '{template}', which is no class of the labels file.")
        yield Entry(f"{name}.webm", label, split, where)
