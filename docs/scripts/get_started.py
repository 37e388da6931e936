"""Draw the report of the tutorial "Get started" by running the tutorial, in a real browser.

Run ``python docs/scripts/get_started.py`` where Chromium and Pillow are installed: it writes
``figures/get-started-report.png``.
"""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
SHOWN = 840  # pixels
HELPERS = DOCS.parent / "tests" / "helpers"


def run_page() -> None:
    """Run the tutorial's blocks in the working folder, until there is a report."""
    namespace: dict[str, Any] = {}
    blocks = runpy.run_path(str(HELPERS / "page_blocks.py"))["blocks"]
    for kind, _, text in blocks("docs/get-started.md"):
        if kind == "python":
            exec(text, namespace)
        elif kind == "toml":
            Path(text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        else:
            commands = (
                line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")
            )
            for command in commands:
                _, *arguments = shlex.split(command)
                subprocess.run([sys.executable, "-m", "unlabel", *arguments], check=True)
        if Path("report.html").exists():
            return


def draw(picture: Path) -> None:
    """Draw the part of the report on the impact."""
    from PIL import Image

    start = runpy.run_path(str(HELPERS / "browser.py"))["Browser"]
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        run_page()
        browser = start(Path(scratch, "profile"))
        try:
            browser.open(Path(scratch, "report.html"), 1280, "light")
            browser.value("document.documentElement.style.scrollbarWidth = 'none'")
            browser.value("document.getElementById('impact').scrollIntoView()")
            browser.screenshot(picture, whole=False)
        finally:
            browser.close()
        os.chdir(DOCS)
    with Image.open(picture) as whole:
        upper = whole.crop((0, 0, whole.width, SHOWN))
    upper.quantize(256).save(picture, optimize=True)


if __name__ == "__main__":
    draw(DOCS / "figures" / "get-started-report.png")
