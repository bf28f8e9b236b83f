"""Layouts of published data sets, one for each, which read the official annotation files.

The validation videos of Kinetics and Something-Something are the test split, as in the literature.
docs/datasets.md shows the trees. A name in a list is never opened as a path: it is looked up among the videos
under the source, so no list can reach a file outside of the source.
"""

import json
import os
import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unicodedata import normalize

from prism.errors import SourceError
from prism.ingestion.listing import (
    MISSING,
    UNLISTED,
    Layout,
    Listing,
    csv_rows,
    named,
    read_list,
    videos_under,
    without_suffixes,
)

VALIDATION_IS_TEST = "The validation videos of this data set are the test split, as in the literature."
Listed = tuple[str, str, str]
"""Name of a video, after its class folder if the list gives one; class; split, empty for a video left out."""

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

    The annotation files lie in the folder `annotations` (absolute or relative to the source; by default the
    source) or up to two folders deeper.
    """

    annotations: str = ""
    follow_links: bool = False
    ignores_case: ClassVar[bool] = False
    """Whether names match without regard to case: in some copies, lists and folders differ in it."""
    notes: ClassVar[Sequence[str]] = ()

    def videos_of(self, source: Path) -> Listing:
        """The listed videos that lie under the source, at any depth, as video files or folders of frames."""
        home, listing = source / self.annotations, Listing(source, notes=list(self.notes))
        folders = [home, *sorted(home.glob("[!.]*/")), *sorted(home.glob("[!.]*/[!.]*/"))]
        listed = self.listed(folders, listing)
        listing.check()
        if not listed:
            raise SourceError(f"the official lists of '{source}' have no rows.")
        found = defaultdict[str, list[Path]](list)
        for path in videos_under(listing, source, self.follow_links):
            found[self._stem(path.name)].append(path)
        places = [(self._fold(os.path.dirname(name)), self._stem(os.path.basename(name))) for name, _, _ in listed]
        times, folders_of = Counter(places), Counter(stem for _, stem in set(places))
        for (name, label, split), (folder, stem) in zip(listed, places, strict=True):
            if times[folder, stem] > 1:
                listing.faults[source, "videos that are listed more than once"].append(repr(name))
            inside = [path for path in found[stem] if self._fold(path.parent.name) == folder]
            # Class folders distinguish videos of one name, but some copies have no class folders.
            paths = inside if inside or folders_of[stem] > 1 else found[stem]
            for path in paths if split else ():
                listing.add(path, label, split)
            if split and not paths:
                listing.skipped[name] = MISSING
                listing.labels.setdefault(normalize("NFC", label), name)
            elif len({os.path.realpath(path) for path in paths}) > 1:
                both = " and ".join(f"'{listing.relative(path)}'" for path in paths[:2])
                listing.faults[source, "videos that are there more than once"].append(both)
        unlisted = found.keys() - folders_of.keys()
        listing.caution(UNLISTED, (listing.relative(path) for stem in unlisted for path in found[stem]))
        return listing

    @abstractmethod
    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        """Videos in the annotation files, which lie in one of the folders; faulty lines go to the listing."""

    def _fold(self, name: str) -> str:
        """A name in one Unicode form, which copying through macOS changes, and without case if `ignores_case`."""
        name = normalize("NFC", name)
        return name.casefold() if self.ignores_case else name

    def _stem(self, name: str) -> str:
        return self._fold(without_suffixes(name))


def _files(folders: Sequence[Path], *names: Sequence[str]) -> list[Path]:
    """The files of the first folder that has all; `names` holds the possible names of each, the official first."""
    for folder in folders:
        files = [next((folder / name for name in some if (folder / name).is_file()), None) for some in names]
        if None not in files:
            return [file for file in files if file]
    wanted = " and ".join(repr(some[0]) for some in names)
    place = f"'{folders[0]}', or in a folder at most two deeper"
    raise SourceError(f"{wanted} must lie in {place}. Name their folder with --annotations.")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, with their numbers."""
    return ((number, line.strip()) for number, line in enumerate(read_list(path).splitlines(), 1) if line.strip())


def _json(path: Path, kind: type) -> Any:
    try:
        content = json.loads(read_list(path))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"'{path}' is not a JSON file: {error}.") from None
    if not isinstance(content, kind):
        raise SourceError(f"'{path}' must have a {kind.__name__} in JSON, got a {type(content).__name__}.")
    return content


@dataclass(frozen=True)
class Ucf101(OfficialLists):
    """UCF101: `<class>/v_<class>_g01_c01.avi`, or flat, with trainlist0N.txt and testlist0N.txt."""

    official_split: int = 1
    # Its names have HandstandPushups as well as HandStandPushups.
    ignores_case = True

    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        """Videos in lines `<class>/<video>.avi`; a class number at the end of a line is ignored."""
        names = [(f"{name}0{self.official_split}.txt",) for name in ("trainlist", "testlist")]
        listed, labels = list[Listed](), dict[str, str]()
        for path, split in zip(_files(folders, *names), ("train", "test"), strict=True):
            for line, text in _lines(path):
                match = re.fullmatch(r"([^/]+)/([^/]+?\.\w+)(?:\s+\d+)?", text, re.ASCII)
                if match is None:
                    listing.fault(path, "no <class>/<video>.avi", line, text)
                else:
                    label = labels.setdefault(match[1].casefold(), match[1])
                    listed.append((f"{match[1]}/{match[2]}", label, split))
        return listed


class MiniUcf(Ucf101):
    """MiniUCF: 50 classes of UCF101, from its tree and lists."""

    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        listed = super().listed(folders, listing)
        listing.check()
        if lacking := MINIUCF - {label for _, label, _ in listed}:
            raise SourceError(f"the lists have no videos of some of MiniUCF's 50 classes: {named(lacking)}.")
        return [(name, label, split if label in MINIUCF else "") for name, label, split in listed]


@dataclass(frozen=True)
class Hmdb51(OfficialLists):
    """HMDB51: `<class>/<name>.avi` with a file `<class>_test_splitN.txt` for each class."""

    official_split: int = 1
    train_list: str = "official"

    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        """Videos in the list of each class; the lists of all classes lie in the first folder that has any."""
        ending = f"_test_split{self.official_split}.txt"
        # Copies made on a Mac have hidden files of the same names beside them.
        inside = (list(folder.glob("[!.]*_test_split[123].txt")) for folder in folders)
        found = next(filter(None, inside), None) or _files(folders, (f"<class>{ending}",))
        wanted = sorted({path.with_name(re.sub(r"_test_split\d\.txt$", ending, path.name)) for path in found})
        if lacking := [path.name for path in wanted if path not in found]:
            raise SourceError(f"folder '{wanted[0].parent}' lacks lists of classes: {named(lacking)}.")
        # A line has a name, which may hold spaces, and 1 for train, 2 for test, 0 for neither list.
        splits = {"0": "train" if self.train_list == "all-but-test" else "", "1": "train", "2": "test"}
        listed = list[Listed]()
        for path in wanted:
            label = path.name.removesuffix(ending)
            for line, text in _lines(path):
                name, _, use = text.replace("\t", " ").rpartition(" ")
                if not name.strip() or "/" in name or use not in splits:
                    listing.fault(path, "no <name>.avi and 0, 1 or 2", line, text)
                else:
                    listed.append((f"{label}/{name.strip()}", label, splits[use]))
        return listed


class Kinetics400(OfficialLists):
    """Kinetics-400: `<youtube_id>_<start>_<end>.mp4`, flat or in folders, with train.csv and validate.csv."""

    notes = (VALIDATION_IS_TEST,)

    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        names = ("train.csv", "kinetics_train.csv"), ("validate.csv", "val.csv", "kinetics_val.csv")
        listed, columns = list[Listed](), ("label", "youtube_id", "time_start", "time_end")
        for path, split in zip(_files(folders, *names), ("train", "test"), strict=True):
            for line, row in csv_rows(path, columns, listing):
                label, video, *times = (row[column] for column in columns)
                # A spreadsheet turns an id that starts with a minus sign into #NAME?.
                if re.fullmatch(r"[\w-]+( \d{1,6}(\.0*)?){2}", " ".join((video, *times)), re.ASCII):
                    start, end = (int(float(time)) for time in times)
                    listed.append((f"{video}_{start:06d}_{end:06d}.mp4", label, split))
                else:
                    listing.fault(path, "no youtube_id and whole seconds", line, " ".join((video, *times)))
        return listed


class SomethingSomething(OfficialLists):
    """Something-Something V2: `<id>.webm` in a folder, with JSON files of labels, training and validation."""

    notes = (VALIDATION_IS_TEST,)

    def listed(self, folders: Sequence[Path], listing: Listing) -> list[Listed]:
        """Videos in entries of an id and a template; the template without its brackets is the class."""
        names = [f"{name}.json" for name in ("labels", "train", "validation")]
        labels, *lists = _files(folders, *((f"something-something-v2-{name}", name) for name in names))
        classes, listed = _json(labels, dict), list[Listed]()
        for path, split in zip(lists, ("train", "test"), strict=True):
            for position, video in enumerate(_json(path, list), 1):
                name, template = (str(video.get(k)) if isinstance(video, dict) else "" for k in ("id", "template"))
                label = re.sub(r"[\[\]]", "", template)
                if name.isdecimal() and label in classes:
                    listed.append((f"{name}.webm", label, split))
                else:
                    listing.fault(path, "no number as id, with a template of the labels", position, template)
        return listed
