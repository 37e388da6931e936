"""Draw the screenshots of "Explore a change" from the page of the demo, in a real browser.

Run ``python docs/scripts/explore.py`` where Chromium and Pillow are installed: it writes
``figures/explore-*.png``, after a person's clicks, keys and drags, and fails if the page reports an
error or asks the network for anything.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlabel.evaluation import load_cifar10
from unlabel.explore import render

FOLDER = Path(__file__).parents[1] / "figures"
HELPERS = Path(__file__).parents[2] / "tests" / "helpers"
WIDE, NARROW = 1280, 390
CUT = {"readme": 650}  # pixels from the top


def page_of_demo(path: Path) -> None:
    """Write the page that `unlabel demo` leaves."""
    outputs = load_cifar10()
    ids = [f"image-{number:04}" for number in range(len(outputs.base))]
    page = render(
        outputs.base,
        outputs.classes,
        outputs.labels,
        ids,
        kind="logits",
        title="ResNet18 on CIFAR-10",
    )
    path.write_text(page, encoding="utf-8")


def item(label: str) -> str:
    """Select a label of the list."""
    return f'#labels li[data-column="{load_cifar10().classes.index(label)}"]'


def change_labels(browser: Any) -> None:
    """Remove two labels by clicks, merge two by a drag, and rename one by the keyboard."""
    for label in ("airplane", "deer"):
        browser.click(f"{item(label)} .who")
    browser.click("#remove")
    browser.drag(f"{item('cat')} .grip", item("dog"))
    send(browser, ["automobile"], "car")


def send(browser: Any, labels: Sequence[str], destination: str) -> None:
    """Merge labels into one, or rename one, by the keyboard."""
    for label in labels:
        browser.click(f"{item(label)} .who")
    browser.click("#to")
    browser.type(destination)
    browser.key("Enter")


def change_as_the_readme(browser: Any) -> None:
    """Make the changes of the plan that the README opens with."""
    browser.click(f"{item('deer')} .who")
    browser.click("#remove")
    send(browser, ["cat", "dog"], "pet")
    send(browser, ["automobile"], "car")


def ask_for_unknown(browser: Any) -> None:
    """Answer unknown above a removed mass of .3."""
    browser.click("#is-unknown")
    browser.click("#threshold")
    for _ in range(20):
        browser.key("ArrowLeft")


def draw(folder: Path) -> None:
    """Draw every screenshot into a folder."""
    from PIL import Image  # the docs, which also import this file, are built without it

    start = runpy.run_path(str(HELPERS / "browser.py"))["Browser"]
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch, "explore.html")
        page_of_demo(page)
        browser = start(Path(scratch, "profile"))
        try:
            for name, width, scheme, actions in (
                ("readme", WIDE, "light", [change_as_the_readme]),
                ("light", WIDE, "light", [change_labels]),
                ("dark", WIDE, "dark", [change_labels, ask_for_unknown]),
                ("phone", NARROW, "light", [change_labels]),
            ):
                browser.open(page, width, scheme)
                for act in actions:
                    act(browser)
                browser.value("scrollTo(0, 0)")
                browser.value("document.documentElement.style.scrollbarWidth = 'none'")
                picture = folder / f"explore-{name}.png"
                browser.screenshot(picture, whole=False)
                with Image.open(picture) as whole:
                    upper = whole.crop((0, 0, whole.width, CUT.get(name, whole.height)))
                upper.quantize(256).save(picture, optimize=True)
                requests, trouble = browser.heard()
                assert requests == [page.as_uri()], requests
                assert trouble == [], trouble
                sentence = browser.value("document.getElementById('sentence').textContent")
                sys.stdout.write(f"explore-{name}.png: {sentence}\n")
        finally:
            browser.close()


if __name__ == "__main__":
    draw(FOLDER)
