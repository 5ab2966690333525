"""status.code and a job that waits for its code, with the real operator and agents. The code comes by
`lockstep-agent --sync-receive`, as `kubectl exec` would start it."""

import sys

from code_sender import CodeSender
from waiting import wait_until

TRAIN = """\
import os, pathlib, time
(pathlib.Path(os.environ["OUT"]) / os.environ["LOCKSTEP_GENERATION"]).write_text("ran")
time.sleep(1000)
"""


def test_status_names_the_code_and_a_resumed_job_waits_for_it(jobs, tmp_path):
    def sender():
        run = tmp_path / "gpt-0" / "run"
        if not (run / "agent.sock").exists():
            run = max(tmp_path.glob("gpt-0-r*"), key=lambda path: path.stat().st_mtime) / "run"
        wait_until(lambda: (run / "agent.sock").exists(), str(run), 60, 0.1)
        return CodeSender(run)

    out = tmp_path / "out"
    out.mkdir()
    jobs.apply("gpt", f"[ -e train.py ] || exec sleep 1000; OUT={out} exec {sys.executable} train.py",
               sync={})
    jobs.wait_state("gpt", "Running")
    with sender() as alice:
        digest = alice.send({"train.py": TRAIN})
        status = jobs.wait("gpt", lambda status: status.get("code") and
                           status["state"] == "Running" and status["gangGeneration"] == "1-2", "code")
    assert status["code"]["digest"] == digest and status["code"]["by"] == "alice"
    assert status["code"]["files"] == 1 and status["code"]["generation"] == "1-2"
    assert status["history"][-1]["reason"] == "restarted on request of alice: a test"
    assert status["counters"]["stops"] == 1 and "processFailures" not in status["counters"]
    wait_until((out / "1-2").exists, "the new code", 60, 0.1)

    jobs.kubelet.process("gpt-0").kill()
    status = jobs.wait("gpt", lambda status: status["state"] == "Running" and
                       status["gangGeneration"] > "1-2", "a new machine 0")
    wait_until((out / status["gangGeneration"]).exists, "the same code", 60, 0.1)
    assert status["code"]["by"] == "alice", "the new machine 0 does not know who synced it"

    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    ran = sorted(path.name for path in out.iterdir())
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    jobs.wait("gpt", lambda status: "run kubectl lockstep sync" in status.get("reason", ""),
              "a gang that waits for its code")
    assert sorted(path.name for path in out.iterdir()) == ran
