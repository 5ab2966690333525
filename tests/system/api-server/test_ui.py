"""`kubectl lockstep ui`: the page of a job on a real API server, as its server answers a browser. No
operator runs here, so the tests write what it would have written."""

import datetime
import json
import urllib.parse

import pytest
import yaml
from cluster_here import Here, labels
from cluster_page import ClusterPage, events, generations
from kubelet_logs import KubeletLogs
from kubernetes.client import EventsV1Api
from page_service import EVENTS, JOBS, LOGS, PODS, make_viewer
from proxy import Proxy
from visibility_api import VisibilityApi

MACHINES = [{"index": 0, "pod": "gpt-0", "node": "a", "state": "Running", "replacements": 0},
            {"index": 1, "pod": "gpt-1-r2", "node": "b", "state": "Starting", "replacements": 1}]


def ago(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.fixture
def here(installed, namespace, tmp_path):
    """With the job gpt, which was restarted once."""
    made = Here(installed, namespace, tmp_path)
    made.run("submit", made.file())
    made.set_status(
        state="Running", reason="", gangGeneration="1-2", ready="2/2", machineStatuses=MACHINES,
        attempts=[{"attempt": 1, "machines": "0"}, {"attempt": 2, "machines": "1"}],
        timings={"created": ago(60), "started": ago(50), "firstStep": ago(48)},
        counters={"generations": 2}, restarts={"total": 1, "application": 1, "infrastructure": 0,
                                               "stopped": 0},
        history=[{"generation": "1-1", "cause": "ProcessExit", "machine": 1, "detected": ago(20),
                  "respawned": ago(18), "firstStep": ago(17), "lostSteps": 4}],
        lastFailure={"cause": "ProcessExit", "machine": 1, "rank": 3, "exitCode": 7,
                     "generation": "1-1", "message": "rank 3 on machine 1 exited with code 7",
                     "stderr": "boom"},
        progress={"step": 120, "totalSteps": 1000, "metrics": [{"name": "loss", "value": "2.5"}],
                  "lastUpdated": ago(1)})
    return made


def record_event(here, name, reason, note):
    job = here.job()
    EventsV1Api(here.cluster.client()).create_namespaced_event(here.namespace, {
        "metadata": {"name": name}, "eventTime": ago(20), "type": "Warning", "reason": reason,
        "note": note, "action": "Restart", "reportingController": "lockstep.dev/operator",
        "reportingInstance": "test",
        "regarding": {"apiVersion": job["apiVersion"], "kind": "TrainingJob", "name": "gpt",
                      "namespace": here.namespace, "uid": job["metadata"]["uid"]}})


def page_of(here, *arguments, **options):
    return ClusterPage(here.kubeconfig, "gpt", "-n", here.namespace, *arguments, **options)


def test_page_shows_the_status_its_history_and_events_and_each_change(here):
    record_event(here, "gpt.1", "RankFailed", "rank 3 on machine 1 exited with code 7")
    with page_of(here) as page:
        view = page.view()
        assert view["job"]["name"] == "gpt" and f"namespace {here.namespace} " in view["job"]["where"]
        assert view["status"]["state"] == "Running" and view["live"] and view["gang"] is None
        assert view["machines"]["state"] == ["Running", "Starting"]
        assert view["machines"]["attempt"] == [1, 2] and view["job"]["nodes"] == ["a", "b"]
        first, second = generations(view)
        assert (first["generation"], second["generation"]) == ("1-1", "1-2")
        assert first["failure"]["message"] == "rank 3 on machine 1 exited with code 7"
        assert first["respawn"]["seconds"] == pytest.approx(2, abs=0.1)
        assert first["spawned"] < first["firstStep"] < first["ended"] < second["spawned"] < view["now"]
        assert view["series"]["loss"] == [2.5] and view["series"]["step"] == [120]
        assert events(view) == ["RankFailed: rank 3 on machine 1 exited with code 7"]
        here.set_status(state="Restarting", reason="machine 1 fell silent")
        code, later = page.get(f"/api/view?after={view['version']}")
        assert code == 200 and later["status"]["state"] == "Restarting"
        here.set_status(state="Succeeded", verdict={"generation": "1-2", "exitCode": 0},
                        timings={"finished": ago(0)})
        ended = page.wait(lambda view: not view["live"], "the end")
        assert ended["exitCode"] == 0
        assert any("pods of this job are gone" in note for note in ended["notes"])
        assert page.get("/api/view", job="other/gpt")[0] == 404
    with page_of(here) as page:  # its first answer is whole, because a page asks no more after it
        view = page.view()
        assert not view["live"] and len(events(view)) == 1 and len(generations(view)) == 2


def test_missing_job_and_refused_options_end_the_command(here):
    _, err = here.run("ui", "gtp", code=3)
    assert 'did you mean "gpt"?' in err
    _, err = here.run("ui", "gpt", "--html", "x.html", code=2)
    assert "--html excludes --port" in err or "--html needs a report" in err


@pytest.fixture
def kubelet(here, tmp_path):
    with KubeletLogs.on(here.cluster, tmp_path) as made:
        yield made


def log(page, query="", **options):
    return [(line["r"], line.get("s"), line["m"])
            for line in page.ask(f"/api/log?after=0{query}", **options)["lines"]]


def test_logs_are_read_by_rank_followed_and_there_at_once_after_the_end(here, kubelet):
    for machine in range(2):
        kubelet.run(here.namespace, f"gpt-{machine}", labels(machine, 1))
        for rank in (2 * machine, 2 * machine + 1):
            kubelet.write(f"gpt-{machine}", f"[m{machine} r{rank}] hello from {rank}")
    kubelet.write("gpt-1", "[m1 r3 err] <script>last words</script>")
    last = (3, "err", "<script>last words</script>")
    with page_of(here) as page:
        page.view()
        page.wait(lambda _: log(page, "&rank=3") == [(3, "out", "hello from 3"), last], "rank 3")
        assert {pod for pod, _ in kubelet.requests} == {"gpt-1"}, "no other machine's log is read"
        page.wait(lambda _: len(log(page)) == 5, "all ranks")
        kubelet.cut()
        kubelet.write("gpt-0", "[m0 r1] behind the break")
        page.wait(lambda _: log(page, "&rank=1")[-1:] == [(1, "out", "behind the break")],
                  "the line behind the break")
        code, said = page.get("/api/log?after=0&rank=4")
        assert code == 404 and "has ranks 0 to 3" in said["error"]
    for machine in range(2):
        kubelet.end(here.namespace, f"gpt-{machine}", exit_code=0)
    here.set_status(state="Succeeded")
    with page_of(here) as page:
        assert not page.view()["live"]
        assert log(page, "&rank=3")[-1] == last


# ---- what is not allowed, and what does not answer ----


def act_as(here, tmp_path, *allowed):
    """A user with these rights alone in the namespace."""
    token = make_viewer(here.cluster, here.namespace, *allowed)
    config = yaml.safe_load(here.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    here.kubeconfig = tmp_path / "viewer.kubeconfig"
    here.kubeconfig.write_text(yaml.safe_dump(config))


def test_user_with_view_rights_sees_the_page_and_which_right_is_missing(here, kubelet, tmp_path):
    kubelet.run(here.namespace, "gpt-0", labels(0, 1))
    kubelet.write("gpt-0", "[m0 r0] hello")
    record_event(here, "gpt.1", "RankFailed", "rank 3 failed")
    act_as(here, tmp_path, JOBS, PODS, LOGS, EVENTS)
    missing = (f"pods/exec: create is missing in namespace {here.namespace}, so per-rank progress "
               "and stacks are not shown")
    with page_of(here) as page:
        view = page.view()
        assert view["notes"] == [missing]
        assert view["status"]["state"] == "Running" and len(events(view)) == 1
        page.wait(lambda _: log(page, "&rank=0") == [(0, "out", "hello")], "the log")
        code, said = page.get("/api/stacks?rank=0")
        assert code == 503 and said["error"] == missing


def test_each_missing_right_hides_its_part_alone(here, tmp_path):
    act_as(here, tmp_path, JOBS)
    with page_of(here) as page:
        view = page.view()
        assert [note.split(" is missing")[0] for note in view["notes"]] == [
            "events: list", "pods/exec: create", "pods: list"]
        assert view["status"]["state"] == "Running" and view["machines"]["state"][0] == "Running"


def test_an_api_server_that_is_gone_is_a_sentence_until_it_is_back(here, tmp_path):
    config = yaml.safe_load(here.cluster.kubeconfig.read_text())
    server = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
    proxy = Proxy(("127.0.0.1", 0), (server.hostname, server.port))
    try:
        config["clusters"][0]["cluster"]["server"] = f"https://{proxy.address}"
        here.kubeconfig = tmp_path / "proxied.kubeconfig"
        here.kubeconfig.write_text(yaml.safe_dump(config))
        with page_of(here) as page:
            assert page.view()["heard"] is None
            proxy.redirect(("127.0.0.1", 1))
            proxy.reset()
            view = page.wait(lambda view: any("no answer from https://" in note
                                              for note in view.get("notes", [])), "the sentence")
            assert view["heard"] is not None and view["status"]["state"] == "Running"
            proxy.redirect((server.hostname, server.port))
            here.set_status(state="Restarting")
            view = page.wait(lambda view: view["status"]["state"] == "Restarting", "the change")
            assert view["heard"] is None and not any("no answer" in note for note in view["notes"])
    finally:
        proxy.close()


def test_deleted_job_leaves_its_last_state(here):
    with page_of(here) as page:
        page.view()
        here.cluster.kubectl("delete", "tj", "gpt", "-n", here.namespace, "--cascade=background")
        view = page.wait(lambda view: not view["live"], "the end")
        assert any("was deleted" in note for note in view["notes"])
        assert json.dumps(view["machines"]["state"]) == '["Running", "Starting"]'


# ---- all jobs ----


def rows(view):
    return {row["name"]: row for row in view["fleet"]}


def test_without_a_name_the_page_has_a_row_for_each_job_and_opens_one(here):
    here.run("submit", here.file("bert"))
    here.set_status("bert", state="Queued", reason="waits for quota", epoch=0)
    with ClusterPage(here.kubeconfig, "-n", here.namespace) as page:
        view = page.view()
        assert set(rows(view)) == {"gpt", "bert"} and view["notes"] == []
        gpt = rows(view)["gpt"]
        assert (gpt["state"], gpt["step"], gpt["totalSteps"], gpt["restarts"], gpt["ready"]) == (
            "Running", 120, 1000, 1, "2/2")
        assert rows(view)["bert"]["reason"] == "waits for quota"
        opened = page.view(f"{here.namespace}/gpt")
        assert opened["status"]["state"] == "Running" and len(generations(opened)) == 2
        assert page.get("/api/view", job=f"{here.namespace}/gtp")[0] == 404
        assert page.get("/api/view", job="../../gpt")[0] == 404
        here.set_status("bert", state="Failed", reason="rank 1 failed")
        here.cluster.kubectl("delete", "tj", "gpt", "-n", here.namespace, "--cascade=background")
        page.wait(lambda view: set(rows(view)) == {"bert"}
                  and rows(view)["bert"]["state"] == "Failed", "the change and the end")


def test_all_jobs_are_those_of_the_namespaces_that_the_user_may_list(here, tmp_path):
    everywhere = here.kubeconfig
    with ClusterPage(everywhere) as page:
        assert (here.namespace, "gpt") in {(row["namespace"], row["name"])
                                           for row in page.view()["fleet"]}
    act_as(here, tmp_path, JOBS)
    config = yaml.safe_load(here.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = here.namespace
    here.kubeconfig.write_text(yaml.safe_dump(config))
    with ClusterPage(here.kubeconfig) as page:
        view = page.wait(lambda view: view["fleet"], "the jobs of the own namespace")
        assert {row["namespace"] for row in view["fleet"]} == {here.namespace}
        assert view["notes"] == [
            "trainingjobs: list is missing in the cluster, and so is namespaces: list; only "
            f"namespace {here.namespace} is shown: name another with -n"]
    names = {"name": f"namespaces-{here.namespace}"}
    here.cluster.kubectl("create", "clusterrole", names["name"], "--verb=list", "--resource=namespaces")
    here.cluster.kubectl("create", "clusterrolebinding", names["name"],
                         f"--clusterrole={names['name']}",
                         f"--serviceaccount={here.namespace}:viewer")
    try:
        with ClusterPage(here.kubeconfig) as page:
            view = page.wait(lambda view: view["fleet"], "the jobs of the namespaces that it may list")
            assert {row["namespace"] for row in view["fleet"]} == {here.namespace}
            assert view["notes"] == []
    finally:
        for kind in ("clusterrole", "clusterrolebinding"):
            here.cluster.kubectl("delete", kind, names["name"])


# ---- places in a queue ----

QUEUE = "kueue.x-k8s.io/queue-name"
PLACES = ("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", "get")


def queue_job(here, name, workload):
    if here.job(name) is None:
        here.run("submit", here.file(name))
    here.cluster.kubectl("label", "tj", name, f"{QUEUE}=lq", "-n", here.namespace, "--overwrite")
    here.set_status(name, state="Queued", reason="waits for quota", epoch=0,
                    queue={"workload": workload})


def test_waiting_jobs_have_their_places_in_the_queue(here, tmp_path):
    queue_job(here, "gpt", "gpt-1")
    queue_job(here, "bert", "bert-1")
    act_as(here, tmp_path, JOBS, PODS, EVENTS, PLACES)
    arguments = here.kubeconfig, "-n", here.namespace
    with ClusterPage(*arguments) as page:
        missing = page.wait(lambda view: view["notes"], "the sentence")["notes"]
        assert ["no visibility.kueue.x-k8s.io/v1beta2" in note for note in missing] == [True]
        assert rows(page.view())["gpt"]["queue"] == "lq" and "place" not in rows(page.view())["gpt"]
    with VisibilityApi.on(here.cluster, tmp_path) as api:
        api.places[here.namespace, "lq"] = [("other", 0, 0), ("gpt-1", 1, 4), ("bert-1", 2, 5)]
        with ClusterPage(*arguments) as page:
            known = rows(page.wait(lambda view: "place" in rows(view)["gpt"], "the places"))
            assert [(known[name]["place"], known[name]["placeInClusterQueue"])
                    for name in ("gpt", "bert")] == [(2, 5), (3, 6)]
            job = f"{here.namespace}/gpt"
            view = page.wait(lambda view: "place" in (view.get("queue") or {}), "the job's place", job)
            assert view["queue"] == {"name": "lq", "place": 2, "placeInClusterQueue": 5}
            api.places[here.namespace, "lq"] = [("bert-1", 0, 0)]
            here.set_status("gpt", state="Running", queue={"workload": "gpt-1"})
            view = page.wait(lambda view: view["status"]["state"] == "Running", "the start", job)
            assert view["queue"] is None
            page.wait(lambda view: rows(view)["bert"]["place"] == 1
                      and "place" not in rows(view)["gpt"], "the next in the queue")
        act_as(here, tmp_path, JOBS, PODS, EVENTS)
        with ClusterPage(here.kubeconfig, "bert", "-n", here.namespace) as page:
            view = page.wait(lambda view: len(view["notes"]) == 2, "the missing right")
            assert view["notes"][1] == (
                f"localqueues/pendingworkloads: get is missing in namespace {here.namespace}, so "
                "places in its queues are not shown")
            assert view["queue"] == {"name": "lq"}
