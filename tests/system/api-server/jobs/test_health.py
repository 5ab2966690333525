"""What programs that know nothing of a TrainingJob's states read of it: kstatus, as Helm and Flux
have it, and Helm itself.
"""

import contextlib
import json
import os
import subprocess

import parts
import yaml
from waiting import wait_until

EXPECTED = {"Pending": "InProgress", "Queued": "InProgress", "Starting": "InProgress",
            "Running": "Current", "Restarting": "InProgress", "Stopping": "InProgress",
            "Suspended": "Current", "Succeeded": "Current", "Failed": "Failed"}


@contextlib.contextmanager
def versions_of_jobs(jobs, file):
    """All versions of the namespace's jobs from now on; a list that is filled at the end."""
    versions = []
    with open(file, "w") as output:
        watch = subprocess.Popen(
            [jobs.cluster.folder / "bin/kubectl", "-n", jobs.namespace, "get", "tj", "-w",
             "--output-watch-events", "-o", "json"], stdout=output,
            env={**os.environ, "KUBECONFIG": str(jobs.cluster.kubeconfig)})
    try:
        yield versions
    finally:
        watch.terminate()
        watch.wait(60)
    text, decoder, at = file.read_text(), json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        event, at = decoder.raw_decode(text, at)
        versions.append(event["object"])


def kstatus(objects):
    program = parts.build("kstatus", print) / "kstatus"
    return subprocess.run([program], input=json.dumps(objects), capture_output=True, text=True,
                          check=True).stdout.split()


def expected(job):
    status = job["status"]
    if status["observedGeneration"] != job["metadata"]["generation"]:
        return "InProgress"
    conflicts = any(each["type"] == "NameConflict" and each["status"] == "True"
                    for each in status["conditions"])
    answer = EXPECTED[status["state"]]
    return "Failed" if conflicts and answer == "InProgress" else answer


def test_kstatus_reads_every_version_of_a_job_as_its_state_says(jobs, tmp_path):
    gate, once = tmp_path / "gate", tmp_path / "once"
    jobs.kubectl("create", "service", "clusterip", "clash-coordinator", "--tcp", "80")
    with versions_of_jobs(jobs, tmp_path / "versions") as versions:
        wait_until(lambda: jobs.kubectl("get", "tj") is not None, "the API server")
        jobs.apply("bad", "exit 3", failurePolicy={"maxRestarts": 0})
        jobs.apply("clash", "exit 0")
        jobs.apply("good", f'if mkdir "{once}"; then sleep 1; exit 3; fi; '
                   f'while [ ! -e "{gate}" ]; do sleep 0.05; done')
        jobs.wait("good", lambda s: s.get("gangGeneration", "") > "1-1" and s["state"] == "Running",
                  "the second generation")
        for suspend, state in ((True, "Suspended"), (False, "Running")):
            jobs.kubectl("patch", "tj", "good", "--type", "merge", "-p",
                         json.dumps({"spec": {"suspend": suspend}}))
            jobs.wait_state("good", state)
        gate.touch()
        jobs.wait_state("good", "Succeeded")
        jobs.wait_state("bad", "Failed")
        jobs.wait("clash", lambda s: expected({"status": s, "metadata": {"generation": 1}}) ==
                  "Failed", "the conflict")
    read = kstatus(versions)
    wrong = [(job["metadata"]["name"], job["status"].get("state"), answer)
             for job, answer in zip(versions, read, strict=True) if answer != expected(job)]
    assert not wrong
    unseen = [answer for job, answer in zip(versions, read) if "state" not in job["status"]]
    assert unseen and set(unseen) == {"InProgress"}
    assert {"Pending", "Running", "Stopping", "Suspended", "Succeeded", "Failed"} <= {
        job["status"].get("state") for job in versions}


def chart(folder, job):
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: training\nversion: 0.1.0\n")
    (folder / "templates/job.yaml").write_text(yaml.safe_dump(job))
    return folder


def test_helm_waits_for_a_job_to_run_and_fails_with_it(jobs, tmp_path):
    def install(name, *command):
        job = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
               "spec": {"framework": "None", "image": "example.com/test:1", "schedulerName": "nobody",
                        "command": [*command], "failurePolicy": {"maxRestarts": 0}}}
        return subprocess.run(
            [jobs.cluster.folder / "bin/helm", "install", name, chart(tmp_path / name, job), "-n",
             jobs.namespace, "--wait", "--timeout", "60s"], capture_output=True, text=True,
            env={**os.environ, "KUBECONFIG": str(jobs.cluster.kubeconfig)})

    gate = tmp_path / "gate"
    well = install("good", "sh", "-c", f'while [ ! -e "{gate}" ]; do sleep 0.05; done')
    assert well.returncode == 0, well.stderr
    assert jobs.status("good")["state"] == "Running"
    gate.touch()
    failed = install("bad", "/no/such/program")  # one that runs for a moment is ready for that moment
    assert failed.returncode != 0 and "bad" in failed.stderr, failed.stderr
