"""Data sets as their authors publish them: one layout for each, which reads the official annotation files.

The validation videos of Kinetics and Something-Something are the test split, as in the literature.
docs/datasets.md shows the trees. A name in a list is never opened as a path: it is looked up among the videos that
are under the source, so no list can reach beyond it.
"""

import io
import json
import os
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unicodedata import normalize

from prism.errors import SourceError
from prism.ingestion.listing import (
    MISSING,
    VIDEO_SUFFIXES,
    Faults,
    Layout,
    Listing,
    csv_rows,
    few,
    read_list,
    require_folder,
    videos_under,
)

VALIDATION_IS_TEST = "The validation videos of this data set are the test split, as in the literature."
Listed = tuple[str, str, str]
"""The name of a video, with its folder where that tells videos apart; its class; and its split, or nothing for one
that this split does not use."""

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


@dataclass(frozen=True)
class OfficialLists(Layout):
    """Base of the layouts of published data sets: videos at any depth, with annotation files that list them.

    Attributes:
        annotations: folder of the annotation files, absolute or seen from the source; empty: the source itself,
            the usual folders in it, and the folders in these.
        follow_links: search folders that are links.
    """

    annotations: str = ""
    follow_links: bool = False
    usual_folders: ClassVar[Sequence[str]] = ("annotations", "splits", "labels")
    ignores_case: ClassVar[bool] = False
    """The lists and the folders of some copies differ in case."""
    notes: ClassVar[Sequence[str]] = ()

    def videos_of(self, source: Path) -> Listing:
        require_folder(source)
        faults = Faults()
        listed = self.listed(self._folders(source), faults)
        faults.check()
        listing = self._find(source, listed)
        listing.notes.extend(self.notes)
        return listing

    @abstractmethod
    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        """Read the annotation files, which lie in one of some folders; faulty lines are added to `faults`."""

    def _folders(self, source: Path) -> list[Path]:
        """The folders in which annotation files may lie: archives are often unpacked one folder deeper."""
        usual = [source / self.annotations] if self.annotations else [source / name for name in self.usual_folders]
        deeper = (sorted(path for path in folder.glob("[!.]*") if path.is_dir()) for folder in usual)
        return [*([] if self.annotations else [source]), *usual, *(path for paths in deeper for path in paths)]

    def _find(self, source: Path, listed: list[Listed]) -> Listing:
        """Look up listed videos under a source: a file of any video type, or a folder of frames, at any depth."""
        listing, found = Listing(source), defaultdict[str, list[Path]](list)
        for path in videos_under(listing, source, self.follow_links):
            found[self._stem(path.name)].append(path)
        again, twice, folders_of = list[str](), list[str](), defaultdict[str, set[str]](set)
        for name, _, _ in listed:
            folder, _, file = self._fold(name).rpartition("/")
            again += [repr(name)] * (folder in folders_of[self._stem(file)])
            folders_of[self._stem(file)].add(folder)
        for name, label, split in listed:
            folder, _, file = self._fold(name).rpartition("/")
            paths = found.get(self._stem(file), [])
            inside = [path for path in paths if self._fold(path.parent.name) == folder]
            # Class folders tell videos apart, but some copies have none.
            paths = inside if inside or len(folders_of[self._stem(file)]) > 1 else paths
            for path in paths if split else ():
                listing.add(path, label, split)
            if split and not paths:
                listing.skipped[name] = MISSING
                listing.labels.setdefault(label, name)
            elif len(paths) > 1 and len({os.path.realpath(path) for path in paths}) > 1:
                twice.append(" and ".join(f"'{listing.relative(path)}'" for path in paths[:2]))
        said = [f"videos that are listed more than once: {len(again):,} ({few(again)})"] if again else []
        said += [f"listed videos that are there more than once: {len(twice):,} ({few(twice)})"] if twice else []
        if said:
            raise SourceError(f"source '{source}' has {' and '.join(said)}. Keep one of each.")
        for stem in found.keys() - folders_of.keys():
            listing.unlisted += map(listing.relative, found[stem])
        return listing

    def _fold(self, name: str) -> str:
        """A name in one Unicode form, which copies by way of macOS change, and in one case where lists differ."""
        name = normalize("NFC", name)
        return name.casefold() if self.ignores_case else name

    def _stem(self, name: str) -> str:
        """A name without its suffixes: `id.mp4.mkv` is `id`."""
        while name.lower().endswith(VIDEO_SUFFIXES):
            name = name.rpartition(".")[0]
        return self._fold(name)


def _files(folders: Sequence[Path], names: Sequence[Sequence[str]]) -> list[Path]:
    """The files of the first folder that has all of them; each may have several names, the official one first."""
    best: list[Path | None] = [None] * len(names)
    for folder in folders:
        found = [next((folder / name for name in some if (folder / name).is_file()), None) for some in names]
        if None not in found:
            return [path for path in found if path]
        best = max(best, found, key=lambda files: len(files) - files.count(None))
    raise _not_found([some[0] for some, path in zip(names, best, strict=True) if path is None], folders)


def _not_found(names: Sequence[str], folders: Sequence[Path]) -> SourceError:
    wanted = " and ".join(f"'{name}'" for name in names)
    looked = ", ".join(f"'{folder}'" for folder in folders)
    verb = "are" if len(names) > 1 else "is"
    return SourceError(f"{wanted} {verb} missing: looked in {looked}. Name the folder with --annotations.")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, with their numbers; any line ends."""
    text = io.StringIO(read_list(path), newline=None)
    lines = [(number, line.strip()) for number, line in enumerate(text, 1)]
    if not any(line for _, line in lines):
        raise SourceError(f"'{path}' is empty.")
    return ((number, line) for number, line in lines if line)


def _json(path: Path, kind: type, what: str) -> Any:
    try:
        content = json.loads(read_list(path))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"'{path}' is not a JSON file: {error}.") from None
    if not isinstance(content, kind):
        raise SourceError(f"'{path}' must be {what}.")
    return content


@dataclass(frozen=True)
class Ucf101(OfficialLists):
    """UCF101: `<class>/v_<class>_g01_c01.avi`, or flat, with classInd.txt, trainlist0N.txt and testlist0N.txt."""

    official_split: int = 1
    usual_folders = ("ucfTrainTestlist", "UCF101TrainTestSplits-RecognitionTask", "annotations", "splits")
    # HandstandPushups, HandStandPushups.
    ignores_case = True

    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        numbered = [f"{name}0{self.official_split}.txt" for name in ("trainlist", "testlist")]
        index, train, test = _files(folders, [("classInd.txt",), *((name,) for name in numbered)])
        # Number and name of each class, by its name in one case.
        classes: dict[str, tuple[int, str]] = {}
        for line, text in _lines(index):
            match = re.fullmatch(r"(\d{1,9})\s+([^/\s]+)", text, re.ASCII)
            if match is None:
                faults.add(index, "no number and class", line, text)
            elif match[2].casefold() in classes or int(match[1]) in {number for number, _ in classes.values()}:
                faults.add(index, "a number or class that it has before", line, text)
            else:
                classes[match[2].casefold()] = (int(match[1]), match[2])
        faults.check()
        return [*_ucf_list(train, "train", classes, faults), *_ucf_list(test, "test", classes, faults)]


def _ucf_list(path: Path, split: str, classes: dict[str, tuple[int, str]], faults: Faults) -> Iterator[Listed]:
    """A train list has a class number after each path; a test list may."""
    form = "<class>/<video>.avi" + " and the number of the class" * (split == "train")
    for line, text in _lines(path):
        match = re.fullmatch(r"([^/]+)/([^/]+?\.\w+)(?:\s+(\d{1,9}))?", text, re.ASCII)
        if match is None or (split == "train" and match[3] is None):
            faults.add(path, f"no {form}", line, text)
            continue
        number, label = classes.get(match[1].casefold(), (None, ""))
        if int(match[3] or number or 0) != number:
            faults.add(path, "a class, or its number, that classInd.txt does not have", line, text)
        else:
            yield f"{match[1]}/{match[2]}", label, split


class MiniUcf(Ucf101):
    """MiniUCF: UCF101's tree and lists, of which 50 classes are taken."""

    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        listed = super().listed(folders, faults)
        faults.check()
        if lacking := sorted(MINIUCF - {label for _, label, _ in listed}):
            raise SourceError(
                f"the lists have no videos of {len(lacking)} of MiniUCF's 50 classes: {few(lacking)}."
            )
        return [(name, label, split if label in MINIUCF else "") for name, label, split in listed]


@dataclass(frozen=True)
class Hmdb51(OfficialLists):
    """HMDB51: `<class>/<name>.avi` with a file `<class>_test_splitN.txt` for each class."""

    official_split: int = 1
    train_list: str = "official"
    usual_folders = ("testTrainMulti_7030_splits", "test_train_splits", "annotations", "splits")

    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        """One file for each class that any of the three splits names, from the first folder that has some."""
        ending = f"_test_split{self.official_split}.txt"
        for folder in folders:
            # Copies made on a Mac have hidden files of the same names beside them.
            found = {path.name for path in folder.glob("*_test_split[123].txt") if not path.name.startswith(".")}
            if found:
                wanted = sorted({re.sub(r"_test_split\d\.txt$", ending, name) for name in found})
                files = _files([folder], [(name,) for name in wanted])
                return [
                    video for file in files for video in self._read(file, file.name.removesuffix(ending), faults)
                ]
        raise _not_found([f"<class>{ending}"], folders)

    def _read(self, path: Path, label: str, faults: Faults) -> Iterator[Listed]:
        """A name (which may hold spaces) and 1 for train, 2 for test, 0 for neither list."""
        splits = {"0": "train" if self.train_list == "all-but-test" else "", "1": "train", "2": "test"}
        for line, text in _lines(path):
            name, _, use = text.replace("\t", " ").rpartition(" ")
            if not name.strip() or "/" in name or use not in splits:
                faults.add(path, "no <name>.avi and 0, 1 or 2", line, text)
            else:
                yield f"{label}/{name.strip()}", label, splits[use]


class Kinetics400(OfficialLists):
    """Kinetics-400: `<youtube_id>_<start>_<end>.mp4`, flat or in folders, with train.csv and validate.csv."""

    usual_folders = ("annotations", "kinetics400")
    notes = (VALIDATION_IS_TEST,)

    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        names = [("train.csv", "kinetics_train.csv"), ("validate.csv", "val.csv", "kinetics_val.csv")]
        train, validation = _files(folders, names)
        validating = ("validate", "val", "validation")
        return [
            *_kinetics_list(train, "train", ("train",), faults),
            *_kinetics_list(validation, "test", validating, faults),
        ]


def _kinetics_list(path: Path, split: str, named: Sequence[str], faults: Faults) -> Iterator[Listed]:
    columns = ("label", "youtube_id", "time_start", "time_end", "split")
    for line, (label, video, start, end, given) in csv_rows(path, columns, (), faults):
        if given not in named:
            faults.add(path, f"a split that is not {named[0]}", line, given)
        # A spreadsheet turns an id that starts with a minus sign into #NAME?.
        elif not re.fullmatch(r"[\w-]+ (\d{1,6}(\.0*)? ?){2}", f"{video} {start} {end}", re.ASCII):
            faults.add(path, "no youtube_id and whole seconds", line, f"{video} {start} {end}")
        elif float(end) <= float(start):
            faults.add(path, "an end that is not after its start", line, f"{start} {end}")
        else:
            yield f"{video}_{int(float(start)):06d}_{int(float(end)):06d}.mp4", label, split


class SomethingSomething(OfficialLists):
    """Something-Something V2: `<id>.webm` in a folder, with JSON files of labels, training and validation."""

    usual_folders = ("labels", "annotations")
    notes = (VALIDATION_IS_TEST,)

    def listed(self, folders: Sequence[Path], faults: Faults) -> list[Listed]:
        """The labels are numbered 0, 1, … without a gap, and every class must have a video."""
        names = [f"{name}.json" for name in ("labels", "train", "validation")]
        labels, train, validation = _files(folders, [(f"something-something-v2-{name}", name) for name in names])
        classes = _json(labels, dict, "an object of classes and their numbers")
        if sorted(map(str, classes.values())) != sorted(map(str, range(len(classes)))):
            raise SourceError(f"'{labels}' must number its {len(classes)} classes 0, 1, … without a gap.")
        if odd := [label for label in classes if not label.strip() or not label.isprintable()]:
            raise SourceError(
                f"'{labels}' has {len(odd)} classes that are no printable text: {few(list(map(repr, odd)))}."
            )
        listed = [
            *_ssv2_list(train, "train", classes, faults),
            *_ssv2_list(validation, "test", classes, faults),
        ]
        faults.check()
        if unused := sorted(classes.keys() - {label for _, label, _ in listed}):
            raise SourceError(f"'{labels}' has {len(unused)} classes without a video: {few(unused)}.")
        return listed


def _ssv2_list(path: Path, split: str, classes: dict[str, Any], faults: Faults) -> Iterator[Listed]:
    for position, video in enumerate(_json(path, list, "a list of videos"), 1):
        name, template = (str(video.get(key)) if isinstance(video, dict) else "" for key in ("id", "template"))
        label = re.sub(r"[\[\]]", "", template)
        if not re.fullmatch(r"\d+", name, re.ASCII):
            faults.add(path, "no id that is a number", position, name)
        elif label not in classes:
            faults.add(path, "a template that is no class of the labels", position, template)
        else:
            yield f"{name}.webm", label, split
