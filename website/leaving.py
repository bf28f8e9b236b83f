"""A hook of the site: links that leave docs/ lead to pages too, made of the files of the repository.

Beside the pages of docs/ the site has the changelog, the log of measurements and the README, and shows each other
file that a page links to as code, and of a folder the files of data.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
"""The path in a Markdown link: no address of the web, no place of the same page."""


def target(place: str, link: str) -> str | None:
    """The path from the root that a link in the file at `place` leads to, if something is there."""
    path = os.path.normpath(os.path.join(os.path.dirname(place), link))
    return path if (ROOT / path).exists() else None


def page_of(place: str) -> str:
    """The page of the site for a path of the repository."""
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return place.lower() if place.endswith(".md") else f"source/{place}.md"


def code(path: Path) -> str:
    """A file as a block of code."""
    return f"~~~~{path.suffix[1:]}\n{path.read_text(encoding='utf-8')}~~~~\n"


def shown(place: str) -> str:
    """The Markdown of a page for what lies outside docs/."""
    path = ROOT / place
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.is_file():
        return f"# `{place}`\n\n{code(path)}"
    # Code has the repository for a page, and sets are no text.
    parts = sorted(part for part in path.rglob("*.*") if not part.suffix.startswith((".py", ".safetensors")))
    return "\n".join([f"# `{place}`\n", *(f"## `{part.relative_to(path)}`\n\n{code(part)}" for part in parts)])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the changelog, and a page for everything outside docs/ that a page links to."""
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    waiting = [
        "CHANGELOG.md",
        "README.md",
        *(target(place, link) for place in texts for link in LINK.findall(texts[place])),
    ]
    places: dict[str, str] = {}
    while waiting:
        place = waiting.pop()
        if place is None or place.startswith("docs/") or place in places.values():
            continue
        content = shown(place)
        places[page_of(place)] = place
        files.append(File.generated(config, page_of(place), content=content))
        if place.endswith(".md"):
            waiting += [target(place, link) for link in LINK.findall(content)]
    config.extra["places"] = places
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let every link lead to its page, and lists in lists have the four spaces that Python's Markdown wants."""
    place = config.extra["places"].get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if not place.endswith(".md"):
        return markdown

    def led(found: re.Match[str]) -> str:
        leads_to = target(place, found[0])
        return page_of(leads_to) if leads_to else found[0]

    return LINK.sub(led, re.sub(r"^  (?=- )", "    ", markdown, flags=re.MULTILINE))
