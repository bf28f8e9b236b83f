"""The site in a real browser, opened from disk: its pages ask nobody for anything, and its search finds.

`make docs` builds the site and then runs this; the other tests do not, since they need not have the tools.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Page, chromium_or_skip, complaints

SITE = Path(__file__).parent.parent / "build" / "docs"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")
BROKEN = "[...document.images].filter(image => image.naturalWidth === 0).map(image => image.src)"
FOUND = """new Promise(done => {
    const box = document.querySelector('.md-search__input'), end = Date.now() + 10000
    box.focus()
    box.value = 'interpolated'
    box.dispatchEvent(new Event('keyup', {bubbles: true}))
    const look = () => {
        const links = [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)
        links.length || Date.now() > end ? done(links) : setTimeout(look, 50)
    }
    look()
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Page]:
    with Page(chromium_or_skip(), tmp_path_factory.mktemp("profile")) as page:
        page.size(1280, 900)
        yield page


def asked(page: Page) -> set[str]:
    """The addresses that a page has asked for, without those inside the site."""
    urls = {event["request"]["url"] for event in page.named("Network.requestWillBeSent")}
    return {url for url in urls if not url.startswith((SITE.as_uri(), "data:", "about:"))}


def test_the_site_has_its_pages():
    assert {"index.html", "concepts.html", "api.html", "changelog.html", "log.html", "readme.html"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_complaint_and_asks_nobody(browser, name):
    browser.open(SITE / name)
    assert browser.evaluate("document.querySelector('h1').textContent.length")
    assert browser.evaluate(BROKEN) == []
    assert asked(browser) == set()
    assert complaints(browser) == []


def test_the_search_finds_pages_without_a_server(browser):
    browser.open(SITE / "index.html")
    links = browser.evaluate(FOUND)
    assert any("concepts.html" in link for link in links)
    assert asked(browser) == set()
    assert complaints(browser) == []


@pytest.mark.parametrize("name", ["index.html", "concepts.html", "results.html", "api.html"])
def test_a_page_is_never_wider_than_a_telephone(browser, name):
    browser.size(390, 800)
    browser.open(SITE / name)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
