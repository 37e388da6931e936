"""A headless Chromium, driven over its DevTools pipe with the standard library alone."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
]
# Chromium reads commands from file 3 and writes answers to file 4.
START = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)
TROUBLE = {
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
}


MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
KEYS = {  # the number of a key, and the text that it enters
    "Backspace": (8, ""),
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    " ": (32, " "),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Delete": (46, ""),
}
# Scrolled to at once, whatever the page's style says of scrolling.
MIDDLE = """((selector, scroll) => {
  const element = document.querySelector(selector);
  if (!element) return null;
  if (scroll) {
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  }
  const box = element.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})(%s, %s)"""


class Browser:
    def __init__(self, folder):
        (commands, self.into), (self.out_of, answers) = os.pipe(), os.pipe()
        files = [fcntl.fcntl(file, fcntl.F_DUPFD, 20) for file in (commands, answers)]
        program = [PROGRAM, *FLAGS, f"--user-data-dir={folder}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, files), *program],
            pass_fds=files,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for file in (commands, answers, *files):
            os.close(file)
        self.numbers, self.unread, self.events, self.session = itertools.count(), b"", [], {}
        target = self.ask("Target.createTarget", url="about:blank")
        attached = self.ask("Target.attachToTarget", **target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        message = {"id": next(self.numbers), "method": method, "params": parameters}
        os.write(self.into, json.dumps(message | self.session).encode() + b"\0")
        while (answer := self.hear()).get("id") != message["id"]:
            self.events.append(answer)
        assert "result" in answer, answer
        return answer["result"]

    def hear(self):
        deadline = time.monotonic() + 30
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.out_of], [], [], max(deadline - time.monotonic(), 0))
            more = os.read(self.out_of, 1 << 16) if ready else b""
            assert more, "the browser does not answer"
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def open(self, page, width, scheme):
        """Open a page, and return its network requests and its errors."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.hear())
        return self.heard()

    def heard(self):
        """The network requests and the errors since a page was opened."""
        self.ask("Runtime.evaluate", expression="0")
        heard = [(event["method"], event["params"]) for event in self.events]
        requests = [p["request"]["url"] for m, p in heard if m == "Network.requestWillBeSent"]
        return requests, [event for event in heard if event[0] in TROUBLE]

    def value(self, expression):
        """The value of an expression; of a promise, what it resolves to."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector):
        x, y = self.middle(selector)
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, from_selector, to_selector, moves=8):
        """Drag the middle of one element to that of another; both must fit into the window."""
        self.middle(to_selector)
        x, y = start = self.middle(from_selector)
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        to_x, to_y = self.middle(to_selector, scroll=False)
        for move in range(1, moves + 1):
            x = start[0] + (to_x - start[0]) * move / moves
            y = start[1] + (to_y - start[1]) * move / moves
            self.mouse("mouseMoved", x, y, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)

    def middle(self, selector, scroll=True):
        """The point in the window where an element has its middle."""
        point = self.value(MIDDLE % (json.dumps(selector), json.dumps(scroll)))
        assert point, f"{selector} is not on the page"
        return point

    def mouse(self, kind, x, y, **details):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **details)

    def type(self, text):
        """Press one key per character of a text."""
        for character in text:
            self.key(character)

    def key(self, name, modifiers=()):
        """Press a key, such as Enter or z, while others, such as Control, are held."""
        if name in KEYS:
            number, text = KEYS[name]
        else:
            number, text = ord(name.upper()) if name.isascii() and name.isalnum() else 0, name
        held = sum(MODIFIERS[each] for each in modifiers)
        key = {"key": name, "windowsVirtualKeyCode": number, "modifiers": held}
        typed = {"text": text} if text and not {*modifiers} - {"Shift"} else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **key, **typed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **key)

    def choose_file(self, selector, path):
        """Choose a file in an input for files."""
        node = self.ask("Runtime.evaluate", expression=f"document.querySelector('{selector}')")
        object_id = node["result"]["objectId"]
        self.ask("DOM.setFileInputFiles", files=[str(path)], objectId=object_id)

    def download(self, selector, folder):
        """Click on an element that downloads the first file of a folder, and return its path."""
        self.ask("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.click(selector)
        finished = "Page.downloadProgress"
        while not any(
            event["method"] == finished and event["params"]["state"] == "completed"
            for event in self.events
        ):
            self.events.append(self.hear())
        (file,) = folder.iterdir()
        return file

    def screenshot(self, path, whole=True):
        """Write the page, or the part of it in the window, as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"captureBeyondViewport": True, "clip": size | {"scale": 1}} if whole else {}
        picture = self.ask("Page.captureScreenshot", format="png", **clip)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self.session = {}
        self.ask("Browser.close")
        self.process.wait(30)
        os.close(self.into)
        os.close(self.out_of)
