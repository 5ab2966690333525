"""`lockstep topology` and `lockstep bench numa`, as somebody types them."""

import json
import os
import pathlib
import signal
import subprocess
import xml.dom.minidom

from paths import ROOT
from tls import binary

XML = ROOT / "examples/two-sockets.xml"
JOB = ROOT / "examples/single-node.yaml"


def run(*words, code=0):
    done = subprocess.run([binary("lockstep"), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_topology_draws_the_picture_of_the_docs(tmp_path):
    said = run("topology", "--xml", XML, "--job", JOB, "--svg", tmp_path / "picture.svg")
    assert said.count("─ NUMA node") == 2 and said.count("├─ GPU") + said.count("└─ GPU") == 8, said
    assert (tmp_path / "picture.svg").read_text() == (ROOT / "docs/images/topology.svg").read_text()
    xml.dom.minidom.parse(str(tmp_path / "picture.svg"))


def test_topology_report_describes_this_machine_without_secret_or_host_name(tmp_path):
    report = tmp_path / "report.json"
    env = {**os.environ, "SECRET_TOKEN": "hush"}
    subprocess.run([binary("lockstep"), "topology", "--job", ROOT / "examples/gpt-local.yaml",
                    "--report", report], check=True, capture_output=True, env=env)
    text = report.read_text()
    assert "hush" not in text and os.uname().nodename not in json.loads(text)["summary"]
    content = json.loads(text)
    assert content["picture"] and content["plan"] and content["readFrom"]
    assert content["machine"]["kernel"]["value"] == os.uname().release


def test_topology_rejects_file_that_hwloc_cannot_read():
    assert "is not a topology that hwloc can read" in run("topology", "--xml", JOB, code=2)
    assert "/nonexist: No such file or directory" in run("topology", "--xml", "/nonexist", code=2)


def test_quick_benchmark_writes_table_json_prometheus_and_svg(tmp_path):
    files = {name: tmp_path / name for name in ("json", "prometheus", "svg")}
    table = run("bench", "numa", "--quick", *(w for n, f in files.items() for w in (f"--{n}", f)))
    report = json.loads(files["json"].read_text())
    assert ("nothing to compare" in table) == (not report["comparable"])
    assert {s["setting"] for s in report["settings"]} >= {"baseline", "threads", "processes"}
    assert all("bytesPerSecond" in s or "nanoseconds" in s for s in report["settings"])
    samples = [line for line in files["prometheus"].read_text().splitlines() if line[0] != "#"]
    assert samples and all(float(line.rsplit(" ", 1)[1]) >= 0 for line in samples)
    xml.dom.minidom.parse(str(files["svg"]))


def test_ctrl_c_ends_a_benchmark_and_all_its_workers():
    # What runs in a shell's background ignores Ctrl-C, and this would inherit that.
    child = subprocess.Popen([binary("lockstep"), "bench", "numa", "--only", "processes",
                              "--array-size", "16", "--repetitions", "1000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    workers = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while not workers.read_text().split():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 143 and "interrupted" in err and out == ""
