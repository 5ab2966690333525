"""The page of a real `lockstep run --ui`: live, through a restart, and after the end. One run for all."""

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from made_up import HOSTILE
from paths import ROOT
from run import Run, pid_of
from run_output import Output
from tls import binary
from waiting import wait_until

PROGRAM = ROOT / "tests/system/browser/watched_program.py"
ADDRESS = r"(http://127\.0\.0\.1:(\d+)/)#([\w-]+)"


class Live:
    """A run of 2 machines of 2 ranks that lasts until end()."""

    def __init__(self, folder):
        self.folder = folder
        self.run = Run(folder, "--ui", "-m", "2", "-p", "2", "--", sys.executable, str(PROGRAM),
                       str(folder / "end"), HOSTILE, shared=True)
        self.said = Output(self.run)
        found = self.said.wait(ADDRESS, "the address of the page")
        self.address, self.url, self.port, self.token = found[0], found[1], int(found[2]), found[3]

    def end(self):
        (self.folder / "end").touch()
        self.run.process.wait(60)

    def get(self, path, token="", **headers):
        """(code, headers, body) of a request without a browser."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    made = Live(tmp_path_factory.mktemp("live"))
    yield made
    if made.run.process.poll() is None:
        made.run.process.kill()
        made.run.process.wait()


@pytest.fixture
def opened(live, open_page):
    made = open_page(live.address)
    made.page.wait_for_selector("h1:has-text('Running at step')")
    return made


def text_of(page, selector):
    return page.locator(selector).inner_text()


def figures_of(page):
    return dict(each.split("\n")[:2] for each in page.locator(".figure").all_inner_texts())


def test_live_page_shows_the_run_and_asks_nobody_else(live, opened):
    page = opened.page
    page.wait_for_selector(".ranks .slow:has-text('r3')")
    assert text_of(page, "[role=status]") == "live"
    assert page.url == live.url  # the token has left the address
    assert "2 machines × 2" in text_of(page, "header")
    figures = figures_of(page)
    assert re.fullmatch(r"\d\.\d%.*/ 10,000", figures["progress"]), figures
    assert 0 < float(figures["loss"].split()[0]) < 10
    # At most 25 on each of 4 ranks; the sum of all would be 100. Reports that come late make it jump at first.
    wait_until(lambda: re.match(r"\d", figures_of(page)["steps/s"]) and
               5 < float(figures_of(page)["steps/s"].split()[0]) < 26, lambda: f"the rate {figures_of(page)}")
    assert "%" in figures["productive time"], figures
    page.get_by_label("rank", exact=True).select_option("2")
    page.wait_for_selector(".log .line:has-text('at step 50')")
    assert set(page.locator(".log .line .rank").all_inner_texts()) == {"r2"}
    assert text_of(page, ".log .line .stderr").startswith("rank 2 is ready")
    assert HOSTILE in text_of(page, ".log") and page.title().endswith("· Lockstep")
    assert page.locator(".log img, .log script").count() == 0
    assert opened.complaints == [] and opened.foreign(live.url) == []


def test_killed_rank_is_named_with_each_part_of_its_restart(live, opened):
    page = opened.page
    earlier = page.locator(".restarts tbody tr").count()
    os.kill(pid_of(live.run.mark, 1), signal.SIGKILL)
    page.wait_for_function("n => document.querySelectorAll('.restarts tbody tr').length > n", arg=earlier)
    page.wait_for_selector(".restarts tbody tr:first-child:has-text('start-up')")
    restart = text_of(page, ".restarts tbody tr:first-child")
    assert "rank 1 on machine 0 was killed by SIGKILL" in restart
    for part in ("detect", "stop", "spawn", "start-up"):
        assert re.search(rf"{part} [\d.]+ m?s", restart), restart
    page.wait_for_selector("h1:has-text('Running')")
    assert "rank 1 on machine 0 was killed by SIGKILL" in text_of(page, ".hero")
    assert text_of(page, ".hero .words code") == "rank 1 is ready"
    assert len(page.locator(".strip text.name").all_inner_texts()) >= 1
    page.wait_for_selector(".log .event:has-text('killed by SIGKILL')")
    assert opened.complaints == []


def test_stacks_ledger_bindings_and_events_come_when_asked(live, opened):
    page = opened.page
    page.keyboard.press("2")
    page.get_by_role("button", name="Where does each rank stand?").click()
    page.wait_for_selector("#panel details >> nth=3", timeout=60000)
    assert "watched_program.py" in text_of(page, "#panel") or page.locator("pre.stacks").count() == 4
    page.keyboard.press("3")
    assert "start-up" in text_of(page, "#panel")
    page.keyboard.press("4")
    page.wait_for_selector(".picture img")
    wait_until(lambda: page.evaluate("document.querySelector('.picture img').naturalWidth") > 100,
               "the picture of machine 0")
    page.get_by_role("button", name="machine 1").click()
    page.wait_for_selector(".picture img[alt*='machine 1']")
    page.keyboard.press("5")
    page.wait_for_selector("#panel td:has-text('ranks running')")
    assert opened.complaints == []


def test_page_says_when_it_last_heard_of_the_run(live, opened):
    opened.page.context.set_offline(True)
    opened.page.wait_for_selector("[role=status]:has-text('last heard')")
    opened.page.context.set_offline(False)
    opened.page.wait_for_selector("[role=status]:has-text('live')")


# ---- security: each rule, as a browser or another program meets it ----


def test_without_its_token_the_page_shows_nothing_and_says_what_to_open(live, open_page):
    page = open_page(live.url).page
    page.wait_for_selector("h1:has-text('No answer')")
    assert "Open the address that lockstep printed" in text_of(page, "main")
    for path in ("api/view", "api/log", "api/stacks", "api/topology?machine=0"):
        assert live.get(path)[0] == 401, path
        assert live.get(path, token="x" * len(live.token))[0] == 401, path


def test_name_that_was_rebound_to_this_computer_is_refused_with_the_token_too(live, open_page):
    opened = open_page(f"http://rebound.test:{live.port}/#{live.token}")
    assert "Lockstep" not in opened.page.title() and opened.page.locator("#app").count() == 0
    code = opened.page.evaluate("token => fetch('/api/view', {headers: {Authorization: 'Bearer ' + token}})"
                                ".then((answer) => answer.status)", live.token)
    assert code == 421


class Stranger(http.server.BaseHTTPRequestHandler):
    """Another server on this computer, whose page frames the run's."""

    framed = ""

    def do_GET(self):
        body = f'<iframe src="{self.framed}"></iframe>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def stranger(live):
    """The address of a page of another origin."""
    handler = type("Framing", (Stranger,), {"framed": live.address})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_page_of_another_origin_neither_reads_nor_frames_nor_writes(live, stranger, open_page):
    page = open_page(stranger).page
    ask = ("([url, options]) => fetch(url, options).then((answer) => answer.type + answer.status, () => 'refused')")
    with_token = {"headers": {"Authorization": f"Bearer {live.token}"}}
    assert page.evaluate(ask, [live.url + "api/view", with_token]) == "refused"
    assert page.evaluate(ask, [live.url + "api/view", {"mode": "no-cors"}]) in ("refused", "opaque0")
    assert page.evaluate(ask, [live.url + "api/view", {"method": "POST"}]) == "refused"
    assert all(frame.locator("#app").count() == 0 for frame in page.frames)
    code, _, _ = live.get("api/view", token=live.token, Origin=stranger.rstrip("/"))
    assert code == 403
    code, _, _ = live.get("api/view", token=live.token, **{"Sec-Fetch-Site": "cross-site"})
    assert code == 403


def test_page_is_sent_with_a_policy_that_runs_its_one_script_alone(live, opened):
    code, headers, _ = live.get("")
    policy = headers["Content-Security-Policy"]
    assert code == 200 and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers and "Set-Cookie" not in headers
    opened.page.evaluate("""() => {
      const script = document.createElement('script');
      script.textContent = "document.title = 'owned'";
      document.body.append(script);
    }""")
    assert opened.page.title() != "owned"
    assert any("Content Security Policy" in said for said in opened.complaints), opened.complaints


# ---- after the end: the last tests, because they end the run ----


def test_page_outlives_its_run_and_its_report_is_served_and_saved(live, opened, open_page, tmp_path):
    live.end()
    opened.page.wait_for_selector("[role=status]:has-text('ended')")
    assert text_of(opened.page, "h1").startswith("Succeeded after")
    report, file = str(live.run.report_file), tmp_path / "run.html"
    subprocess.run([binary("lockstep"), "ui", report, "--html", str(file)], check=True, timeout=60)
    saved = open_page(file.as_uri())
    assert text_of(saved.page, "[role=status]") == "recorded, not live"
    assert text_of(saved.page, "h1").startswith("Succeeded after")
    saved.page.wait_for_selector(".log .line:has-text('at step')")
    assert HOSTILE in text_of(saved.page, ".log")
    saved.page.keyboard.press("4")
    saved.page.wait_for_selector(".picture img")
    assert saved.complaints == [] and saved.foreign(file.as_uri()) == []
    serving = subprocess.Popen([binary("lockstep"), "ui", report], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        address = next(found[0] for line in serving.stdout if (found := re.search(ADDRESS, line)))
        served = open_page(address)
        served.page.wait_for_selector("h1:has-text('Succeeded after')")
        assert text_of(served.page, "[role=status]") == "ended"
        served.page.wait_for_selector(".log .line:has-text('at step')")
    finally:
        serving.kill()
        serving.communicate()
