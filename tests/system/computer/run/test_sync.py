"""`lockstep run --sync`: an edit runs on all ranks at once, and a broken edit waits for the next."""

import subprocess
import sys
import uuid

from run import Run
from waiting import wait_until

TRAIN = """
import os, sys, time
import model
name = f"{sys.argv[1]}/v{model.VERSION}-{os.environ['LOCKSTEP_GENERATION']}-{os.environ['RANK']}"
open(name, "w").close()
open("left.txt", "a").write("x")
while not os.path.exists(f"{sys.argv[1]}/end"):
    time.sleep(0.01)
"""


def test_a_saved_edit_runs_on_all_ranks_and_a_broken_one_burns_no_budget(tmp_path):
    code, out = tmp_path / "code", tmp_path / "out"
    code.mkdir()
    out.mkdir()
    name = "job-" + uuid.uuid4().hex[:8]
    (code / "train.py").write_text(TRAIN)
    (code / "model.py").write_text("VERSION = 1\n")
    (code / "data").mkdir()
    (code / ".env").write_text("TOKEN=1\n")
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    run = Run(tmp_path, "-m", "2", "--name", name, "--max-restarts", "0", f"--sync={code}", "--",
              sys.executable, "train.py", str(out))

    def ran(version):
        return wait_until(lambda: sorted(out.glob(f"v{version}-*"))[1:],
                          lambda: sorted(each.name for each in out.iterdir()), patience=60)

    ran(1)
    (code / "model.py").write_text("VERSION = 2\n")
    ran(2)
    for text in ("VERSION = \n", "raise ValueError('broken')\n"):
        (code / "model.py").write_text(text)
        tree = code / ".lockstep" / name / "tree"
        wait_until(lambda: (tree / "model.py").read_text() == text, "the broken edit", patience=60)
    (code / "model.py").write_text("VERSION = 3\n")
    ran(3)
    (out / "end").touch()
    code_, report, output = run.finish()
    assert code_ == 0, output
    assert ": model.py changed; both ranks running again" in output
    assert "not synced: .env: looks like a secret" in output
    assert report["counters"].get("processFailures", 0) == 0, "no budget pays for an edit"
    assert report["code"]["files"] == 2 and len(report["code"]["digest"]) == 64
    assert report["code"]["generation"] == report["gangGeneration"]
    assert (tree / "left.txt").exists() and not (code / "left.txt").exists()
    status = subprocess.run(["git", "-C", str(code), "status", "--porcelain"], capture_output=True,
                            text=True, check=True).stdout
    assert ".lockstep" not in status
