"""`lockstep submit`, `status`, `logs` and the like on a real API server; no operator runs here, so
the tests write what it would have written."""

import json
import os
import pathlib
import subprocess
import threading

import pytest
import yaml
from cluster_here import FINISHED, PATIENCE, Here, labels
from kubelet_logs import KubeletLogs
from tls import binary
from waiting import wait_until

REFUSED, WRONG, MISSING, FAILED = 1, 2, 3, 70


class Output:
    """What a command that goes on prints, line by line."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, text):
        def seen():
            return any(text in line for line in self.lines)

        wait_until(lambda: seen() or self.process.poll() is not None, text, PATIENCE)
        self._reader.join(0 if seen() else None)
        assert seen(), self.process.stderr.read()

    def finish(self):
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def here(installed, namespace, tmp_path):
    return Here(installed, namespace, tmp_path)


def test_completion_names_the_jobs_of_the_namespace(here):
    for name in ("gpt", "bert"):
        here.run("submit", here.file(name))

    def offered():
        done = subprocess.run([binary("lockstep"), "__complete", "-n", here.namespace, "status", ""],
                              env={**os.environ, "KUBECONFIG": str(here.kubeconfig)},
                              stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    # It gives up on a server that does not answer within 3 s.
    wait_until(lambda: offered() == "bert\ngpt\n:4\n", "both names", PATIENCE)


def test_submit_creates_a_job_once_and_replaces_the_job_only_on_request(here):
    out, _ = here.run("submit", here.file(), "--dry-run")
    assert "would be created" in out and here.job() is None
    out, _ = here.run("submit", here.file())
    assert "2 machines x 2 = world size 4" in out
    assert f"lockstep status gpt -n {here.namespace} --watch" in out
    first = here.job()
    assert first["spec"]["command"] == ["python", "train.py"]
    _, err = here.run("submit", here.file(), code=REFUSED)
    assert "give --replace" in err
    here.run("submit", here.file(numMachines=3), "--replace")
    second = here.job()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["spec"]["numMachines"] == 3


AS_KUBECTL_READS_IT = """\
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: gpt}
spec:
  numMachines: 0x2
  image: train:7
  command: [python, train.py]
  suspend: yes
  template:
    spec:
      hostNetwork: off
      volumes:
      - {name: a, secret: &mode {secretName: a, defaultMode: 0644}}
      - {name: b, secret: {<<: *mode, secretName: b}}
      - {name: c, configMap: {name: c, defaultMode: 0o400}}
"""


def test_submit_creates_what_kubectl_would_create_of_the_file(here, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(AS_KUBECTL_READS_IT)
    of_kubectl = json.loads(here.cluster.kubectl("-n", here.namespace, "create", "--dry-run=server",
                                                 "-o", "json", "-f", file))
    here.run("submit", file)
    assert here.job()["spec"] == of_kubectl["spec"]
    volumes = of_kubectl["spec"]["template"]["spec"]["volumes"]
    assert [volumes[0]["secret"]["defaultMode"], volumes[1]["secret"]["defaultMode"],
            volumes[2]["configMap"]["defaultMode"]] == [0o644, 0o644, 0o400]


def test_submit_rejects_an_invalid_file_as_validate_does_and_creates_nothing(here):
    bad = here.file("bad", numMachines=0)
    _, err = here.run("submit", here.file(), bad, code=WRONG)
    done = subprocess.run([binary("lockstep"), "validate", bad], capture_output=True, text=True)
    assert done.returncode == WRONG and err == done.stderr
    assert here.job() is None


def test_status_and_list_show_what_the_operator_wrote(here):
    here.run("submit", here.file())
    here.set_status(
        state="Running", ready="2/2", gangGeneration="1-2", progressText="12/100 12%",
        machineStatuses=[{"index": 0, "pod": "gpt-0", "node": "a", "state": "Running",
                          "replacements": 0},
                         {"index": 1, "pod": "gpt-1", "node": "b", "state": "Running",
                          "replacements": 0}],
        restarts={"total": 1, "application": 1, "infrastructure": 0, "stopped": 0},
        lastFailure={"cause": "ProcessExit", "machine": 1, "rank": 3, "exitCode": 7,
                     "message": "rank 3 on machine 1 exited with code 7", "stderr": "boom"})
    out, _ = here.run("status", "gpt")
    rows = [line.split() for line in out.splitlines()]
    assert ["0", "0-1", "Running", "gpt-0", "a", "0", "-"] in rows
    assert ["1", "2-3", "Running", "gpt-1", "b", "0", "-"] in rows
    assert "rank 3 on machine 1 exited with code 7\n  | boom\n" in out
    assert json.loads(here.run("status", "gpt", "-o", "json")[0])["status"]["gangGeneration"] == "1-2"

    out, _ = here.run("list")
    assert out.splitlines()[1].split()[:5] == ["gpt", "Running", "2/2", "4", "1"]
    listed = yaml.load(here.run("list", "-o", "yaml")[0], yaml.BaseLoader)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["gpt"]
    out, _ = here.run("list", "-A")
    assert f"{here.namespace}  gpt" in " ".join(out.split()).replace(" ", "  ")


def test_watch_prints_each_change_and_ends_with_the_job(here):
    here.run("submit", here.file())
    watch = Output(here.start("status", "gpt", "--watch"))
    watch.wait_for("gpt  Pending")
    here.set_status(state="Running", ready="2/2")
    watch.wait_for("gpt  Running  2/2 ready")
    here.set_status(state="Failed", reason="rank 3 failed")
    assert watch.finish() == FAILED
    assert len(watch.lines) == 3 and watch.lines[-1].endswith("(rank 3 failed)")


def test_a_job_is_suspended_resumed_scaled_and_deleted(here):
    here.run("submit", here.file())
    here.run("suspend", "gpt")
    assert here.job()["spec"]["suspend"] is True
    assert "already" in here.run("suspend", "gpt")[0]
    here.run("resume", "gpt")
    assert here.job()["spec"]["suspend"] is False
    here.run("scale", "gpt", "5")
    assert here.job()["spec"]["numMachines"] == 5
    _, err = here.run("scale", "gpt", "5000", code=WRONG)
    assert "must lie between 1 and 4096" in err
    assert here.job()["spec"]["numMachines"] == 5
    here.run("delete", "gpt", "gtp", code=MISSING)
    assert here.job() is not None
    here.run("delete", "gpt")
    assert here.job() is None


def test_commands_reject_changes_of_an_ended_job(here):
    here.run("submit", here.file())
    here.set_status(state="Succeeded")
    for change in (["suspend", "gpt"], ["scale", "gpt", "3"]):
        assert "has ended (Succeeded)" in here.run(*change, code=REFUSED)[1]


def test_commands_suggest_the_nearest_job_name_and_report_a_wrong_rank(here):
    here.run("submit", here.file())
    for command in ("status", "logs", "suspend", "resume", "delete"):
        assert 'did you mean "gpt"?' in here.run(command, "gtp", code=MISSING)[1]
    _, err = here.run("logs", "gpt", code=MISSING)
    assert "has no pods now" in err
    _, err = here.run("logs", "gpt", "--rank", "4", code=WRONG)
    assert "has ranks 0 to 3" in err


def test_list_reports_missing_rights_and_rejected_credentials(here, tmp_path):
    config = yaml.safe_load(here.cluster.kubeconfig.read_text())
    here.cluster.kubectl("create", "serviceaccount", "nobody", "-n", here.namespace)
    token = here.cluster.kubectl("create", "token", "nobody", "-n", here.namespace).strip()
    config["users"][0]["user"] = {"token": token}
    here.kubeconfig = tmp_path / "nobody.kubeconfig"
    here.kubeconfig.write_text(yaml.safe_dump(config))
    _, err = here.run("list", code=REFUSED)
    assert "cannot list trainingjobs: not allowed" in err and "nobody" in err
    config["users"][0]["user"] = {"token": "stale"}
    here.kubeconfig.write_text(yaml.safe_dump(config))
    _, err = here.run("list", code=REFUSED)
    assert "does not accept the credentials" in err


def test_kubectl_finds_the_commands_as_a_plugin(here):
    here.run("submit", here.file())
    environment = {**os.environ, "KUBECONFIG": str(here.cluster.kubeconfig),
                   "PATH": f"{pathlib.Path(binary('lockstep')).parent}:{os.environ['PATH']}"}
    done = subprocess.run([here.cluster.folder / "bin/kubectl", "lockstep", "status", "gpt", "-n",
                           here.namespace], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"trainingjob gpt in namespace {here.namespace}\n")


@pytest.fixture
def kubelet(here, tmp_path):
    with KubeletLogs.on(here.cluster, tmp_path) as made:
        yield made


def test_logs_pick_the_machine_and_the_lines_of_a_rank(here, kubelet):
    here.run("submit", here.file())
    for machine in range(2):
        kubelet.run(here.namespace, f"gpt-{machine}", labels(machine, 1))
        for rank in (2 * machine, 2 * machine + 1):
            kubelet.write(f"gpt-{machine}", f"[m{machine} r{rank}] hello from {rank}")
    assert here.run("logs", "gpt", "--rank", "3")[0] == "[m1 r3] hello from 3\n"
    assert here.run("logs", "gpt", "--machine", "0")[0] == (
        "[m0 r0] hello from 0\n[m0 r1] hello from 1\n")
    assert len(here.run("logs", "gpt")[0].splitlines()) == 4


def test_debug_asks_each_agent_through_kubectl_and_reports_where_each_rank_waits(
        here, kubelet, tmp_path, monkeypatch):
    here.run("submit", here.file())
    for machine in range(2):
        kubelet.run(here.namespace, f"gpt-{machine}", labels(machine, 1))
    fake = tmp_path / "bin/kubectl"
    fake.parent.mkdir()
    fake.write_text("""#!/bin/sh
echo "$@" >> "$0.asked"
case $2 in
gpt-0) places='{"rank":0,"place":"barrier (a.py:1)"},{"rank":1,"place":"barrier (a.py:1)"}';;
gpt-1) places='{"rank":2,"place":"barrier (a.py:1)"},{"rank":3,"place":"load (a.py:2)","evidence":"\\u001b[2J"}'
esac
echo "{\\"job\\":\\"gpt\\",\\"machine\\":${2#gpt-},\\"generation\\":\\"1-2\\",\\"ranks\\":[$places]}"
""")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    out, _ = here.run("debug", "gpt", "--rank", "3")
    assert out.startswith(
        "gpt, generation 1-2: ranks 0-2 are in barrier (a.py:1), rank 3 is in load (a.py:2)\n")
    assert "--- rank 3, machine 1 ---\n\ufffd[2J" in out and "--- rank 0" not in out
    asked = sorted(pathlib.Path(f"{fake}.asked").read_text().splitlines())
    assert asked == [f"exec gpt-{m} --namespace {here.namespace} --container worker -- "
                     "/lockstep/lockstep-agent --evidence /run/lockstep/agent" for m in range(2)]
    fake.write_text("#!/bin/sh\necho pods is forbidden >&2\nexit 1\n")
    _, err = here.run("debug", "gpt", code=REFUSED)
    assert "pod gpt-1: pods is forbidden" in err


def test_logs_are_followed_over_breaks_and_replaced_pods_until_the_job_ends(here, kubelet):
    here.run("submit", here.file())
    here.set_status()
    follower = Output(here.start("logs", "gpt", "--rank", "3", "-f"))
    kubelet.run(here.namespace, "gpt-1", labels(1, 1))
    kubelet.write("gpt-1", "[m1 r3] one", "[m1 r2] of another")
    follower.wait_for("[m1 r3] one")
    kubelet.cut()
    kubelet.write("gpt-1", "[m1 r3] two")
    follower.wait_for("[m1 r3] two")
    kubelet.end(here.namespace, "gpt-1", exit_code=75)
    kubelet.run(here.namespace, "gpt-1-r2", labels(1, 2))
    kubelet.write("gpt-1-r2", "[m1 r3] three")
    follower.wait_for("[m1 r3] three")
    here.set_status(state="Succeeded")
    kubelet.end(here.namespace, "gpt-1-r2", exit_code=0)
    assert follower.finish() == FINISHED
    assert follower.lines == ["[m1 r3] one", "[m1 r3] two", "[m1 r3] three"]
