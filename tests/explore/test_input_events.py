"""Input events of the browser that tests drive are those of a person."""

import pytest

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
def opened(browser, tmp_path):
    (tmp_path / "page.html").write_text(PAGE)
    browser.open(tmp_path / "page.html", 600, "light")
    return browser


def test_a_person_clicks_types_and_drags(opened):
    opened.click("input")
    opened.type("Käse, 7\u202e😀")
    assert opened.value("document.querySelector('input').value") == "Käse, 7\u202e😀"
    opened.key("Backspace")
    opened.key("a", ["Control"])
    opened.type("x")
    assert opened.value("document.querySelector('input').value") == "x"
    assert ["keydown", "", "a", True, True] in opened.value("seen")
    opened.key("Tab", ["Shift"])
    opened.value("seen.length = 0")
    opened.key("Enter")
    assert ["click", "", "", False, True] in opened.value("seen")
    opened.value("seen.length = 0")
    opened.drag("#from", "#to", moves=5)
    kinds = [(kind, target) for kind, target, *_ in opened.value("seen")]
    assert kinds[:2] == [("pointermove", "from"), ("pointerdown", "from")]
    assert kinds.count(("pointermove", "to")) >= 2
    assert ("pointerup", "to") in kinds
    assert opened.heard()[1] == []


def test_errors_after_opening_are_heard(opened):
    opened.click("#far")
    (method, _), *others = opened.heard()[1]
    assert (method, others) == ("Runtime.exceptionThrown", [])
    with pytest.raises(AssertionError, match="#nowhere is not on the page"):
        opened.click("#nowhere")


def test_screenshots_are_of_the_page_or_the_window(opened, tmp_path):
    heights = []
    for whole in (True, False):
        opened.screenshot(tmp_path / "shot.png", whole)
        header = (tmp_path / "shot.png").read_bytes()[:24]
        heights.append(int.from_bytes(header[20:], "big"))
    assert heights[0] > 3000
    assert heights[1] == 900
