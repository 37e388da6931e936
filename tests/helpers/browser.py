"""A headless Chromium, driven over its DevTools pipe with the standard library alone."""

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
        self.ask("Runtime.evaluate", expression="0")
        heard = [(event["method"], event["params"]) for event in self.events]
        requests = [p["request"]["url"] for m, p in heard if m == "Network.requestWillBeSent"]
        return requests, [event for event in heard if event[0] in TROUBLE]

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"]["value"]

    def close(self):
        self.session = {}
        self.ask("Browser.close")
        self.process.wait(30)
        os.close(self.into)
        os.close(self.out_of)
