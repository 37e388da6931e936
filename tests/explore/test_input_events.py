"""Input events of the browser that tests drive are those of a person."""

import pytest

from browser import PROGRAM, Browser

PAGE = """<!doctype html><meta charset=utf-8>
<style>div { width: 90px; height: 40px; margin: 20px; touch-action: none }</style>
<button>press</button><input><div id=from></div><div id=to></div><p style="height: 3000px"></p>
<button id=far>far below</button>
<script>
const seen = [];
for (const kind of ["click", "keydown", "pointerdown", "pointermove", "pointerup"]) {
  addEventListener(kind, event => seen.push(
    [kind, event.target.id, event.key ?? "", event.ctrlKey, event.isTrusted]));
}
document.querySelector("#far").addEventListener("click", () => { throw Error("pressed") });
</script>"""


@pytest.fixture
def browser(tmp_path):
    if PROGRAM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome is installed")
    started = Browser(tmp_path / "profile")
    (tmp_path / "page.html").write_text(PAGE)
    started.open(tmp_path / "page.html", 600, "light")
    yield started
    started.close()


def test_a_person_clicks_types_and_drags(browser):
    browser.click("input")
    browser.type("Käse, 7\u202e😀")
    assert browser.value("document.querySelector('input').value") == "Käse, 7\u202e😀"
    browser.key("Backspace")
    browser.key("a", ["Control"])
    browser.type("x")
    assert browser.value("document.querySelector('input').value") == "x"
    assert ["keydown", "", "a", True, True] in browser.value("seen")
    browser.key("Tab", ["Shift"])
    browser.value("seen.length = 0")
    browser.key("Enter")
    assert ["click", "", "", False, True] in browser.value("seen")
    browser.value("seen.length = 0")
    browser.drag("#from", "#to", moves=5)
    kinds = [(kind, target) for kind, target, *_ in browser.value("seen")]
    assert kinds[:2] == [("pointermove", "from"), ("pointerdown", "from")]
    assert kinds.count(("pointermove", "to")) >= 2
    assert ("pointerup", "to") in kinds
    assert browser.heard()[1] == []


def test_errors_after_opening_are_heard(browser):
    browser.click("#far")
    (method, _), *others = browser.heard()[1]
    assert (method, others) == ("Runtime.exceptionThrown", [])
    with pytest.raises(AssertionError, match="#nowhere is not on the page"):
        browser.click("#nowhere")


def test_screenshots_are_of_the_page_or_the_window(browser, tmp_path):
    heights = []
    for whole in (True, False):
        browser.screenshot(tmp_path / "shot.png", whole)
        header = (tmp_path / "shot.png").read_bytes()[:24]
        heights.append(int.from_bytes(header[20:], "big"))
    assert heights[0] > 3000
    assert heights[1] == 900
