"""The image files of a video that is stored as a folder with one image per frame."""

import re
from pathlib import Path

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


def frame_files(folder: Path) -> list[Path]:
    """The images of a folder in natural order: frame 2 before frame 10."""
    images = [path for path in folder.iterdir() if is_image(path.name)]
    return sorted(images, key=lambda path: (natural_key(path.name), path.name))


def is_image(name: str) -> bool:
    """Whether a file name is that of a frame, and not hidden."""
    return name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith(".")


def natural_key(name: str) -> list[str | int]:
    """A sort key that compares runs of digits as numbers."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
