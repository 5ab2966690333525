"""TrainingJobs on a real API server, with the real operator and real agents."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from jobs import HTTP
from kubelet_writer import container, now
from processes import children, environment
from tls import binary
from waiting import wait_until

# Ranks that live until somebody opens the gate, and save nothing.
UNTIL = 'while [ ! -e "{gate}" ]; do sleep 0.05; done'


def ranks_of(agent):
    """Process ids of the ranks under an agent, by rank."""
    found, below = {}, children(agent)
    while below:
        pid = below.pop()
        below += children(pid)
        rank = environment(pid).get("RANK")
        if rank is not None:
            found.setdefault(int(rank), pid)  # not what the rank itself has started
    return found


def wait_log(jobs, pod, words):
    """One machine's verdict is the job's: others may still write then."""
    wait_until(lambda: words in jobs.kubelet.log(pod), lambda: jobs.kubelet.log(pod))


def test_operator_logs_its_http_library(jobs):
    wait_until(lambda: f", HTTP by {HTTP}\n" in jobs.operator_log(), jobs.operator_log, 60, 0.1)


def test_a_job_runs_to_its_end(jobs):
    jobs.apply("gpt", 'echo "rank $RANK of $WORLD_SIZE"')
    status = jobs.wait_state("gpt", "Succeeded")
    assert status["verdict"]["exitCode"] == 0
    assert status["restarts"]["total"] == 0
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions["Complete"] == "True"
    wait_log(jobs, "gpt-1", "rank 3 of 4")


def test_failed_job_reports_the_failed_rank_and_its_error(jobs):
    jobs.apply("bad", 'if [ "$RANK" = 3 ]; then echo "no such file: x" >&2; exit 9; fi; sleep 300',
               failurePolicy={"maxRestarts": 0})
    status = jobs.wait_state("bad", "Failed")
    failure = status["lastFailure"]
    assert (failure["rank"], failure["machine"], failure["exitCode"]) == (3, 1, 9)
    assert "no such file: x" in failure["stderr"]
    assert status["verdict"]["exitCode"] == 9
    assert status["restarts"]["total"] == 0
    assert [each["cause"] for each in status["history"]] == ["ProcessExit"]
    assert status["ready"] == "0/2" and "Running" not in status["machines"]["byState"]
    assert "failed once and" in status["reason"]
    described = jobs.kubectl("describe", "tj", "bad")
    assert "rank 3" in described and "no such file: x" in described


def shown_restarts(jobs, name):
    """Of one job: the printer column, the command line's column, and the status."""
    listed = subprocess.run([binary("lockstep"), "list", "-n", jobs.namespace, "--kubeconfig",
                             jobs.cluster.kubeconfig], capture_output=True, text=True, check=True)
    columns = []
    for text in (jobs.kubectl("get", "tj"), listed.stdout):
        head, *rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
        [row] = [row for row in rows if row[0] == name]
        columns.append(int(row[head.index("RESTARTS")]))
    return *columns, jobs.status(name)["restarts"]["total"]


def test_restarts_are_those_that_were_made_however_the_job_ended(jobs):
    jobs.apply("loop", 'if [ "$RANK" = 3 ]; then exit 5; fi; sleep 300')
    status = jobs.wait_state("loop", "Failed")
    assert "with exit code 5 within 60 s of the start" in status["reason"]
    assert status["ledger"]["goodput"] == "unknown"
    assert shown_restarts(jobs, "loop") == (1, 1, 1)
    told = [(each["generation"], each["cause"]) for each in status["history"]]
    assert told == [("1-1", "ProcessExit"), ("1-2", "EarlyCrash")]
    jobs.apply("none", "exit 127")
    status = jobs.wait_state("none", "Failed")
    assert shown_restarts(jobs, "none") == (0, 0, 0)
    assert [each["generation"] for each in status["history"]] == ["1-1"]


def test_gang_restarts_in_place_after_a_rank_is_killed(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    before = jobs.pods("gpt")
    victim = wait_until(lambda: ranks_of(jobs.kubelet.process("gpt-1").pid).get(2), "rank 2")
    os.kill(victim, signal.SIGKILL)
    status = jobs.wait("gpt", lambda s: s.get("restarts", {}).get("application") == 1
                       and s["state"] == "Running", "the gang in its second generation")
    assert status["lastFailure"]["rank"] == 2 and status["lastFailure"]["signal"] == signal.SIGKILL
    assert jobs.pods("gpt") == before
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_an_init_container_that_fails_on_every_node_fails_the_job_in_its_own_words(jobs):
    words = "download failed: no such bucket"
    fetch = {"name": "fetch", "image": "example.com/fetch:1"}
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "message": words,
                            "startedAt": now(), "finishedAt": now()}}
    jobs.kubelet.instead(lambda pod: {
        "phase": "Failed", "initContainerStatuses": [container(fetch, ended, False)]})
    jobs.apply("gpt", "true", template={"spec": {"initContainers": [fetch]}},
               failurePolicy={"maxRestarts": 0})
    status = jobs.wait_state("gpt", "Failed")
    assert (status["verdict"]["exitCode"], status["verdict"]["cause"]) == (70, "ProcessExit")
    assert status["lastFailure"]["exitCode"] == 3
    assert "init container fetch exited with code 3 on node" in status["lastFailure"]["message"]
    assert words in status["reason"] and "maxRestarts is 0" in status["reason"]
    assert words in jobs.kubectl("describe", "tj", "gpt")


def test_an_image_that_one_node_cannot_have_is_tried_on_another_after_start_timeout(jobs):
    broken = f"{jobs.namespace}-1"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no space left on device"}}

    def status_of(pod):
        if pod["spec"]["nodeName"] != broken:
            return None
        return {"containerStatuses": [container(each, waiting, False)
                                      for each in pod["spec"]["containers"]]}

    jobs.kubelet.instead(status_of)
    jobs.apply("gpt", "true", health={"startTimeout": "2s"})
    status = jobs.wait_state("gpt", "Succeeded")
    assert status["counters"]["replacements"] == 1 and status["restarts"]["total"] == 0
    assert f"did not start on node {broken} within startTimeout" in status["lastFailure"]["message"]
    assert "ImagePullBackOff: no space left on device" in status["lastFailure"]["message"]


def test_the_container_that_a_limit_range_bounds_is_named_with_what_to_do(jobs):
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "least"},
              "spec": {"limits": [{"type": "Container", "min": {"memory": "100Mi"}}]}}
    jobs.kubectl("apply", "-f", "-", input=json.dumps(limits))
    jobs.apply("gpt", "true", resourcesPerProcess={"memory": "200Mi"})
    status = jobs.wait("gpt", lambda s: "lockstep-install" in s.get("reason", ""), "the reason")
    assert "value agent.resources.memory of the operator's chart to 100Mi" in status["reason"]


def lose(jobs, tmp_path, machine):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    before = jobs.pods("gpt")
    jobs.kubelet.process(f"gpt-{machine}").kill()
    status = jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running",
                       "the gang with its replacement")
    after = jobs.pods("gpt")
    other = f"gpt-{1 - machine}"
    assert set(after) == {other, f"gpt-{machine}-r2"} and after[other] == before[other]
    jobs.wait("gpt", lambda s: s["restarts"]["infrastructure"] == 1, "the restart to be counted")
    gate.touch()
    status = jobs.wait_state("gpt", "Succeeded")
    assert status["restarts"]["total"] == status["restarts"]["infrastructure"] == 1


def test_a_lost_machine_is_replaced_and_the_survivor_keeps_its_pod(jobs, tmp_path):
    lose(jobs, tmp_path, 1)


def test_machine_0_is_replaced_like_any_other(jobs, tmp_path):
    lose(jobs, tmp_path, 0)


def service_names(jobs):
    return {each.removeprefix("service/")
            for each in jobs.kubectl("get", "services", "-o", "name").split()}


def pod_names(jobs):
    """What machines' pods are called within the cluster's DNS, by pod."""
    pods = json.loads(jobs.kubectl("get", "pods", "-l", "lockstep.dev/job=gpt", "-o", "json"))
    return {each["metadata"]["name"]: (each["spec"].get("hostname"), each["spec"].get("subdomain"))
            for each in pods["items"]}


def address_of(jobs, pod):
    return json.loads(jobs.kubectl("get", "pod", pod, "-o", "json"))["status"]["podIP"]


def test_gang_without_hostnames_finds_machine_0_and_its_replacement_by_address(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", f'echo "rank $RANK meets at $MASTER_ADDR"; {UNTIL.format(gate=gate)}',
               network={"hostnames": False})
    jobs.wait_state("gpt", "Running")
    wait_log(jobs, "gpt-1", f"rank 2 meets at {address_of(jobs, 'gpt-0')}")
    victim = wait_until(lambda: ranks_of(jobs.kubelet.process("gpt-1").pid).get(2), "rank 2")
    os.kill(victim, signal.SIGKILL)
    jobs.wait("gpt", lambda s: s.get("restarts", {}).get("application") == 1
              and s["state"] == "Running", "the gang in its second generation")
    jobs.kubelet.process("gpt-0").kill()
    jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running",
              "the gang with its replacement")
    wait_log(jobs, "gpt-1", f"rank 2 meets at {address_of(jobs, 'gpt-0-r2')}")
    assert set(pod_names(jobs).values()) == {(None, None)}
    assert service_names(jobs) == {"gpt-coordinator"}
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_hostnames_change_while_a_job_is_suspended(jobs, tmp_path):
    gate = tmp_path / "gate"

    def change(**spec):
        jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", json.dumps({"spec": spec}))

    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    named = {f"gpt-{machine}": (f"gpt-{machine}", "gpt") for machine in range(2)}
    assert pod_names(jobs) == named
    for hostnames in (False, True):
        change(suspend=True)
        jobs.wait_state("gpt", "Suspended")
        change(suspend=False, network={"hostnames": hostnames})
        jobs.wait_state("gpt", "Running")
        assert set(pod_names(jobs).values()) == (
            set(named.values()) if hostnames else {(None, None)})
        assert service_names(jobs) == {"gpt-coordinator", *(["gpt"] if hostnames else [])}
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_kubectl_describe_shows_preflight_measurements_as_a_condition(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate), preflight={"enabled": True, "margin": 1})
    jobs.kubectl("wait", "--for=condition=PreflightPassed", "--timeout=120s", "tj/gpt")
    described = jobs.kubectl("describe", "tj", "gpt")
    assert "PreflightPassed" in described and "medians products" in described, described
    gate.touch()
    status = jobs.wait_state("gpt", "Succeeded")
    [passed] = [each for each in status["conditions"] if each["type"] == "PreflightPassed"]
    assert (passed["status"], passed["reason"]) == ("True", "Passed")
    assert "GFLOP/s" in passed["message"] and "GB/s" in passed["message"]


def ready_spares(jobs, count):
    return jobs.wait("gpt", lambda s: s.get("state") == "Running"
                     and s["machines"].get("spares", 0) == count, f"{count} spares ready")


def test_replacement_of_lost_machine_prefers_node_of_spare_and_a_new_spare_starts(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate), spareMachines=1)
    status = ready_spares(jobs, 1)
    assert status["ready"] == "2/2" and set(jobs.pods("gpt")) == {"gpt-0", "gpt-1"}
    [spare] = jobs.spares("gpt").values()
    jobs.kubelet.process("gpt-1").kill()
    jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running",
              "the gang with its replacement")
    pod = json.loads(jobs.kubectl("get", "pod", "gpt-1-r2", "-o", "json"))
    preferred = pod["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"]
    assert {"weight": 100, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [spare["spec"]["nodeName"]]}]}} \
        in preferred
    ready_spares(jobs, 1)
    jobs.wait("gpt", lambda s: s["restarts"]["infrastructure"] == 1, "the loss to be counted")
    assert {each["metadata"]["uid"] for each in jobs.spares("gpt").values()} != {
        spare["metadata"]["uid"]}
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")
    wait_until(lambda: not jobs.spares("gpt"), "the spare to go with the job")


# Seconds that an image takes to come to a node; longer for the figure of docs/internals/benchmarks.md.
PULL = float(os.environ.get("LOCKSTEP_PULL_SECONDS", "10"))


@pytest.mark.parametrize("jobs", [PULL], indirect=True)
def test_replacement_of_lost_machine_with_a_spare_waits_for_no_image_pull(jobs, tmp_path):
    gate, lost_after = tmp_path / "gate", 6
    jobs.apply("gpt", UNTIL.format(gate=gate), spareMachines=1,
               failurePolicy={"machineLostAfter": f"{lost_after}s"})
    ready_spares(jobs, 1)
    began = time.monotonic()
    jobs.kubelet.process("gpt-1").send_signal(signal.SIGSTOP)  # its node stands still
    status = jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running",
                       "the gang with its replacement")
    took = time.monotonic() - began
    lost = {to: milliseconds / 2 for to, milliseconds in
            status["ledger"]["machineMilliseconds"].items() if to != "Productive"}
    print(f"silence to all ranks running: {took:.2f} s, machineLostAfter {lost_after} s, "
          f"an image in {PULL:g} s; milliseconds of the gang since its start: {lost}")
    assert lost_after * 0.8 < took < lost_after + PULL
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_number_of_spares_follows_the_spec_and_the_suspension_of_the_gang(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    before = jobs.pods("gpt")

    def patch(spec):
        jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", json.dumps({"spec": spec}))

    patch({"spareMachines": 2})
    ready_spares(jobs, 2)
    jobs.kubectl("delete", "pod", "gpt-spare0", "--wait=false")
    wait_until(lambda: set(jobs.spares("gpt")) == {"gpt-spare1", "gpt-spare2"}
               or set(jobs.spares("gpt")) == {"gpt-spare0", "gpt-spare1"}, "another spare")
    status = ready_spares(jobs, 2)
    assert status["restarts"]["total"] == 0 and jobs.pods("gpt") == before
    patch({"suspend": True})
    jobs.wait_state("gpt", "Suspended")
    wait_until(lambda: not jobs.spares("gpt"), "the spares to go with the gang")
    patch({"suspend": False, "spareMachines": 1})
    ready_spares(jobs, 1)
    patch({"spareMachines": 0})
    ready_spares(jobs, 0)
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_suspend_stops_all_ranks_with_sigterm_and_resume_starts_the_gang(jobs, tmp_path):
    saved, gate = tmp_path / "saved", tmp_path / "gate"
    saved.mkdir()
    armed = tmp_path / "armed"
    armed.mkdir()
    trap = f"trap 'touch {saved}/$RANK-$LOCKSTEP_EPOCH; exit 3' TERM; touch {armed}/$RANK; "
    jobs.apply("gpt", trap + UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    wait_until(lambda: len(list(armed.iterdir())) == 4, "the ranks' traps")
    jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    assert {each.name for each in pathlib.Path(saved).iterdir()} == {f"{r}-1" for r in range(4)}
    assert jobs.pods("gpt") == {}
    jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", '{"spec":{"suspend":false}}')
    status = jobs.wait_state("gpt", "Running")
    assert status["restarts"]["application"] == status["restarts"]["infrastructure"] == 0
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_scale_recreates_the_gang_at_the_new_size(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate) + '; echo "of $WORLD_SIZE"')
    jobs.wait_state("gpt", "Running")
    jobs.kubectl("scale", "tj", "gpt", "--replicas", "3")
    jobs.wait("gpt", lambda s: s["state"] == "Running" and s["ready"] == "3/3", "three machines")
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")
    wait_log(jobs, "gpt-2-r2", "of 6")


def test_replacement_of_a_drained_pod_is_not_charged(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate), failurePolicy={"maxMachineReplacements": 0})
    jobs.wait_state("gpt", "Running")
    jobs.kubectl("delete", "pod", "gpt-1", "--wait=false")
    status = jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running",
                       "the gang with its replacement")
    assert status["restarts"]["infrastructure"] == 0
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")


def test_gang_restarts_a_killed_rank_while_the_operator_is_down(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    jobs.operator.kill()
    jobs.operator.wait()
    victim = wait_until(lambda: ranks_of(jobs.kubelet.process("gpt-0").pid).get(1), "rank 1")
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: ranks_of(jobs.kubelet.process("gpt-0").pid).get(1) not in (None, victim),
               "rank 1 again")
    gate.touch()
    wait_until(lambda: jobs.kubelet.process("gpt-0").poll() == 0, "the verdict")
