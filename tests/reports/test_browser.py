"""The page in a real browser: it plays, shows every picture, asks for nothing, and runs nobody's code."""

from collections.abc import Iterator

import pytest
from chromium import Page, chromium_or_skip
from exhibits import HOSTILE, HOSTILE_NAMES, Exhibit

from prism.reports.page import report
from prism.reports.text import printable

pytestmark = pytest.mark.browser
BROKEN = "[...document.images].filter(image => image.naturalWidth === 0).map(image => image.alt)"
FRAME = "getComputedStyle(document.querySelector('.tile')).getPropertyValue('--at')"
MOVES = f"""new Promise(done => {{
    const first = {FRAME}, end = Date.now() + 5000
    const look = () => {FRAME} !== first ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 10)
    look()
}})"""
PAUSED = "Promise.all(document.getAnimations().map(one => one.ready)).then(() => true)"
"""An animation that is asked to pause does so with the next picture."""
LONG_ENOUGH = "new Promise(done => setTimeout(done, 700))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Page]:
    with Page(chromium_or_skip(), tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    exhibit = Exhibit.build(tmp_path_factory.mktemp("exhibit") / "runs", HOSTILE_NAMES, size=24)
    results = exhibit.everything()
    results.append(exhibit.of_set(exhibit.folder / "set.safetensors", HOSTILE, split="val", protocol=HOSTILE))
    return report(results, exhibit.folder / "page.html")


@pytest.fixture
def opened(browser, hostile_page) -> Page:
    browser.size(1280, 900)
    browser.open(hostile_page)
    return browser


def complaints(page: Page) -> list[str]:
    """Everything that the console or the content-security policy has to say."""
    said = page.named("Runtime.consoleAPICalled") + page.named("Runtime.exceptionThrown")
    return [str(entry) for entry in said + page.named("Log.entryAdded")]


def test_the_page_opens_without_a_complaint(opened):
    assert opened.evaluate("document.querySelectorAll('.tile').length") == 2 * len(HOSTILE_NAMES)
    assert complaints(opened) == []


def test_the_page_asks_for_nothing(opened, hostile_page):
    asked = {event["request"]["url"] for event in opened.named("Network.requestWillBeSent")}
    assert {url for url in asked if not url.startswith("data:")} == {hostile_page.resolve().as_uri()}


def test_every_picture_has_loaded(opened):
    assert opened.evaluate("document.images.length") > 2 * len(HOSTILE_NAMES)
    assert opened.evaluate(BROKEN) == []


def test_hostile_names_are_shown_and_not_run(opened):
    names = opened.evaluate("[...document.querySelectorAll('.class h4')].map(name => name.textContent)")
    assert names == [printable(name) for name in HOSTILE_NAMES]
    assert opened.evaluate("typeof window.hurt") == "undefined"
    assert opened.evaluate("document.scripts.length") == 0
    assert opened.evaluate("document.querySelectorAll('style').length") == 1


def test_the_policy_stops_a_script_that_gets_in(opened):
    opened.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hurt = 1'}))"
    )
    assert opened.evaluate("typeof window.hurt") == "undefined"
    assert "Content Security Policy" in "".join(complaints(opened))


def test_the_videos_play_in_step_with_their_time_lines(opened):
    opened.evaluate("document.querySelector('.gallery').scrollIntoView()")
    picture = opened.screenshot()
    assert opened.evaluate(MOVES)
    # A clip is soon back where it was, so one later picture might be the same.
    assert any(opened.screenshot() != picture for _ in range(20))
    together = "new Set([...document.querySelectorAll('.class')].slice(0, 1).flatMap(row => "
    together += (
        "[...row.querySelectorAll('img, b')]).map(part => getComputedStyle(part).getPropertyValue('--at'))).size"
    )
    assert opened.evaluate(together) == 1


def test_the_videos_can_be_paused(opened):
    opened.evaluate("document.querySelector('.gallery input').click()")
    assert_still(opened)


def test_the_videos_stand_still_for_readers_who_prefer_it(browser, hostile_page):
    browser.size(1280, 900, reduced_motion=True)
    browser.open(hostile_page)
    assert_still(browser)


def assert_still(page: Page) -> None:
    page.evaluate("document.querySelector('.gallery').scrollIntoView()")
    page.evaluate(PAUSED)
    first = page.evaluate(FRAME)
    page.evaluate(LONG_ENOUGH)
    assert page.evaluate(FRAME) == first


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_the_page_is_never_wider_than_the_screen(browser, hostile_page, width):
    browser.size(width, 800)
    browser.open(hostile_page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
