"""`kubectl lockstep sync` of a job on a real API server, with the real operator and agents, whose
folders `kubectl exec` reaches as kubelet would."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from paths import ROOT
from tls import binary
from waiting import wait_until

TRAIN = """\
import os, time, lockstep
import model
step = 0
while True:
    step += 1
    name = os.environ["LOCKSTEP_GENERATION"] + "-" + os.environ["RANK"]
    # Whole or not at all: a stop may end the rank at any moment.
    open(os.environ["OUT"] + "/../" + name, "w").write(model.NAME)
    os.replace(os.environ["OUT"] + "/../" + name, os.environ["OUT"] + "/" + name)
    lockstep.report(step=step)
    time.sleep(0.05)
"""


@pytest.fixture
def kubectl(tmp_path):
    """The folder of a kubectl that execs as kubelet would: the agent, in the folder of that pod."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f"""#!/bin/sh
[ "$1" = exec ] || exit 64
pod=$2
[ "$3" = --stdin ] || exit 67
while [ "$1" != -- ]; do shift; done
shift 2
[ "$1" = --sync-receive ] && [ "$2" = /run/lockstep/agent ] || exit 65
exec {binary("lockstep-agent")} --sync-receive {tmp_path}/$pod/run
""")
    program.chmod(0o755)
    return folder


class Syncing:
    """A job that runs what is synced, and the folder with the code."""

    def __init__(self, jobs, folder, kubectl):
        self.jobs, self.kubectl = jobs, kubectl
        self.out, self.code = folder / "out", folder / "src"
        self.log = folder / "sync.log"
        self.out.mkdir()
        self.code.mkdir()
        self.save("image")
        (self.code / "train.py").write_text(TRAIN)

    def apply(self, **spec):
        """Until code is synced, ranks find no train.py and wait."""
        self.jobs.apply("gpt", "[ -e train.py ] || exec sleep 1000; "
                        f"OUT={self.out} PYTHONPATH=$PYTHONPATH:{ROOT}/worker/python "
                        f"exec {sys.executable} train.py",
                        **{"sync": {}, "failurePolicy": {"maxRestarts": 3}, **spec})

    def save(self, name):
        (self.code / "model.py").write_text(f"NAME = {name!r}\n")

    def command(self, *arguments, user="alice"):
        return {"args": [binary("kubectl-lockstep"), "sync", "-n", self.jobs.namespace, "gpt",
                         str(self.code), *arguments],
                "env": {**os.environ, "KUBECONFIG": str(self.jobs.cluster.kubeconfig),
                        "USER": user, "PATH": f"{self.kubectl}:{os.environ['PATH']}"}}

    def sync(self, **options):
        return subprocess.run(**self.command(**options), capture_output=True, text=True,
                              timeout=100, check=False)

    @contextlib.contextmanager
    def watching(self):
        with self.log.open("w") as log, \
                subprocess.Popen(**self.command("--watch"), stderr=log) as process:
            try:
                yield process
                process.terminate()  # a background job of a shell ignores SIGINT
                process.wait(30)
            finally:
                process.kill()

    def ran(self, generation):
        """What each rank of the generation ran."""
        return {path.name.rpartition("-")[2]: path.read_text()
                for path in self.out.glob(f"{generation}-*")}

    def wait_ran(self, generation, name):
        wait_until(lambda: self.ran(generation) == dict.fromkeys("0123", name),
                   lambda: f"{self.ran(generation)} {self.said()} {self.jobs.status('gpt')}", 60, 0.1)

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def wait_said(self, words):
        wait_until(lambda: words in self.said(), lambda: f"{words!r} in: {self.said()}", 60, 0.1)

    def check_no_generation_is_mixed(self):
        generations = {path.name.rpartition("-")[0] for path in self.out.iterdir()}
        for each in generations:
            assert len(set(self.ran(each).values())) == 1, (each, self.ran(each))


@pytest.fixture
def syncing(jobs, tmp_path, kubectl):
    return Syncing(jobs, tmp_path, kubectl)


def test_sync_runs_new_code_on_all_machines_uncharged_and_status_names_it(jobs, syncing):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    pods = jobs.pods("gpt")
    syncing.save("first")
    done = syncing.sync()
    assert done.returncode == 0, done.stderr
    assert "all ranks run the new code" in done.stderr and "as generation 1-2" in done.stderr
    syncing.wait_ran("1-2", "first")
    syncing.save("second")
    done = syncing.sync(user="bob")
    assert done.returncode == 0, done.stderr
    assert "replaces the code that alice synced" in done.stderr
    syncing.wait_ran("1-3", "second")
    status = jobs.wait("gpt", lambda status: status.get("code", {}).get("by") == "bob", "the code")
    assert status["code"]["files"] == 2 and status["code"]["generation"] == "1-3"
    assert len(status["code"]["digest"]) == 64 and status["code"]["since"]
    first, second = jobs.wait("gpt", lambda status: len(status.get("history", [])) == 2,
                              "two ends")["history"]
    assert "code" not in first and second["code"] != status["code"]["digest"]
    assert second["reason"] == "restarted on request of bob: 2 files"
    assert status["counters"]["stops"] == 2 and "processFailures" not in status["counters"]
    assert jobs.pods("gpt") == pods
    done = syncing.sync(user="bob")
    assert done.returncode == 0, done.stderr
    assert jobs.status("gpt")["gangGeneration"] == "1-3", "the same code starts nothing"


def test_a_job_without_sync_refuses_it(jobs, syncing):
    jobs.apply("gpt", "sleep 1000")
    jobs.wait_state("gpt", "Running")
    done = syncing.sync()
    assert done.returncode == 2 and "create it with spec.sync: {}" in done.stderr, done.stderr


def test_a_broken_edit_holds_the_gang_with_its_traceback_until_the_next(jobs, syncing):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    with syncing.watching():
        syncing.wait_ran("1-2", "image")
        (syncing.code / "model.py").write_text("def broken(:\n")
        syncing.wait_said("waiting for the next edit")
        assert "SyntaxError" in syncing.said() and "def broken(:" in syncing.said()
        status = jobs.wait("gpt", lambda status: status.get("reason") ==
                           "waiting for the next edit of the code", "a held gang")
        assert "processFailures" not in status["counters"]
        syncing.save("mended")
        wait_until(lambda: "mended" in syncing.ran("1-4").values(), syncing.said, 60, 0.1)
        syncing.wait_ran("1-4", "mended")
    syncing.check_no_generation_is_mixed()


def test_an_upload_that_breaks_stops_nothing(jobs, syncing, tmp_path):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    wait_until(lambda: (tmp_path / "gpt-0" / "run" / "agent.sock").exists(), str, 60, 0.1)
    manifest = json.dumps([["train.py", "0" * 64, 420, 100]])
    header = json.dumps({"digest": "1" * 64, "manifest": len(manifest)})
    with subprocess.Popen([binary("lockstep-agent"), "--sync-receive", tmp_path / "gpt-0" / "run"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as receiver:
        assert "receives" in json.loads(receiver.stdout.readline())
        receiver.stdin.write(header + "\n" + manifest)
        receiver.stdin.flush()
        assert json.loads(receiver.stdout.readline()) == {"missing": ["0" * 64]}
        receiver.stdin.write("half of it")
        receiver.stdin.close()
        assert "has gone" in receiver.stderr.read() and receiver.wait(30) != 0
    assert not list((tmp_path / "gpt-0" / "run" / "code").glob("incoming-*"))
    assert jobs.status("gpt")["gangGeneration"] == "1-1"
    assert syncing.sync().returncode == 0
    syncing.wait_ran("1-2", "image")


def test_a_machine_that_is_lost_while_it_fetches_is_replaced_and_the_code_runs(jobs, syncing):
    syncing.apply(failurePolicy={"machineLostAfter": "3s"})
    jobs.wait_state("gpt", "Running")
    os.kill(jobs.kubelet.process("gpt-1").pid, signal.SIGSTOP)  # it never fetches
    syncing.save("new")
    done = syncing.sync()
    assert done.returncode == 0, done.stderr
    status = jobs.wait("gpt", lambda status: status.get("state") == "Running" and
                       status.get("code"), "the new code")
    syncing.wait_ran(status["gangGeneration"], "new")
    syncing.check_no_generation_is_mixed()


def test_a_machine_that_is_lost_while_the_gang_is_held_runs_the_mended_code(jobs, syncing):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    with syncing.watching():
        syncing.wait_ran("1-2", "image")
        (syncing.code / "model.py").write_text("def broken(:\n")
        syncing.wait_said("waiting for the next edit")
        jobs.kubelet.process("gpt-1").kill()
        wait_until(lambda: "gpt-1-r2" in jobs.pods("gpt"), lambda: str(jobs.pods("gpt")), 60, 0.1)
        syncing.save("mended")
        wait_until(lambda: "mended" in {path.read_text() for path in syncing.out.iterdir()},
                   syncing.said, 60, 0.1)
    status = jobs.wait_state("gpt", "Running")
    syncing.wait_ran(status["gangGeneration"], "mended")
    syncing.check_no_generation_is_mixed()


def test_a_lost_machine_gets_the_synced_code_before_it_starts_ranks(jobs, syncing):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    syncing.save("new")
    assert syncing.sync().returncode == 0
    syncing.wait_ran("1-2", "new")
    jobs.wait("gpt", lambda status: status.get("code"), "the code")
    jobs.kubelet.process("gpt-1").kill()
    syncing.wait_ran("1-3", "new")
    jobs.kubelet.process("gpt-0").kill()
    # The attempt of the new machine 0 is in its generation's name.
    wait_until(lambda: any(path.name.startswith(("2-", "3-")) for path in syncing.out.iterdir()),
               lambda: str(jobs.status("gpt")), 60, 0.1)
    status = jobs.wait_state("gpt", "Running")
    syncing.wait_ran(status["gangGeneration"], "new")
    syncing.check_no_generation_is_mixed()
    assert status["code"]["by"] == "alice", "the operator keeps who synced it"


def test_a_suspended_job_waits_for_its_code_and_says_how_to_bring_it(jobs, syncing):
    syncing.apply()
    jobs.wait_state("gpt", "Running")
    syncing.save("new")
    assert syncing.sync().returncode == 0
    syncing.wait_ran("1-2", "new")
    jobs.wait("gpt", lambda status: status.get("code"), "the code")
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    done = syncing.sync()
    assert done.returncode == 1 and "is suspended" in done.stderr, done.stderr
    before = {path.name for path in syncing.out.iterdir()}
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    jobs.wait("gpt", lambda status: "run kubectl lockstep sync" in status.get("reason", ""),
              "a gang that waits for its code")
    assert {path.name for path in syncing.out.iterdir()} == before
    done = syncing.sync()
    assert done.returncode == 0, done.stderr
    status = jobs.wait_state("gpt", "Running")
    syncing.wait_ran(status["gangGeneration"], "new")
