#!/usr/bin/env python3
"""The page of `lockstep run --ui` in Chromium, on loopback: how soon it is there, how soon it shows a
change, and what it costs the run.

  paint   from the opening of the address to the browser's first paint, and to the first view with data;
          its floor is a page of one word from Python's server
  update  from the SIGKILL of a rank to the change of the page that names it
  cpu     the share of a core that `lockstep run` takes more with an open page than without one
  size    bytes of the page in the program
"""

import argparse
import gzip
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from _bench import LOCKSTEP, ROOT, Shape, emit, spread
from playwright.sync_api import sync_playwright
from run import MARK, NO_SPARES, pid_of

PROGRAM = """\
import time
import lockstep
for step in range(1, 1_000_000):
    time.sleep(STEP)
    lockstep.report(step=step, loss=1 + 8 / step, tokens=400)
"""
WATCH = """() => new MutationObserver((_, self) => {
  if (!/SIGKILL/.test(document.querySelector(".hero").innerText)) return;
  window.named = Date.now();
  self.disconnect();
}).observe(document.body, {childList: true, subtree: true, characterData: true})"""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/#[\w-]+")
PATIENCE = 60000  # ms
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"


class PageRun:
    def __init__(self, folder, shape, step):
        self._mark = str(folder)
        (folder / "program.py").write_text(PROGRAM.replace("STEP", str(step)))
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [str(word) for word in (
                LOCKSTEP, "run", "--ui", "-m", shape.machines, "-p", shape.processes, "--no-hints", *NO_SPARES,
                "--", sys.executable, "-u", folder / "program.py")],
            env={**os.environ, MARK: self._mark, "PYTHONPATH": str(ROOT / "worker/python")},
            stdout=self._log, stderr=self._log)
        end = time.monotonic() + PATIENCE / 1e3
        while not (found := ADDRESS.search(Path(self._log.name).read_text())):
            if time.monotonic() > end:
                sys.exit("lockstep run printed no address")
            time.sleep(0.02)
        self.address = found[0]

    def pid(self, rank):
        return pid_of(self._mark, rank)

    def cpu(self):
        """Seconds of `lockstep run` itself."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def share(self, seconds):
        before, began = self.cpu(), time.monotonic()
        time.sleep(seconds)
        return 100 * (self.cpu() - before) / (time.monotonic() - began)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self._log.close()


def running(page):
    page.wait_for_selector("h1:has-text('Running at step')", timeout=PATIENCE)


def paints(browser, run, samples):
    firsts, views = [], []
    for _ in range(samples):
        context = browser.new_context()
        page = context.new_page()
        page.add_init_script("""new MutationObserver((_, self) => {
          const h1 = document.querySelector("h1");
          if (h1 && /Running/.test(h1.innerText)) { window.shown = performance.now(); self.disconnect(); }
        }).observe(document, {childList: true, subtree: true, characterData: true});""")
        page.goto(run.address)
        page.wait_for_function("() => window.shown", timeout=PATIENCE)
        views.append(page.evaluate("window.shown"))
        firsts.append(page.evaluate(f"{PAINT}.startTime"))
        context.close()
    return firsts, views


class OneWord(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>floor</title><h1>floor</h1>")

    def log_message(self, *_):
        pass


def floors(browser, samples):
    found = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneWord) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(samples):
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.wait_for_function(f"() => {PAINT}", timeout=PATIENCE)
            found.append(page.evaluate(f"{PAINT}.startTime"))
            context.close()
        server.shutdown()
    return found


def update(browser, run, rank):
    """Of the first restart. In ms of the wall clock, of which the browser has whole ones."""
    page = browser.new_page()
    page.goto(run.address)
    running(page)
    page.evaluate(WATCH)
    pid = run.pid(rank)
    killed = time.time() * 1e3
    os.kill(pid, signal.SIGKILL)
    page.wait_for_function("() => window.named", timeout=PATIENCE)
    at = page.evaluate("window.named")
    page.close()
    return at - killed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=Shape.parse, default=Shape(4, 4))
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=20, help="for each share of a core")
    parser.add_argument("--step", type=float, default=0.2, help="seconds of a rank's step")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder, sync_playwright() as play:
        subprocess.run([ROOT / "tools/lib/page/bundle", folder], check=True)
        html = (Path(folder) / "page.html").read_bytes()
        emit("page", "size", unit="bytes", html=len(html), inProgram=len(gzip.compress(html, 9)))
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shape = str(arguments.shape)
        run = PageRun(Path(folder), arguments.shape, arguments.step)
        try:
            page = browser.new_page()
            page.goto(run.address)
            running(page)
            page.close()
            firsts, views = paints(browser, run, arguments.samples)
            emit("page", "floor", unit="ms", **spread(floors(browser, arguments.samples)))
            emit("page", "first paint", shape=shape, unit="ms", limit=300, **spread(firsts))
            emit("page", "first view", shape=shape, unit="ms", limit=300, **spread(views))
            time.sleep(3)  # pages that asked lately
            without = run.share(arguments.seconds)
            page = browser.new_page()
            page.goto(run.address)
            running(page)
            beside = run.share(arguments.seconds)
            page.close()
            emit("page", "cpu", shape=shape, unit="%", limit=1, without=round(without, 2),
                 withPage=round(beside, 2), more=round(beside - without, 2))
        finally:
            run.end()
        found = []
        for number in range(arguments.samples):
            (Path(folder) / str(number)).mkdir()
            run = PageRun(Path(folder) / str(number), arguments.shape, arguments.step)
            try:
                found.append(update(browser, run, arguments.shape.world - 1))
            finally:
                run.end()
        emit("page", "update", shape=shape, unit="ms", limit=100, **spread(found))
        browser.close()


if __name__ == "__main__":
    main()
