"""The page of a job on a cluster, and of all jobs: on a real API server, in a real browser. No operator
runs here, so the tests write what it would have written."""

import datetime

import pytest
from cluster_here import Here, labels
from cluster_page import ClusterPage
from kubelet_logs import KubeletLogs
from kubernetes.client import EventsV1Api
from made_up import HOSTILE
from page_service import EVENTS, JOBS, PODS, PageService, make_viewer
from visibility_api import VisibilityApi

MACHINES = [{"index": index, "pod": f"gpt-{index}", "node": f"node-{index}", "state": state,
             "replacements": 0} for index, state in enumerate(("Running", "Starting"))]


def ago(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def text_of(page, selector):
    return page.locator(selector).inner_text()


@pytest.fixture
def here(installed, namespace, tmp_path):
    """A namespace with the job gpt, in whose texts everybody has written what they could."""
    made = Here(installed, namespace, tmp_path)
    made.run("submit", made.file(command=["python", HOSTILE]))
    made.set_status(
        state="Restarting", reason=f"waits for {HOSTILE}", gangGeneration="1-1", ready="2/2",
        machineStatuses=MACHINES, attempts=[{"attempt": 1, "machines": "0-1"}],
        timings={"created": ago(60), "started": ago(50), "firstStep": ago(48)},
        counters={"generations": 1},
        history=[{"generation": "1-1", "cause": "ProcessExit", "machine": 1, "detected": ago(5)}],
        lastFailure={"cause": "ProcessExit", "machine": 1, "rank": 3, "exitCode": 7,
                     "generation": "1-1", "message": f"rank 3 said {HOSTILE}", "stderr": HOSTILE},
        progress={"step": 120, "totalSteps": 1000, "lastUpdated": ago(6),
                  "metrics": [{"name": "loss", "value": "2.5"}]})
    job = made.job()
    EventsV1Api(installed.client()).create_namespaced_event(namespace, {
        "metadata": {"name": "gpt.1"}, "eventTime": ago(5), "type": "Warning", "note": HOSTILE,
        "reason": "RankFailed", "action": "Restart", "reportingInstance": "test",
        "reportingController": "lockstep.dev/operator",
        "regarding": {"apiVersion": job["apiVersion"], "kind": "TrainingJob", "name": "gpt",
                      "namespace": namespace, "uid": job["metadata"]["uid"]}})
    return made


def test_page_of_a_job_shows_state_time_machines_log_and_events_as_text(here, tmp_path, open_page):
    with KubeletLogs.on(here.cluster, tmp_path) as kubelet:
        for machine in range(2):
            kubelet.run(here.namespace, f"gpt-{machine}", labels(machine, 1))
            kubelet.write(f"gpt-{machine}", f"[m{machine} r{2 * machine}] hello {HOSTILE}")
        with ClusterPage(here.kubeconfig, "gpt", "-n", here.namespace) as server:
            opened = open_page(server.address)
            page = opened.page
            page.wait_for_selector("h1:has-text('Restarting: rank 3 said')")
            assert page.url == server.url and HOSTILE in text_of(page, "h1")
            assert HOSTILE in text_of(page, ".hero .words code")
            assert "2 machines × 2" in text_of(page, "header")
            figures = dict(each.split("\n")[:2] for each in page.locator(".figure").all_inner_texts())
            assert "120 / 1,000" in figures["progress"] and figures["loss"].startswith("2.5"), figures
            assert page.locator(".restarts tbody tr").count() == 1
            page.wait_for_selector(".log .line:has-text('hello')")
            page.wait_for_selector(".log .event:has-text('RankFailed')")
            page.keyboard.press("g")
            page.keyboard.press("ArrowRight")
            page.wait_for_selector(".pick:has-text('machine 0 on node-0')")
            page.keyboard.press("4")
            page.wait_for_selector("#panel td:has-text('Starting')")
            here.set_status(state="Succeeded", verdict={"generation": "1-1", "exitCode": 0})
            page.wait_for_selector("h1:has-text('Succeeded')")
            assert text_of(page, "[role=status]") == "ended"
            assert page.locator("main img, .log script").count() == 0
            assert page.title().endswith("gpt · Lockstep"), "no text of the job has run"
            assert opened.complaints == [] and opened.foreign(server.url) == []


def test_table_of_all_jobs_opens_a_job_and_the_way_back(here, open_page):
    here.run("submit", here.file("bert"))
    here.set_status("bert", state="Running", ready="2/2", progress={"step": 5, "totalSteps": 10})
    with ClusterPage(here.kubeconfig, "-n", here.namespace) as server:
        opened = open_page(server.address)
        page = opened.page
        page.wait_for_selector("h1:has-text('2 jobs, 1 running')")
        names = [row.split("\t")[0].strip() for row in page.locator("tbody tr").all_inner_texts()]
        assert names == ["gpt", "bert"], "the job that needs somebody comes first"
        assert HOSTILE in text_of(page, "tbody tr:first-child")
        page.keyboard.press("/")
        page.keyboard.type("bert")
        page.wait_for_selector("tbody tr:has-text('50.0%')")
        assert page.locator("tbody tr").count() == 1
        page.get_by_role("link", name="bert").click()
        page.wait_for_selector("h1:has-text('Running at step 5 of 10')")
        assert page.url.endswith(f"?job={here.namespace}%2Fbert")
        page.reload()
        page.wait_for_selector("h1:has-text('Running at step 5 of 10')")
        page.get_by_role("link", name="All jobs").click()
        page.wait_for_selector("h1:has-text('2 jobs')")
        assert opened.complaints == [] and opened.foreign(server.url) == []
        for size in ((390, 800), (1440, 900)):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            assert opened.overflow() <= 0, size


def test_a_waiting_job_shows_its_place_in_the_table_and_on_its_page(here, tmp_path, open_page):
    here.run("submit", here.file("bert"))
    here.cluster.kubectl("label", "tj", "bert", "kueue.x-k8s.io/queue-name=lq", "-n", here.namespace)
    here.set_status("bert", state="Queued", reason="waits for quota", epoch=0,
                    queue={"workload": "bert-1"})
    with VisibilityApi.on(here.cluster, tmp_path) as api:
        api.places[here.namespace, "lq"] = [("bert-1", 1, 6)]
        with ClusterPage(here.kubeconfig, "-n", here.namespace) as server:
            opened = open_page(server.address)
            page = opened.page
            page.wait_for_selector("tbody td:has-text('lq, place 2 (7 of the ClusterQueue)')")
            page.get_by_role("link", name="bert").click()
            page.wait_for_selector(
                ".hero:has-text('It waits in queue lq, place 2 (7 of the ClusterQueue).')")
            assert opened.complaints == [] and opened.foreign(server.url) == []


def test_a_person_logs_in_with_a_token_and_sees_what_it_may(here, open_page):
    token = make_viewer(here.cluster, here.namespace, JOBS, PODS, EVENTS)
    with PageService(here.cluster.kubeconfig, host="127.0.0.1") as service:
        url = f"http://127.0.0.1:{service.port}/"
        opened = open_page(url)
        page = opened.page
        page.wait_for_selector("h1:has-text('Log in to the cluster')")
        for size in ((390, 800), (1440, 900)):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            assert opened.overflow() <= 0, size
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector("p:has-text('The API server does not accept this token.')")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('1 job')")
        page.get_by_role("link", name="gpt").click()
        page.wait_for_selector("h1:has-text('Restarting: rank 3 said')")
        page.reload()
        page.wait_for_selector("h1:has-text('Restarting: rank 3 said')")
        page.get_by_role("link", name="All jobs").click()
        page.wait_for_selector("h1:has-text('1 job')")
        assert token not in page.url and token not in page.content()
        assert not any(token in request for request in opened.requests)
        # Another namespace, by the same token.
        page.goto(url + "?namespace=default")
        page.wait_for_selector("li:has-text('missing in namespace default')")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_selector("h1:has-text('Log in to the cluster')")
        assert page.get_by_label("Namespace").input_value() == "default"
        assert page.evaluate("sessionStorage.length + localStorage.length") == 0
        other = open_page(url).page
        other.wait_for_selector("h1:has-text('Log in to the cluster')")
        # Chromium writes each 401 to the console.
        assert all("401" in said for said in opened.complaints), opened.complaints
        assert opened.foreign(url) == [] and token not in service.said


def test_the_served_page_refuses_other_names_other_pages_and_frames(here, open_page):
    token = make_viewer(here.cluster, here.namespace, JOBS)
    with PageService(here.cluster.kubeconfig, host="127.0.0.1") as service, \
            PageService(here.cluster.kubeconfig, host="127.0.0.1") as foreign:
        url = f"http://127.0.0.1:{service.port}/"
        page = open_page(f"http://rebound.test:{service.port}/").page
        assert "has another name" in page.content()
        page = open_page(f"http://127.0.0.1:{foreign.port}/").page
        page.wait_for_selector("h1:has-text('Log in to the cluster')")
        assert page.evaluate("""([url, token]) => fetch(url + "api/view", {
            headers: {Authorization: `Bearer ${token}`}}).then(() => "read", () => "refused")""",
                             [url, token]) == "refused"
        page = open_page("data:text/html,<iframe src='" + url + "'></iframe>").page
        page.wait_for_load_state()
        assert len(page.frames) == 2 and page.frames[1].locator("#app").count() == 0
