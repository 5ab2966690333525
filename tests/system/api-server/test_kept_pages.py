"""`kubectl lockstep ui --keep` and `--kept`, as the chart's `history.claim` runs them: one process keeps
the pages of jobs that end in a folder, another one shows them to who may see them. No operator runs
here, so the tests write what it would have written."""

import datetime
import json
import re

import pytest
import yaml
from cluster_here import Here, labels
from kubelet_logs import KubeletLogs, stamp
from page_process import PATIENCE, PageProcess
from page_service import EVENTS, JOBS, LOGS, PODS, PageService, make_viewer
from waiting import wait_until

FINISHED = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)).strftime(
    "%Y-%m-%dT%H:%M:%SZ")


class Keeper(PageProcess):
    """`kubectl lockstep ui --keep FOLDER`, with the rights that the chart gives it."""

    def __init__(self, cluster, namespace, folder, kubeconfig, *options):
        token = make_viewer(cluster, namespace, JOBS, PODS, LOGS, EVENTS, name="keeper")
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        kubeconfig.write_text(yaml.safe_dump(config))
        super().__init__(kubeconfig, "--keep", folder, "--keep-namespace", namespace, *options)
        self.wait("are kept from now on")

    def wait(self, sentence):
        self.wait_said(re.compile(re.escape(sentence)))


@pytest.fixture
def here(installed, namespace, tmp_path):
    """With the running job gpt."""
    made = Here(installed, namespace, tmp_path)
    made.run("submit", made.file())
    made.set_status(state="Running", ready="2/2", gangGeneration="1-1", counters={"generations": 1},
                    progress={"step": 120, "totalSteps": 1000})
    return made


@pytest.fixture
def kubelet(here, tmp_path):
    with KubeletLogs.on(here.cluster, tmp_path) as made:
        made.run(here.namespace, "gpt-0", labels(0, 1))
        made.write("gpt-0", "[m0 r0] the last words of rank 0")
        yield made


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    return folder


def end(here, kubelet, finished=FINISHED):
    kubelet.end(here.namespace, "gpt-0", exit_code=1)
    fail(here, finished)


def fail(here, finished=FINISHED):
    here.set_status(state="Failed", reason="rank 0 failed", timings={"finished": finished},
                    verdict={"generation": "1-1", "exitCode": 1, "cause": "ProcessExit"})


def test_page_of_a_deleted_job_is_shown_to_who_may_see_jobs_there(here, kubelet, pages, tmp_path):
    uid = here.job()["metadata"]["uid"]
    with Keeper(here.cluster, here.namespace, pages, tmp_path / "keeper") as keeper:
        for step in (200, 300):
            here.set_status(progress={"step": step, "totalSteps": 1000, "lastUpdated": stamp()})
        end(here, kubelet)
        keeper.wait(f"kept the page of gpt in namespace {here.namespace}")
    file = pages / here.namespace / f"gpt-{uid}.json"
    report = json.loads(file.read_text())
    assert report["view"]["status"]["state"] == "Failed" and not report["view"]["live"]
    here.cluster.kubectl("delete", "tj,pods", "--all", "-n", here.namespace, "--force")
    of_job = {"namespace": here.namespace, "job": f"{here.namespace}/gpt"}
    sees_all = make_viewer(here.cluster, here.namespace, JOBS, PODS, LOGS, EVENTS)
    no_logs = make_viewer(here.cluster, here.namespace, JOBS, name="without-logs")
    with here.cluster.namespace("other") as other, \
            PageService(here.cluster.kubeconfig, kept=pages) as service:
        foreign = make_viewer(here.cluster, other, JOBS, PODS, LOGS)
        view = service.wait(sees_all, lambda view: view["fleet"], "the kept job",
                            namespace=here.namespace)
        [row] = view["fleet"]
        assert (row["name"], row["state"], row["kept"]) == ("gpt", "Failed", True)
        page = service.view(sees_all, **of_job)
        assert page["status"]["reason"] == "rank 0 failed" and not page["live"]
        assert page["notes"][0] == f"this page was kept when the job ended, at {FINISHED}"
        assert page["series"]["step"][-2:] == [200, 300]
        assert [line["m"] for line in page["logs"]["0"]] == ["the last words of rank 0"]
        service.wait(no_logs, lambda view: view["fleet"], "the kept job", namespace=here.namespace)
        page = service.view(no_logs, **of_job)
        assert page["status"]["state"] == "Failed" and page["logs"] == {}
        assert page["events"]["items"] == []
        assert any("events: list is missing" in note for note in page["notes"])
        assert any("pods/log: get is missing" in note for note in page["notes"])
        service.wait(foreign, lambda view: view["notes"], "the missing right",
                     namespace=here.namespace)
        assert service.view(foreign, namespace=here.namespace)["fleet"] == []
        assert service.get("/api/view", foreign, **of_job)[0] == 404


def test_page_has_what_a_rank_prints_after_its_job_has_failed(here, kubelet, pages, tmp_path):
    """Its pod still runs then, and the stream of its log breaks."""
    with Keeper(here.cluster, here.namespace, pages, tmp_path / "keeper") as keeper:
        fail(here)
        wait_until(lambda: kubelet.requests, lambda: f"the log is read\n{keeper.said}", PATIENCE)
        kubelet.cut()
        kubelet.write("gpt-0", "[m0 r0] the very last words")
        kubelet.end(here.namespace, "gpt-0", exit_code=1)
        keeper.wait("kept the page of gpt")
    [file] = (pages / here.namespace).glob("gpt-*.json")
    lines = json.loads(file.read_text())["view"]["logs"]["0"]
    assert [line["m"] for line in lines] == ["the last words of rank 0", "the very last words"]


def test_page_that_cannot_be_written_is_said_and_kept_once_it_can(here, kubelet, pages, tmp_path):
    (pages / here.namespace).write_text("in the folder's place")
    with Keeper(here.cluster, here.namespace, pages, tmp_path / "keeper") as keeper:
        end(here, kubelet)
        keeper.wait(f"the page of gpt in namespace {here.namespace} is not kept: ")
        assert here.job()["status"]["state"] == "Failed"
    (pages / here.namespace).unlink()
    with Keeper(here.cluster, here.namespace, pages, tmp_path / "keeper") as keeper:
        keeper.wait("kept the page of gpt")


def test_the_newest_pages_of_a_namespace_stay(here, kubelet, pages, tmp_path):
    here.run("submit", here.file("bert"))
    here.set_status("bert", state="Succeeded", timings={"finished": stamp()},
                    verdict={"generation": "1-1", "exitCode": 0})
    end(here, kubelet)
    kept = pages / here.namespace
    for _ in range(2):  # the second keeper finds nothing to do
        with Keeper(here.cluster, here.namespace, pages, tmp_path / "keeper",
                    "--keep-jobs", "1") as keeper:
            wait_until(lambda: [file.name[:5] for file in kept.glob("*.json")] == ["bert-"],
                       lambda: f"{list(kept.glob('*'))}\n{keeper.said}", PATIENCE)
    assert "kept the page" not in keeper.said
