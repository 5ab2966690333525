"""`kubectl lockstep ui --serve`, as the chart's `ui.enabled` runs it: one server, many people, a real API
server that judges each of them. The server itself is started with the rights of an administrator, of
which it must use none."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from cluster_here import Here
from page_service import EVENTS, JOBS, PODS, PageService, make_viewer
from waiting import wait_until

RUNNING = {"state": "Running", "ready": "2/2", "progress": {"step": 120, "totalSteps": 1000}}


@pytest.fixture
def teams(installed, tmp_path):
    """Two namespaces, with a job and a viewer's token each."""
    with installed.namespace("alpha") as alpha, installed.namespace("beta") as beta:
        made = []
        for namespace, job in ((alpha, "gpt"), (beta, "bert")):
            folder = tmp_path / namespace
            folder.mkdir()
            here = Here(installed, namespace, folder)
            here.run("submit", here.file(job))
            here.set_status(job, **RUNNING)
            here.token = make_viewer(installed, namespace, JOBS, PODS, EVENTS)
            made.append(here)
        yield made


def names(view):
    return {(row["namespace"], row["name"]) for row in view["fleet"]}


def test_two_people_see_their_own_jobs_alone(installed, teams):
    alpha, beta = teams
    with PageService(installed.kubeconfig) as service:
        for own, other, job, foreign in ((alpha, beta, "gpt", "bert"), (beta, alpha, "bert", "gpt")):
            view = service.wait(own.token, lambda view: view["fleet"], "the own jobs")
            assert names(view) == {(own.namespace, job)}
            assert "only namespace" in view["notes"][0] and "?namespace=NAME" in view["notes"][0]
            page = service.wait(own.token, lambda view: view["notes"], "the page of a job",
                                job=f"{own.namespace}/{job}")
            assert page["status"]["state"] == "Running" and page["job"]["name"] == job
            assert service.get("/api/view", own.token, job=f"{other.namespace}/{foreign}")[0] == 404
            denied = service.wait(own.token, lambda view: view["notes"], "the missing right",
                                  namespace=other.namespace)
            assert denied["fleet"] == []
            assert denied["notes"] == [
                "trainingjobs: list and watch is missing in namespace "
                f"{other.namespace}, so its jobs are not shown"]
            code, said = service.get("/api/view", own.token, namespace=other.namespace,
                                     job=f"{other.namespace}/{foreign}")
            assert code == 404, said
        # Each change comes to the one who may see it.
        version = service.view(alpha.token)["version"]
        alpha.set_status("gpt", **{**RUNNING, "state": "Restarting"})
        view = service.view(alpha.token, after=version)
        assert [row["state"] for row in view["fleet"]] == ["Restarting"]
        for token in (alpha.token, beta.token):
            assert token not in service.said and token[-16:] not in service.said


def test_a_token_is_needed_and_judged_and_the_name_too(installed, teams):
    alpha, _ = teams
    with PageService(installed.kubeconfig) as service:
        code, page = service.get("/")
        assert code == 200 and b"<html" in page and alpha.namespace.encode() not in page
        code, said = service.get("/api/view")
        assert code == 401 and said == {"error": "the page needs a token", "login": True}
        for wrong in ("wrong", alpha.token[:-8] + "AAAAAAAA", alpha.token + "A"):
            code, said = service.get("/api/view", wrong)
            assert code == 401 and said["login"] is True, said
            assert said["error"] == "the API server does not accept this token"
        for garbled in ("", "a b", "a\tb", "é", "x" * 40000):
            assert service.get("/api/view", garbled)[0] == 401, garbled[:10]
        for host in ("127.0.0.1", f"localhost:{service.port}", "evil.test", "page.test.evil.test"):
            assert service.get("/api/view", alpha.token, host=host)[0] == 421, host
            assert service.get("/", host=host)[0] == 421, host
        assert service.get("/api/view", alpha.token, host="PAGE.test:443")[0] == 200
        assert alpha.token not in service.said


def test_ranks_by_exec_are_a_sentence_that_names_the_command(installed, teams):
    alpha, _ = teams
    exec_ = ("", "pods/exec", "create")
    token = make_viewer(installed, alpha.namespace, JOBS, PODS, EVENTS, exec_, name="editor")
    with PageService(installed.kubeconfig) as service:
        service.wait(token, lambda view: view["fleet"], "the jobs")
        job = f"{alpha.namespace}/gpt"
        view = service.wait(token, lambda view: view["notes"], "the sentence", job=job)
        [note] = view["notes"]
        assert note.startswith("this server runs no `kubectl exec`") and "lockstep ui NAME" in note
        code, said = service.get("/api/stacks", token, job=job)
        assert code == 503 and said["error"] == note


def test_an_unreachable_api_server_lets_nobody_in(installed, teams, tmp_path):
    alpha, _ = teams
    config = json.loads(installed.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "nowhere").write_text(json.dumps(config))
    with PageService(tmp_path / "nowhere") as service:
        code, said = service.get("/api/view", alpha.token)
        assert code == 503 and "the API server does not answer" in said["error"], said
        assert "login" not in said


def test_six_jobs_at_once_open_four_pages_and_no_page_twice(installed, teams):
    alpha, _ = teams
    jobs = [f"job{number}" for number in range(6)]
    for job in jobs:
        alpha.run("submit", alpha.file(job))

    def made():
        """Each page of a job asks once whether exec is allowed."""
        metrics = installed.kubectl("get", "--raw", "/metrics")
        return sum(float(line.split()[-1]) for line in metrics.splitlines()
                   if line.startswith("apiserver_request_total{")
                   and 'resource="selfsubjectaccessreviews"' in line)

    with PageService(installed.kubeconfig) as service:
        service.wait(alpha.token, lambda view: len(view["fleet"]) == 7, "the jobs")
        before = made()

        def poll(job):
            answers = [service.get("/api/view", alpha.token, job=f"{alpha.namespace}/{job}")]
            for number in range(3):  # each change answers all that wait
                after = answers[-1][1].get("version", 0)
                answers.append(service.get("/api/view", alpha.token, after=after, id=f"{job}x{number}",
                                           job=f"{alpha.namespace}/{job}"))
            return answers

        with ThreadPoolExecutor(len(jobs) + 1) as pool:
            polls = [pool.submit(poll, job) for job in jobs]
            while not all(each.done() for each in polls):
                for job in jobs:
                    alpha.set_status(job, **RUNNING)
                    alpha.set_status(job, **{**RUNNING, "state": "Restarting"})
        answers = [each.result() for each in polls]
        assert all(len({code for code, _ in of_job}) == 1 for of_job in answers), answers
        refused = [of_job for of_job in answers if of_job[0][0] == 503]
        assert len(refused) == 2
        for code, said in refused[0] + refused[1]:
            assert code == 503 and "close another tab" in said["error"]
        assert made() - before == 4


def test_probes_have_a_port_of_their_own(installed, teams):
    alpha, _ = teams
    with PageService(installed.kubeconfig) as service:
        version = service.view(alpha.token)["version"]
        with ExitStack() as stack:
            for _ in range(300):  # more than the server has places for
                socket_ = stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
                socket_.sendall(f"GET /api/view?after={version} HTTP/1.1\r\nHost: page.test\r\n"
                                f"Authorization: Bearer {alpha.token}\r\n\r\n".encode())
            with urlopen(f"http://127.0.0.1:{service.health}/healthz", timeout=60) as answer:
                assert answer.read() == b"ok\n"


@pytest.mark.slow  # more than a minute: the time until a token is judged again
def test_a_token_that_is_no_longer_valid_ends_its_views(installed, teams):
    alpha, _ = teams
    with PageService(installed.kubeconfig) as service:
        service.wait(alpha.token, lambda view: view["fleet"], "the jobs")
        installed.kubectl("delete", "serviceaccount", "viewer", "-n", alpha.namespace)
        wait_until(lambda: service.get("/api/view", alpha.token)[0] == 401,
                   "the token to be refused", 180, 1)
