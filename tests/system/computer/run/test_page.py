"""`lockstep run --ui`: its page's server, through a rank's death and after the end."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest
from run import NO_SPARES, Run, pid_of
from run_output import Output
from tls import binary
from waiting import wait_until

# Steps until the file named by END is there; says its steps, and its last words on stderr.
PROGRAM = """\
import os, sys, time, lockstep
rank, step = int(os.environ["RANK"]), 0
print("rank", rank, "begins", flush=True)
while not os.path.exists(os.environ["END"]):
    step += 1
    lockstep.report(step=step, total_steps=100000, loss=1 / step)
    time.sleep(0.02)
print("<script>rank", rank, "ends", file=sys.stderr, flush=True)
"""


class Page:
    """What a browser does: asks with the token of the address that was printed."""

    def __init__(self, output):
        found = output.wait(r"the page of this run: http://127\.0\.0\.1:(\d+)/#([\w-]{32})\n",
                            "the page's address", 60)
        self.port, self.token = int(found[1]), found[2]
        self.view, self.version = {}, 0

    def get(self, path, **headers):
        """(code, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}",
                                                     **headers})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def ask(self, path):
        code, _, body = self.get(path)
        assert code == 200, body
        return json.loads(body)

    def follow(self):
        """Takes the next version in, as the page does."""
        sent = self.ask(f"/api/view?after={self.version}&id=test")
        self.version = sent["version"]
        for name, part in sent.items():
            if isinstance(part, dict) and "from" in part:
                old = self.view.setdefault(name, {})
                columns = (key for key in part if isinstance(part[key], list))
                for key in columns:
                    old[key] = old.get(key, [])[:part["from"]] + part[key]
            else:
                self.view[name] = part
        return self.view

    def until(self, is_so):
        return wait_until(lambda: is_so(self.follow()) and self.view,
                          lambda: json.dumps(self.view)[:4000], 60, 0)


def start(folder, *options):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    run = Run(folder, "-m", "2", "-p", "2", "--framework", "None", "--ui", *options, "--",
              sys.executable, str(program), variables={"END": str(folder / "end")})
    return run, Output(run)


def test_page_follows_a_gang_through_a_ranks_death_and_outlives_it_in_the_report(tmp_path):
    run, output = start(tmp_path)
    page = Page(output)
    page.until(lambda v: len((v.get("ranks") or {}).get("rank", [])) == 4
               and v["status"]["state"] == "Running")
    assert page.view["job"]["machines"] == 2 and page.view["job"]["processes"] == 2
    assert page.view["machines"]["state"] == ["Running", "Running"]
    os.kill(pid_of(run.mark, 3), signal.SIGKILL)
    page.until(lambda v: len(v["generations"]["items"]) == 2
               and (v["generations"]["items"][0]["respawn"] or {}).get("redoneSteps"))
    respawn = page.view["generations"]["items"][0]["respawn"]
    assert all(respawn[part] >= 0 for part in ("detect", "stop", "wait", "spawn", "firstStep"))
    page.until(lambda v: len(v["ranks"]["rank"]) == 4 and "stepSeconds" in v["ranks"]
               and len(v["series"]["t"]) > 2)
    assert any("killed by SIGKILL" in e["text"] for e in page.view["events"]["items"])

    log = page.ask("/api/log?rank=2")
    assert [line["m"] for line in log["lines"]] == ["rank 2 begins"] * 2
    assert {line["r"] for line in page.ask("/api/log")["lines"]} == {0, 1, 2, 3}
    stacks = page.ask("/api/stacks?rank=1")
    assert [r["rank"] for r in stacks["ranks"]] == [1] and not stacks["problems"], stacks
    topology = page.ask("/api/topology?machine=1")
    assert topology["svg"].startswith("<svg") and [r["rank"] for r in topology["ranks"]] == [2, 3]
    assert page.get("/api/topology?machine=2")[0] == 404

    (tmp_path / "end").touch()
    last = page.until(lambda v: not v["live"])
    code, report, said = run.finish()
    said = output.join()
    assert code == 0, said
    assert last["exitCode"] == 0 and last["status"]["state"] == "Succeeded", last
    view = report["view"]
    assert view["version"] == last["version"] and view["generations"] == last["generations"] | {
        "from": 0, "dropped": 0}
    assert len(view["generations"]["items"]) == len(report["generations"]) == 2
    last_line = view["logs"]["3"][-1]
    assert (last_line["m"], last_line["s"]) == ("<script>rank 3 ends", "err"), view["logs"]
    assert "[m1 r3] <script>rank 3 ends\n" in said and " err]" not in said
    assert view["series"]["step"] and "svg" in view["topology"]["0"]
    assert page.token not in run.report_file.read_text()

    html = tmp_path / "run.html"
    subprocess.run([binary("lockstep"), "ui", str(run.report_file), "--html", str(html)], check=True)
    assert stat.S_IMODE(html.stat().st_mode) == 0o600
    saved = re.search(r'<script type="application/json" id="saved">(.*?)</script>',
                      html.read_text(), re.DOTALL)
    assert json.loads(saved[1]) == view


def test_page_is_for_whoever_has_its_token_and_no_other_site(tmp_path):
    run, output = start(tmp_path)
    page = Page(output)
    code, headers, body = page.get("/", Authorization="")
    assert code == 200 and b"Lockstep" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert page.get("/api/view", Authorization="Bearer wrong")[0] == 401
    assert page.get("/api/view", Host="evil.test")[0] == 421
    assert page.get("/api/view", Origin="http://127.0.0.1:1")[0] == 403
    assert page.get("/api/view", Cookie="a=" + "x" * 20000)[0] == 200
    with socket.socket() as other:  # only this computer reaches it
        assert other.connect_ex(("127.0.0.2", page.port)) != 0
    (tmp_path / "end").touch()
    assert run.process.wait(60) == 0


def test_port_that_is_taken_is_an_error_before_any_rank_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        marker = tmp_path / "ran"
        done = subprocess.run([binary("lockstep"), "run", f"--ui={port}", *NO_SPARES, "--",
                               "touch", str(marker)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr and "name another port" in done.stderr
    assert not marker.exists()


@pytest.mark.parametrize("text, words", [
    ("{", "is not a report"), ("[]", "is not a report"), ('{"jobUID": "u"}', "has no view"),
    ('{"jobUID": "u", "view": {"format": 2}}', "of another format")])
def test_file_that_is_no_report_with_a_view_is_refused(tmp_path, text, words):
    report = tmp_path / "report.json"
    report.write_text(text)
    done = subprocess.run([binary("lockstep"), "ui", str(report)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and words in done.stderr
