"""The page in a real browser: it plays, shows every picture, asks for nothing, and runs nobody's code."""

from collections.abc import Iterator

import pytest
from chromium import Page, chromium_or_skip, complaints
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


def test_the_page_shows_and_plays_every_clip_asks_for_nothing_and_runs_no_ones_code(browser, hostile_page):
    browser.size(1280, 900)
    browser.open(hostile_page)
    assert browser.evaluate("document.querySelectorAll('.tile').length") == 2 * len(HOSTILE_NAMES)
    assert browser.evaluate(BROKEN) == complaints(browser) == []
    asked = {event["request"]["url"] for event in browser.named("Network.requestWillBeSent")}
    assert {url for url in asked if not url.startswith("data:")} == {hostile_page.resolve().as_uri()}
    names = browser.evaluate("[...document.querySelectorAll('.class h4')].map(name => name.textContent)")
    assert names == [printable(name) for name in HOSTILE_NAMES]
    assert browser.evaluate("document.scripts.length") == 0
    for width in (1280, 768, 390):
        browser.size(width, 800)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # A clip plays in step with its time line.
    browser.evaluate("document.querySelector('.gallery').scrollIntoView()")
    picture = browser.screenshot()
    assert browser.evaluate(MOVES)
    # It is soon back where it was, so one later picture might be the same.
    assert any(browser.screenshot() != picture for _ in range(20))
    together = "new Set([...document.querySelector('.class').querySelectorAll('img, b')]"
    assert browser.evaluate(f"{together}.map(part => getComputedStyle(part).getPropertyValue('--at'))).size") == 1
    browser.evaluate("document.querySelector('.gallery input').click()")
    browser.evaluate(PAUSED)
    first = browser.evaluate(FRAME)
    browser.evaluate(LONG_ENOUGH)
    assert browser.evaluate(FRAME) == first
    # The policy stops a script that gets in.
    script = "Object.assign(document.createElement('script'), {text: 'window.hurt = 1'})"
    browser.evaluate(f"document.body.append({script})")
    assert browser.evaluate("typeof window.hurt") == "undefined"
    assert "Content Security Policy" in "".join(complaints(browser))
