"""The page in a browser, used as a person does."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import doors
from commands import unlabel
from explore_data import HOSTILE, data_of, decoded, largest_move
from unlabel import LabelPlan, OutputFilter
from unlabel.explore import render

NAMES = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TOO_WIDE = """[...document.querySelectorAll('body *')].filter(each =>
  each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll')
).map(each => each.className + ' ' + each.textContent.slice(0, 40))"""
VALUES = """Object.fromEntries([...document.querySelectorAll('#cards .card')].map(card =>
  [card.querySelector('dt').textContent, card.querySelector('.value').textContent]))"""
COUNTS = """[...document.querySelectorAll('#cards .hint')].flatMap(hint =>
  hint.textContent.match(/^[\\d, and]+ of [\\d,]+/)?.[0] ?? [])"""
# Cards that are wider than their place, and kinds of rows that take several lines.
CUT = """[...document.querySelectorAll('.card')].filter(
  card => card.scrollWidth > card.clientWidth).concat(
  [...document.querySelectorAll('.changed-rows td:last-child')].filter(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length > 1;
  })).map(each => each.textContent)"""
LABEL = '#labels li[data-column="{}"]'
BOX = LABEL + " input"
# Controls that a screen reader would announce without a name.
NAMELESS = """[...document.querySelectorAll('button, input, select, [tabindex="0"]')].filter(
  control => control.checkVisibility() && !(control.getAttribute('aria-label')
    || control.getAttribute('aria-labelledby') || control.labels?.[0]?.textContent.trim()
    || control.textContent.trim())).map(control => control.outerHTML)"""


@pytest.fixture
def opened(browser, cifar10, tmp_path):
    """Open a page of a real network's outputs, and give its file and data."""

    def open_page(width=1280, scheme="light", **options):
        logits, truth = cifar10
        html = render(
            logits,
            options.pop("classes", NAMES),
            options.pop("labels", np.array(NAMES)[truth]),
            kind="logits",
            **options,
        )
        page = tmp_path / "explore.html"
        page.write_text(html, encoding="utf-8")
        requests, trouble = browser.open(page, width, scheme)
        assert requests == [page.as_uri()]
        assert trouble == []
        return page, data_of(html)

    return open_page


def text(browser, selector):
    return browser.value(f"document.querySelector({json.dumps(selector)}).textContent")


def remove_two_and_merge_two(browser):
    """Remove airplane and deer with two clicks and a button, and drag cat onto dog."""
    browser.click(BOX.format(0))
    browser.click(BOX.format(4))
    browser.click("#remove")
    browser.drag(LABEL.format(3), LABEL.format(5))


CHANGES = {"airplane": None, "deer": None, "cat": "dog"}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_are_removed_and_merged_by_hand(browser, opened, cifar10, width, scheme):
    page, data = opened(width, scheme)
    remove_two_and_merge_two(browser)
    assert browser.value("[...page.now.plan.changes]") == [
        *(["airplane", []], ["deer", []]),
        ["cat", [["dog", 1]]],
    ]
    logits, truth = cifar10
    labels = np.array(NAMES)[truth]
    for rows, kind in ((np.array(decoded(data)), "probabilities"), (logits, "logits")):
        fitted = doors.fit(rows, labels, classes=NAMES, plan=CHANGES, kind=kind)
        result, classes = fitted.apply(rows), [*fitted.classes_out]
        new = [CHANGES.get(label, label) for label in labels]
        known = [at for at, label in enumerate(new) if label is not None]
        answers = [classes[column] for column in result.argmax(axis=1)]
        old = [CHANGES.get(NAMES[c], NAMES[c]) for c in rows.argmax(axis=1)]
        changed = sum(a != b for a, b in zip(old, answers, strict=True))
        right_before = sum(old[at] == new[at] for at in known)
        right = sum(answers[at] == new[at] for at in known)
        losses = [-np.log(result[at, classes.index(new[at])]) for at in known]
        shown = browser.value(VALUES)
        assert shown["Labels"] == "10 → 7"
        assert browser.value(COUNTS) == [
            f"{changed} of {len(rows)}",
            f"{right_before} and {right} of {len(known)}",
        ]
        changed_share = float(shown["Answers that change"].removesuffix("%"))
        assert changed_share == pytest.approx(100 * changed / len(rows), abs=0.0501)
        assert float(shown["Log-loss"]) == pytest.approx(np.mean(losses), abs=2e-4)
        own = np.reshape(browser.value("[...page.judged.result.confidences]"), result.shape)
        np.testing.assert_allclose(own, result, rtol=0, atol=largest_move(data))
    assert browser.value(WIDER) <= 0
    assert browser.value(NAMELESS) == []
    requests, trouble = browser.heard()
    assert (requests, trouble) == ([page.as_uri()], [])


def test_the_exported_plan_gives_the_same_filter(browser, opened, cifar10, tmp_path):
    _, data = opened()
    remove_two_and_merge_two(browser)
    plan = browser.download("#export", tmp_path / "downloads")
    assert plan.name == "plan.toml"
    assert plan.read_text() == '[changes]\n"airplane" = false\n"deer" = false\n"cat" = "dog"\n'

    rows = np.array(decoded(data))
    columns = {name: rows[:, column] for column, name in enumerate(NAMES)}
    labels = [NAMES[column] for column in data["truth"]]
    pq.write_table(pa.table(columns | {"label": labels}), tmp_path / "rows.parquet")
    out = tmp_path / "changed.safetensors"
    code, *_ = unlabel("fit", tmp_path / "rows.parquet", "--plan", plan, "--out", out)
    assert code == 0
    fitted = OutputFilter.load(out)
    own = browser.value("[...page.judged.result.confidences]")
    np.testing.assert_allclose(np.reshape(own, (len(rows), -1)), fitted.apply(rows), atol=1e-12)
    assert browser.value("page.judged.outcome.classes") == [*fitted.classes_out]

    browser.click("#reset")
    assert browser.value("page.now.plan.changes.size") == 0
    browser.choose_file("#file", plan)
    while not browser.value("page.now.plan.changes.size"):
        pass
    assert text(browser, "#status") == "Opened plan.toml."
    assert browser.value("asToml(page.now.plan)") == plan.read_text()


def test_everything_works_by_keyboard(browser, opened):
    opened()
    browser.value("document.getElementById('search').focus()")
    for key in ("Tab", "Tab"):  # past the order
        browser.key(key)
    browser.key(" ")
    for _ in range(4):
        browser.key("ArrowDown")
    browser.key(" ")
    assert browser.value("page.labels.names()") == ["airplane", "deer"]
    browser.key("Delete")
    assert text(browser, "#status") == "Removed 2 labels."
    browser.key("ArrowUp")
    browser.key(" ")
    for _ in range(5):  # clear, remove, other, keep
        browser.key("Tab")
    assert browser.value("document.activeElement.id") == "to"
    browser.type("dog")
    browser.key("Enter")
    assert browser.value("asToml(page.now.plan)").endswith('"cat" = "dog"\n')
    browser.value("document.activeElement.blur()")
    browser.key("z", ["Control"])
    assert browser.value("page.now.plan.changes.size") == 2
    browser.key("z", ["Control"])
    assert browser.value("page.now.plan.changes.size") == 0
    assert browser.value("document.getElementById('undo').disabled")
    browser.key("z", ["Control", "Shift"])
    browser.key("y", ["Control"])
    assert browser.value("page.now.plan.changes.size") == 3
    assert browser.value("document.getElementById('redo').disabled")
    assert browser.heard()[1] == []


def test_rename_other_keep_method_and_threshold(browser, opened):
    opened()
    browser.click(BOX.format(9))
    browser.click("#to")
    browser.type("lorry")
    browser.click("#send button")
    browser.click(BOX.format(6))
    browser.click(BOX.format(7))
    browser.click("#to-other")
    assert browser.value("page.judged.outcome.classes") == [
        *("airplane", "automobile", "bird", "cat", "deer", "dog", "other", "ship", "lorry")
    ]
    browser.click(BOX.format(7))
    browser.click("#keep")
    assert browser.value("page.judged.outcome.classes[7]") == "horse"
    browser.drag(LABEL.format(8), "#remove")
    assert browser.value("page.now.plan.changes.get('ship')") == []
    browser.click("[name=method][value=mask]")
    assert browser.value("page.method") == "mask"
    browser.click("#is-unknown")
    assert browser.value("page.now.threshold") == 0.5
    before = browser.value("page.judged.counts.unknown")
    browser.click("#threshold")  # in its middle
    for _ in range(45):
        browser.key("ArrowLeft")
    assert browser.value("page.now.threshold") == pytest.approx(0.05)
    assert browser.value("page.judged.counts.unknown") > before > 0
    link = browser.value("page.link()")
    browser.value(f"location.hash = {json.dumps(link.split('#')[1])}")
    assert browser.heard()[1] == []


def test_a_link_opens_the_plan(browser, opened):
    page, _ = opened()
    remove_two_and_merge_two(browser)
    browser.click("#is-unknown")
    browser.click("[name=method][value=mask]")
    browser.click("#copy")
    link = browser.value("document.getElementById('link').value")
    state = browser.value("[asToml(page.now.plan), page.method, page.now.threshold]")
    values = browser.value(VALUES)
    browser.events.clear()
    browser.ask("Page.navigate", url="about:blank")
    browser.ask("Page.navigate", url=link)
    while browser.value("document.readyState + typeof page") != "completeobject":
        pass
    assert link.startswith(page.as_uri() + "#")
    assert browser.value("[asToml(page.now.plan), page.method, page.now.threshold]") == state
    assert browser.value(VALUES) == values


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ("[changes]\n\ncat = =", "It is not TOML: invalid value in line 3."),
        ("cat = false", 'It has the key "cat": labels are listed under [changes].'),
        ("title = 'x'", "It has no table [changes]"),
        ("[changes]\nwolf = false", 'The model has no label "wolf".'),
        ("[changes]\ncat = 'dog'\ndog = false", 'The plan sends "cat" to "dog", which it removes'),
        ("[changes]\ncat = true", '"cat" goes to something that is not a label'),
        ("[changes]\ncat = ['dog', 'frog']", 'It splits "cat" without weights'),
        ("[changes]\ncat = {dog = 0.5, frog = 0.6}", 'The weights of "cat" do not sum to 1.'),
        ("[changes]\ncat = {dog = -1, frog = 2}", 'The weights of "cat" are not numbers'),
        ("[changes]\ncat = {dog = 1.0}", '"cat" goes to a table that is not weights: write labels'),
        ("[changes]\ncat.dog = false", '"cat" goes to a table that is not weights: write labels'),
        ("[changes]\ncat = 7.0", '"cat" goes to something that is not a label'),
        ("unlisted = 'remove'\n[changes]\n", "All 10 labels would be removed"),
        ("unlisted = 'error'\n[changes]\ncat = false", 'The plan does not list "airplane"'),
        ("unlisted = 'never'\n[changes]\ncat = false", 'Its key "unlisted" is not'),
        ("title = 7\n[changes]\ncat = false", "Its title or note is not a text."),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_in_a_sentence(
    browser, opened, tmp_path, plan, sentence
):
    if browser.value("typeof page === 'undefined' || page.sample.classes[0] !== 'airplane'"):
        opened()
    (tmp_path / "bad.toml").write_text(plan)
    browser.value("page.say('')")
    before = browser.value("asToml(page.now.plan)")
    browser.choose_file("#file", tmp_path / "bad.toml")
    while not text(browser, "#status"):
        pass
    assert text(browser, "#status").startswith(f"bad.toml cannot be used. {sentence}")
    assert browser.value("asToml(page.now.plan)") == before


def test_what_cannot_be_done_is_said(browser, opened):
    opened()
    browser.drag(LABEL.format(3), LABEL.format(5))
    browser.click(BOX.format(5))
    browser.click("#remove")
    assert text(browser, "#status").startswith('The plan sends "cat" to "dog", which it removes')
    assert browser.value("page.now.plan.changes.size") == 1
    browser.click("#clear")
    browser.click(BOX.format(0))
    browser.click("#remove")
    browser.drag(LABEL.format(1), LABEL.format(0))
    assert text(browser, "#status").startswith('"airplane" is removed: choose another label')


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_names_and_ids_are_inert(browser, tmp_path, width):
    random = np.random.default_rng(0)
    truth = np.tile(np.arange(len(HOSTILE)), 6)
    logits = random.normal(0, 1, (len(truth), len(HOSTILE)))
    logits[np.arange(len(truth)), truth] += 1.5
    ids = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(len(truth))]
    labels = [HOSTILE[column] for column in truth]
    title = HOSTILE[0]
    html = render(logits, HOSTILE, labels, ids, kind="logits", title=title)
    page = tmp_path / "explore.html"
    page.write_text(html, encoding="utf-8")
    assert browser.open(page, width, "light") == ([page.as_uri()], [])
    assert browser.value("document.title") == title
    for column in (0, 2, 5, 12, 13):
        browser.click(BOX.format(column))
    browser.click("#remove")
    browser.click(BOX.format(1))
    browser.click("#to")
    browser.type('<b id="injected">')
    browser.key("Enter")
    browser.drag(LABEL.format(6), LABEL.format(7))
    browser.click("#row-more")
    changes = {HOSTILE[column]: None for column in (0, 2, 5, 12, 13)}
    changes |= {HOSTILE[1]: '<b id="injected">', HOSTILE[6]: HOSTILE[7]}
    plan = browser.download("#export", tmp_path / "downloads")
    written = tomllib.loads(plan.read_text(encoding="utf-8"))["changes"]
    assert [*written.items()] == [(label, to or False) for label, to in changes.items()]
    read = LabelPlan.load(plan)
    assert dict(read.changes) == changes
    link = browser.value("page.link()")
    browser.value("page.enter({ ...page.now, plan: NO_PLAN })")
    browser.value(f"location.hash = {json.dumps(link.split('#')[1])}")
    while not browser.value("page.now.plan.changes.size"):
        pass
    assert browser.value("[...page.now.plan.changes.keys()]") == [*changes]
    assert browser.value("document.querySelectorAll('img, #injected').length") == 0
    assert browser.value("document.scripts.length") == 2
    assert browser.value("({}).polluted === undefined && Object.keys(Object.prototype).length") == 0
    assert browser.value(TOO_WIDE) == []
    assert [url for url in browser.heard()[0] if not url.startswith(("file:", "blob:"))] == []
    assert browser.heard()[1] == []


def test_labels_are_searched_and_sorted(browser, tmp_path):
    random = np.random.default_rng(0)
    names = [f"label {column}" for column in range(1000)]
    truth = np.concatenate([np.arange(1000), np.zeros(30, dtype=int), [5] * 20])
    logits = random.normal(0, 1, (len(truth), 1000)).astype(np.float32)
    logits[np.arange(len(truth)), truth] += 12
    logits[truth == 5] += 20 * (np.arange(1000) == 7)  # taken for 7
    logits[7] += 20 * (np.arange(1000) == 5)
    labels = [names[column] for column in truth]
    page = tmp_path / "explore.html"
    page.write_text(render(logits, names, labels, kind="logits"), encoding="utf-8")
    assert browser.open(page, 390, "light")[1] == []
    shown = "[...document.querySelectorAll('#labels li')].map(item => +item.dataset.column)"
    assert browser.value(shown) == [*range(1000)]
    browser.click("#search")
    browser.type("LABEL 99")
    assert browser.value(shown) == [99, *range(990, 1000)]
    assert text(browser, "#found") == "11 of 1,000 labels"
    browser.value("document.getElementById('search').value = ''")
    browser.key("Backspace")
    for order, first in {"rows": [0, 5], "accuracy": [5, 7], "confusion": [5, 7]}.items():
        browser.value(
            f"document.getElementById('order').value = {order!r};"
            "document.getElementById('order').dispatchEvent(new Event('change'))"
        )
        assert browser.value(shown)[:2] == first
    browser.click(BOX.format(7))
    browser.click("#remove")
    browser.value(
        "document.getElementById('order').value = 'changed';"
        "document.getElementById('order').dispatchEvent(new Event('change'))"
    )
    assert browser.value(shown)[0] == 7
    assert browser.value(WIDER) <= 0
    assert "taken for label 7" in text(browser, LABEL.format(5))


def test_suggestions_merge(browser, opened):
    opened()
    pair = text(browser, "#suggestion-rows th")
    right = browser.value("page.judged.counts.rightAfter")
    gain = int(text(browser, "#suggestion-rows td.number:nth-of-type(2)").split()[0])
    browser.click("#suggestion-rows button")
    first, second = pair.split(" and ")
    assert browser.value("[...page.now.plan.changes]") == [[second, [[first, 1]]]]
    assert browser.value("page.judged.counts.rightAfter") == right + gain


def test_without_true_labels_answers_are_compared(browser, opened):
    opened(labels=None)
    assert browser.value("page.method") == "mask"
    assert browser.value("document.querySelector('[value=osr]').disabled")
    remove_two_and_merge_two(browser)
    assert browser.value(VALUES).keys() == {"Labels", "Answers that change"}
    assert not browser.value("document.getElementById('accuracy-rows').checkVisibility()")
    headings = browser.value(
        "[...document.querySelectorAll('.changed-rows thead th')]"
        ".filter(heading => heading.checkVisibility()).length"
    )
    assert headings == browser.value("document.querySelector('#row-rows tr').children.length") == 3
    assert browser.heard()[1] == []


def test_only_a_label_without_rows_in_the_sample_is_masked(browser, opened, cifar10):
    _, truth = cifar10
    labels = np.where(truth == 0, "", np.array(NAMES)[truth])
    _, data = opened(labels=labels)
    browser.click(BOX.format(4))
    browser.click("#remove")
    assert text(browser, "#status") == "Removed deer."
    browser.click(BOX.format(0))
    browser.click("#remove")
    said = "Removed airplane. The sample has no rows of airplane: masked, which needs none."
    assert text(browser, "#status") == said
    assert browser.value("page.method") == "osr"
    rows = np.array(decoded(data))
    fitted = doors.fit(rows, labels, classes=NAMES, remove=["deer", "airplane"])
    assert fitted.counts == (40, 0)
    found = np.reshape(browser.value("[...page.judged.result.confidences]"), (len(rows), -1))
    np.testing.assert_allclose(found, fitted.apply(rows), atol=1e-12)


def test_printed_pages_have_everything_but_controls(browser, opened):
    opened()
    remove_two_and_merge_two(browser)
    browser.click("#is-unknown")
    paper = {"width": 700, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", **paper)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    kinds = browser.value(
        "[...document.querySelectorAll('button, input')]"
        ".filter(control => control.checkVisibility()).map(control => control.type)"
    )
    assert {*kinds} <= {"radio", "checkbox"}  # the settings
    hidden = "page.labels.list.scrollHeight - page.labels.list.clientHeight"
    assert browser.value(hidden) <= 1
    assert browser.value(CUT) == []
    is_below = """(({ top }, { bottom }) => top >= bottom)(...['.facts', '.who'].map(part =>
      document.querySelector(`#labels ${part}`).getBoundingClientRect()))"""
    assert browser.value(is_below)
    browser.ask("Emulation.setEmulatedMedia", media="")


def test_on_a_phone_values_are_whole_and_words_unbroken(browser, opened):
    opened(390)
    remove_two_and_merge_two(browser)
    browser.click("#is-unknown")
    browser.value(
        "document.querySelector('.card:last-child .value').textContent = '92.5% and 12.5%';"
        "document.querySelector('.changed-rows td:last-child').textContent = 'regressed'"
    )
    assert browser.value(CUT) == []
