"""examples/sweep: an Optuna study whose trials are TrainingJobs, here and in a cluster."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess

import processes
import pytest
import yaml
from agent_kubelet import AgentKubelet
from jobs import Jobs, operator
from run import MARK, ROOT, ranks
from tls import binary
from waiting import wait_until

SWEEP = ROOT / "examples/sweep"
TRIALS = """
import json, optuna, sys
study = optuna.load_study(study_name="sweep", storage=sys.argv[1])
print(json.dumps([{"state": each.state.name, "value": each.value, "ended": each.user_attrs["ended"],
                   "steps": sorted(each.intermediate_values), "values": each.intermediate_values}
                  for each in study.trials if each.state.is_finished()]))
"""


class Sweep:
    """sweep.py as a process, with a storage of its own."""

    def __init__(self, python, folder, job, *options, **environment):
        self.python, self.mark = python, str(folder)
        self._storage = f"sqlite:///{folder}/sweep.db"
        self._said = open(folder / "said", "a+")
        self.process = subprocess.Popen(
            [python, SWEEP / "sweep.py", job, "--seed", "1", "--storage", self._storage,
             "--lockstep", binary("lockstep"), *options],
            env={**os.environ, MARK: self.mark, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said, text=True,
            # What runs in a shell's background ignores Ctrl-C, and this would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def finish(self, code=0):
        """(what it printed, what it said); nothing is left."""
        out, _ = self.process.communicate(timeout=400)
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        assert self.process.returncode == code, said
        wait_until(lambda: not processes.with_variable(MARK, self.mark), "all it started to end")
        return out, said

    def trials(self):
        done = subprocess.run([self.python, "-c", TRIALS, self._storage], capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)


@pytest.fixture
def sweep(python_with, tmp_path):
    made = []

    def start(job, *options, **environment):
        made.append(Sweep(python_with("optuna"), tmp_path, job, *options, **environment))
        return made[-1]

    yield start
    for each in made:  # and what it has started, of which a test that failed may leave something
        each.process.kill()
        each.process.wait()
        for pid in processes.with_variable(MARK, each.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def job_file(folder, **spec):
    """The example's job with these changes."""
    job = yaml.safe_load((SWEEP / "job.yaml").read_text())
    trainer = spec.pop("trainer", {})
    job["spec"] = {**job["spec"], **spec, "trainer": {**job["spec"]["trainer"], **trainer}}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def test_sweep_suspends_worse_trials_and_prints_best_trial(sweep):
    run = sweep(SWEEP / "job.yaml", "--trials", "8")
    out, said = run.finish()
    trials = run.trials()
    best = json.loads(out)
    complete = [each for each in trials if each["state"] == "COMPLETE"]
    pruned = [each for each in trials if each["state"] == "PRUNED"]
    assert len(trials) == 8 and complete and pruned, said
    assert len(complete) + len(pruned) == 8, said
    assert {each["ended"] for each in complete} == {"Succeeded"}
    assert {each["steps"][-1] for each in complete} == {600}
    assert {each["ended"] for each in pruned} == {"Suspended"}
    assert all(50 <= each["steps"][-1] < 600 for each in pruned), pruned
    assert all(step % 50 == 0 for each in trials for step in each["steps"])
    assert best["value"] == min(each["value"] for each in complete)
    assert trials[int(best["job"].removeprefix("sweep-"))]["value"] == best["value"]

    again = sweep(SWEEP / "job.yaml", "--trials", "1")  # it goes on
    again.finish()
    assert len(again.trials()) == 9


def test_trial_with_killed_rank_completes_and_counts_each_step_once(sweep, tmp_path):
    run = sweep(SWEEP / "job.yaml", "--trials", "1")
    found = wait_until(lambda: len(alive := ranks(run.mark)) == 2 and alive, "the ranks", 120)
    os.kill(found[1][0], signal.SIGKILL)
    wait_until(lambda: found[0] not in ranks(run.mark).values(), "the generation's end", 120)
    _, said = run.finish()
    [trial] = run.trials()
    assert (trial["state"], trial["ended"], trial["steps"][-1]) == ("COMPLETE", "Succeeded", 600)
    assert "was killed by SIGKILL" in said and "already reported" not in said


def test_sweep_reports_why_a_trial_failed_and_starts_next_trial(sweep, tmp_path):
    file = job_file(tmp_path, trainer={"data": ["/nonexistent/*.txt"]})
    run = sweep(file, "--trials", "2")
    _, said = run.finish(code=1)
    assert [each["state"] for each in run.trials()] == ["FAIL", "FAIL"]
    assert "no trial has come to its end" in said and "/nonexistent/*.txt" in said


def test_a_sweep_that_is_interrupted_leaves_no_job(sweep, tmp_path):
    file = job_file(tmp_path, trainer={"steps": 1_000_000})
    run = sweep(file, "--trials", "1")
    wait_until(lambda: len(ranks(run.mark)) == 2, "the ranks", 120)
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=120)
    wait_until(lambda: not processes.with_variable(MARK, run.mark), "all it started to end")


def test_study_by_the_python_client_continues_and_prints_its_best_trial(python_with, tmp_path):
    def study(trials):
        done = subprocess.run(
            [python_with("torch"), SWEEP / "client_sweep.py", f"--trials={trials}", "--steps=20", "--machines=1",
             f"--storage=sqlite:///{tmp_path}/study.db"], capture_output=True, text=True, timeout=400,
            env={**os.environ, MARK: str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1",
                 "PATH": f"{pathlib.Path(binary('lockstep')).parent}:{os.environ['PATH']}"})
        assert done.returncode == 0, done.stderr
        wait_until(lambda: not processes.with_variable(MARK, str(tmp_path)), "all it started to end")
        return done.stdout.splitlines()[-1]

    assert re.fullmatch(r"best of 3: loss [0-9.]+ with \{'rate': .*, 'width': (8|32)\}", study(3))
    assert study(1).startswith("best of 4: ")


@pytest.fixture
def cluster_jobs(installed, namespace, tmp_path, monkeypatch):
    """Real API server, operator and agents."""
    monkeypatch.setenv("PATH", f"{pathlib.Path(binary('lockstep')).parent}:{os.environ['PATH']}")
    folder = tmp_path / "cluster"
    folder.mkdir()
    with AgentKubelet(installed, namespace, folder / "pods") as kubelet, operator(
            installed.kubeconfig, folder, "--namespace", namespace, "--system-namespace",
            namespace):
        yield Jobs(installed, namespace, kubelet, folder)


def in_cluster(sweep, jobs, file, *options):
    return sweep(file, "--namespace", jobs.namespace, "--seconds", "0.2", *options,
                 KUBECONFIG=str(jobs.cluster.kubeconfig))


def test_trial_in_cluster_takes_its_value_from_job_status(sweep, cluster_jobs, tmp_path):
    file = job_file(tmp_path, schedulerName="nobody", image="example.com/test:1")
    run = in_cluster(sweep, cluster_jobs, file, "--trials", "2")
    out, _ = run.finish()
    trials = run.trials()
    assert [(each["state"], each["ended"]) for each in trials] == [("COMPLETE", "Succeeded")] * 2
    for number, trial in enumerate(trials):
        progress = cluster_jobs.status(f"sweep-{number}")["progress"]
        assert trial["steps"][-1] == progress["step"] == 600
        [loss] = [each["value"] for each in progress["metrics"] if each["name"] == "loss"]
        assert trial["value"] == float(loss)


def test_sweep_in_cluster_deletes_job_of_worse_trial(
        sweep, cluster_jobs, tmp_path):
    sweep(SWEEP / "job.yaml", "--trials", "4").finish()  # in the same storage
    noise = tmp_path / "noise"
    noise.write_bytes(random.Random(1).randbytes(1 << 20))  # of which nobody learns anything
    # So slow that status, which is written twice a minute, has steps that the others have.
    file = job_file(tmp_path, schedulerName="nobody", image="example.com/test:1", trainer={
        "data": [str(noise)], "steps": 1_000_000, "globalBatchSize": 256})
    run = in_cluster(sweep, cluster_jobs, file, "--trials", "1")
    run.process.wait(400)
    *others, last = run.trials()
    assert [each["state"] for each in others] == ["COMPLETE"] * 4
    assert (last["state"], last["ended"]) == ("PRUNED", "Deleted")
    wait_until(lambda: not cluster_jobs.kubectl("get", "tj,pods", "-o", "name"),
               "the job and its pods to go", 120, 0.2)


def test_interrupted_sweep_in_cluster_deletes_its_job(sweep, cluster_jobs, tmp_path):
    file = job_file(tmp_path, schedulerName="nobody", image="example.com/test:1",
                    trainer={"steps": 1_000_000})
    run = in_cluster(sweep, cluster_jobs, file, "--trials", "1")
    wait_until(lambda: cluster_jobs.kubectl("get", "tj", "-o", "name"), "the job", 120, 0.2)
    cluster_jobs.wait("sweep-0", lambda status: status.get("progress"), "a first report")
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=120)
    wait_until(lambda: not cluster_jobs.kubectl("get", "tj,pods", "-o", "name"),
               "the job and its pods to go", 120, 0.2)
