"""The page's controls: the focus, undo, typed names, and labels that are dragged."""

import json

import numpy as np
import pytest

from unlabel.explore import render

NAMES = ["bird", "cat", "dog", "fox", "horse", "mouse", "owl", "pig", "rat", "wolf"]
BOX = '#labels li[data-column="{}"] input'
LABEL = '#labels li[data-column="{}"]'
GRIP = LABEL + " .grip"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    random = np.random.default_rng(5)
    truth = np.tile(np.arange(len(NAMES)), 30)
    logits = random.normal(0, 1.5, (len(truth), len(NAMES)))
    logits[np.arange(len(truth)), truth] += 2
    path = tmp_path_factory.mktemp("page") / "explore.html"
    html = render(logits, NAMES, np.array(NAMES)[truth], kind="logits")
    path.write_text(html, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, page):
    browser.open(page, 1280, "light")
    yield browser
    assert browser.heard()[1] == []


def changes(browser):
    return dict(browser.value("[...page.now.plan.changes]"))


def status(browser):
    return browser.value("document.getElementById('status').textContent")


def focused(browser):
    """The element that has the focus after the browser has drawn."""
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return browser.value(
        "(({ tagName, id, value }) => [tagName, id || value || ''])(document.activeElement)"
    )


def type_destination(browser, column, text):
    browser.click(BOX.format(column))
    browser.click("#to")
    browser.type(text)
    browser.key("Enter")


def test_the_focus_stays_near_where_it_was(opened):
    opened.click(BOX.format(3))
    opened.click("#remove")  # which is disabled then
    assert focused(opened) == ["INPUT", "3"]
    opened.key("ArrowDown")
    opened.key(" ")
    opened.click("#clear")  # which is hidden then
    assert focused(opened) == ["INPUT", "4"]
    type_destination(opened, 5, "rodent")
    assert focused(opened) == ["INPUT", "5"]
    opened.click("#suggestion-rows button")  # which is replaced
    assert focused(opened)[0] == "SECTION"
    opened.key("Tab")
    assert focused(opened)[0] == "BUTTON"
    opened.key("z", ["Control"])
    assert focused(opened)[0] == "SECTION"
    opened.click("#reset")
    assert focused(opened) == ["INPUT", "5"]
    while opened.value("!document.getElementById('row-more').hidden"):
        opened.click("#row-more")
    assert focused(opened)[0] != "BODY"


def test_keys_that_change_labels_rest_while_a_dialog_is_open(opened):
    opened.click(BOX.format(3))
    opened.click("#copy")
    opened.key("Tab")
    opened.key("Delete")
    assert changes(opened) == {}
    opened.key("Escape")
    opened.click("#order")
    opened.key("Escape")
    opened.key("Backspace")
    assert changes(opened) == {"fox": []}


def test_a_link_opened_later_holds_everything_and_can_be_undone(opened):
    opened.click(BOX.format(0))
    opened.click("#remove")
    link = opened.value("page.link()").split("#")[1]
    opened.click("#undo")
    opened.click(BOX.format(1))
    opened.click("#remove")
    opened.click("#is-unknown")
    opened.value(f"location.hash = {json.dumps(link)}")
    while "bird" not in changes(opened):
        pass
    assert opened.value("[page.now.threshold, page.future.length]") == [None, 0]
    opened.click("#undo")
    assert changes(opened) == {"cat": []}
    assert opened.value("page.now.threshold") == 0.5
    opened.value("location.hash = ''")
    opened.value("location.hash = 'plan=%5Bchanges%5D%0Acow=false'")
    while "cow" not in status(opened):
        pass
    assert changes(opened) == {"cat": []}


def test_a_reload_keeps_the_state(opened):
    assert opened.value("location.hash") == ""
    opened.click(BOX.format(0))
    opened.click("#remove")
    type_destination(opened, 1, "pet & co #1")
    opened.click("#is-unknown")
    state = opened.value("fragmentOf(page.now)")
    while opened.value("location.hash.slice(1)") != state:
        pass
    opened.ask("Page.reload")
    while opened.value("typeof page === 'object' && !page.past.length") is not True:
        pass
    assert opened.value("fragmentOf(page.now)") == state
    assert changes(opened) == {"bird": [], "cat": [["pet & co #1", 1]]}
    assert status(opened) == ""


def test_a_movement_of_the_slider_is_undone_at_once(opened):
    opened.click("#is-unknown")
    x, y = opened.middle("#threshold")
    opened.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for to in (x + 20, x + 40, x):  # back to where it was, which is no change
        opened.mouse("mouseMoved", to, y, button="left", buttons=1)
    opened.mouse("mouseReleased", x, y, button="left", clickCount=1)
    opened.click(BOX.format(0))
    opened.click("#remove")
    x, y = opened.middle("#threshold")
    opened.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for to in (x + 20, x + 40):
        opened.mouse("mouseMoved", to, y, button="left", buttons=1)
    opened.mouse("mouseReleased", x + 40, y, button="left", clickCount=1)
    assert opened.value("page.now.threshold") > 0.6
    opened.key("z", ["Control"])
    assert opened.value("page.now.threshold") == 0.5
    assert changes(opened) == {"bird": []}


def test_what_changes_nothing_need_not_be_undone(opened):
    opened.click(BOX.format(0))
    opened.click("#keep")
    assert opened.value("document.getElementById('undo').disabled")


def test_labels_are_removed_in_the_order_of_their_removal(opened):
    type_destination(opened, 1, "feline")
    for column in (2, 1):
        opened.click(BOX.format(column))
        opened.click("#remove")
    assert opened.value("[...page.now.plan.changes.keys()]") == ["dog", "cat"]


def test_blanks_around_a_typed_name_are_no_part_of_it(opened):
    type_destination(opened, 1, " dog ")
    assert changes(opened) == {"cat": [["dog", 1]]}
    type_destination(opened, 0, "  ")
    assert status(opened) == "Type the name of a label first."
    assert changes(opened) == {"cat": [["dog", 1]]}


def test_a_typed_name_that_is_refused_can_be_corrected(opened):
    opened.click(BOX.format(1))
    opened.click("#remove")
    type_destination(opened, 0, "cat")
    assert status(opened).startswith('The plan sends "bird" to "cat", which it removes')
    assert opened.value("document.getElementById('to').value") == "cat"
    opened.type("s")
    opened.key("Enter")
    assert changes(opened) == {"cat": [], "bird": [["cats", 1]]}
    assert opened.value("document.getElementById('to').value") == ""


def test_a_plan_that_is_too_large_is_not_read(opened, tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"#" * (16 << 20) + b"\n")
    opened.choose_file("#file", tmp_path / "plan.toml")
    while not status(opened):
        pass
    assert status(opened) == "plan.toml cannot be used. It is larger than 16 MiB."


def press(browser, selector, *path):
    """Press the mouse on an element, and move it by distances."""
    x, y = browser.middle(selector)
    browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for right, down in path:
        browser.mouse("mouseMoved", x + right, y + down, button="left", buttons=1)
    return x + path[-1][0], y + path[-1][1]


def release(browser, at):
    browser.mouse("mouseReleased", *at, button="left", clickCount=1)


def test_a_drag_is_given_up_by_escape_or_where_it_began(opened):
    at = press(opened, LABEL.format(1), (0, 60), (0, 120))
    assert opened.value("document.querySelectorAll('.follower').length") == 1
    opened.key("Escape")
    assert opened.value("document.querySelectorAll('.follower, .target, .dragging').length") == 0
    release(opened, at)
    release(opened, press(opened, LABEL.format(1), (0, 60), (0, 0)))
    assert changes(opened) == {}
    assert opened.value("page.labels.names()") == []
    opened.click(LABEL.format(1))
    assert opened.value("page.labels.names()") == ["cat"]


def test_a_selection_dragged_onto_one_of_its_own_is_merged_into_it(opened):
    for column in (1, 2, 3):
        opened.click(BOX.format(column))
    opened.drag(LABEL.format(1), LABEL.format(3))
    assert changes(opened) == {"cat": [["fox", 1]], "dog": [["fox", 1]]}


@pytest.fixture
def phone(browser, page):
    browser.open(page, 390, "light")
    browser.ask("Emulation.setTouchEmulationEnabled", enabled=True)
    browser.middle("#labels")
    yield browser
    browser.ask("Emulation.setTouchEmulationEnabled", enabled=False)
    assert browser.heard()[1] == []


def touch(browser, kind, *points):
    fingers = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
    browser.ask("Input.dispatchTouchEvent", type=kind, touchPoints=fingers)


def test_a_finger_drags_by_the_grip_and_another_one_does_not_disturb_it(phone):
    x, y = phone.middle(GRIP.format(0), scroll=False)
    _, below = phone.middle(GRIP.format(2), scroll=False)
    _, elsewhere = phone.middle(GRIP.format(3), scroll=False)
    touch(phone, "touchStart", (x, y))
    touch(phone, "touchMove", (x, y + 20))
    touch(phone, "touchMove", (x, below))
    touch(phone, "touchStart", (x, below), (x - 200, elsewhere))
    touch(phone, "touchMove", (x, below), (x - 190, elsewhere))
    touch(phone, "touchMove", (x, below))  # without the other
    assert changes(phone) == {}
    touch(phone, "touchEnd")
    assert changes(phone) == {"bird": [["dog", 1]]}


def test_a_pointer_held_at_the_end_of_the_list_scrolls_it(phone):
    x, y = phone.middle(GRIP.format(0), scroll=False)
    bottom = phone.value("page.labels.list.getBoundingClientRect().bottom") - 8
    touch(phone, "touchStart", (x, y))
    touch(phone, "touchMove", (x, y + 20))
    touch(phone, "touchMove", (x, bottom))
    at_the_end = """new Promise(done => {
      const list = page.labels.list;
      const look = () => list.scrollTop + list.clientHeight > list.scrollHeight - 2
        ? done(true) : requestAnimationFrame(look);
      look();
    })"""
    assert phone.value(at_the_end)
    touch(phone, "touchEnd")
    assert changes(phone) == {"bird": [["wolf", 1]]}
