"""What a client sees of each fault, by Python's kubernetes client and a real API server."""

import asyncio
import contextlib
import threading
import time

import kubernetes
import pytest
import urllib3
from api_client import ApiServer
from api_proxy import ApiProxy, Certificate, Fault
from kubernetes.client import ApiException, Configuration, CoreV1Api
from waiting import wait_until

PATIENCE = 120


class Proxied:
    """A proxy on a loop of its own, and a client that goes through it and tries nothing twice."""

    def __init__(self, cluster, folder, namespace, faults):
        server = ApiServer.from_kubeconfig(cluster.kubeconfig)
        certificate = Certificate(folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.crashes, self.touched = [], []
        self.proxy = ApiProxy(server, certificate, faults, self)
        self.run(self.proxy.open())
        certificate.write_kubeconfig(folder / "kubeconfig", self.proxy.port, server.token,
                                     namespace)
        configuration = Configuration()
        configuration.retries = False
        kubernetes.config.load_kube_config(str(folder / "kubeconfig"),
                                           client_configuration=configuration)
        self.api = CoreV1Api(kubernetes.client.ApiClient(configuration))
        self.namespace = namespace

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def create(self, name):
        return self.api.create_namespaced_config_map(self.namespace, {"metadata": {"name": name}})

    def names(self):
        maps = self.api.list_namespaced_config_map(self.namespace).items
        return {each.metadata.name for each in maps} - {"kube-root-ca.crt"}

    def watch(self, seconds=PATIENCE):
        """(type, name) of each event."""
        stream = kubernetes.watch.Watch().stream(
            self.api.list_namespaced_config_map, self.namespace, resource_version="0",
            timeout_seconds=seconds, _request_timeout=seconds)
        for event in stream:
            if event["object"].metadata.name != "kube-root-ca.crt":
                yield event["type"], event["object"].metadata.name

    async def crash(self):
        self.crashes.append(time.monotonic())

    async def touch(self, path):
        self.touched.append(path)

    def close(self):
        self.run(self.proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def proxied(cluster, tmp_path, namespace):
    with contextlib.ExitStack() as stack:
        def make(*faults):
            made = Proxied(cluster, tmp_path, namespace, faults)
            stack.callback(made.close)
            return made

        yield make


def map_fault(do, **options):
    return Fault("POST", "configmaps", "broken", do=do, **options)


def test_proxy_without_fault_passes_and_records_every_write(proxied):
    it = proxied()
    it.create("one")
    it.api.patch_namespaced_config_map("one", it.namespace, {"data": {"key": "value"}})
    it.api.delete_namespaced_config_map("one", it.namespace)
    assert it.names() == set()
    writes = it.proxy.writes()
    assert [str(each.key) for each in writes] == [
        "POST configmaps one", "PATCH configmaps one", "DELETE configmaps one"]
    assert all(each.committed for each in writes)
    assert writes[1].answer["data"] == {"key": "value"}


@pytest.mark.parametrize("do, committed", [
    ("drop-before", False), ("drop-after", True), ("crash-before", False), ("crash-after", True)])
def test_drop_or_crash_fault_ends_call_before_or_after_commit(proxied, do, committed):
    it = proxied(map_fault(do))
    with pytest.raises(urllib3.exceptions.ProtocolError):
        it.create("broken")
    assert it.names() == ({"broken"} if committed else set())
    assert len(it.crashes) == do.startswith("crash")


@pytest.mark.parametrize("do, committed", [("answer", False), ("answer-after", True)])
def test_answer_fault_replaces_answer_of_server(proxied, do, committed):
    it = proxied(map_fault(do, status=429, retry_after=7))
    with pytest.raises(ApiException) as caught:
        it.create("broken")
    assert caught.value.status == 429 and caught.value.headers["Retry-After"] == "7"
    assert it.names() == ({"broken"} if committed else set())


def test_truncate_fault_cuts_body_short_of_content_length(proxied):
    it = proxied(map_fault("truncate"))
    with pytest.raises(urllib3.exceptions.ProtocolError):
        it.create("broken")
    assert it.names() == {"broken"}


def test_html_fault_answers_502_with_html_body(proxied):
    it = proxied(map_fault("html"))
    with pytest.raises(ApiException) as caught:
        it.create("broken")
    assert caught.value.status == 502 and "<html>" in caught.value.body


def test_fault_hits_only_configured_occurrences(proxied):
    it = proxied(Fault("POST", "configmaps", nth=2, times=2, do="answer", status=500))
    statuses = []
    for name in ("one", "two", "three", "four"):
        try:
            it.create(name)
            statuses.append(201)
        except ApiException as error:
            statuses.append(error.status)
    assert statuses == [201, 500, 500, 201]
    assert it.proxy.faults[0].fired == 2


def test_touch_fault_calls_touch_with_path_of_object(proxied):
    it = proxied(Fault("PUT", "configmaps", "one", do="touch"))
    made = it.create("one")
    it.api.replace_namespaced_config_map("one", it.namespace, made)
    assert it.touched == [f"/api/v1/namespaces/{it.namespace}/configmaps/one"]


def test_late_fault_delays_answer_of_server(proxied):
    it = proxied(Fault("GET", "configmaps", do="late", seconds=0.2))
    began = time.monotonic()
    assert it.names() == set()
    assert time.monotonic() - began >= 0.2


def test_stall_fault_ends_call_without_answer_or_commit(proxied):
    it = proxied(map_fault("stall", seconds=0.2))
    with pytest.raises(urllib3.exceptions.ProtocolError):
        it.create("broken")
    assert it.names() == set()


def event_fault(do, **options):
    return Fault("ADDED", "configmaps", "two", do=do, **options)


def watched_with(it):
    for name in ("one", "two", "three"):
        it.create(name)
    return it.watch()


def test_proxy_without_fault_passes_and_records_watch_events(proxied):
    it = proxied()
    events = it.watch()
    it.create("one")
    assert next(events) == ("ADDED", "one")
    it.api.delete_namespaced_config_map("one", it.namespace)
    assert next(events) == ("DELETED", "one")
    events.close()
    assert [str(key) for key in it.proxy.events if "kube" not in key.name] == [
        "ADDED configmaps one", "DELETED configmaps one"]


def test_cut_fault_ends_watch_before_event(proxied):
    it = proxied(event_fault("cut"))
    assert "two" not in [name for _, name in watched_with(it)]
    assert it.proxy.faults[0].fired == 1
    again = it.watch()
    assert {next(again)[1] for _ in range(3)} == {"one", "two", "three"}
    again.close()


def test_tear_fault_ends_watch_inside_line(proxied):
    it = proxied(event_fault("tear"))
    with pytest.raises((urllib3.exceptions.HTTPError, ValueError)):
        list(watched_with(it))
    assert it.proxy.faults[0].fired == 1


def test_twice_fault_repeats_event(proxied):
    it = proxied(event_fault("twice"))
    events = watched_with(it)
    assert sorted(next(events)[1] for _ in range(4)) == ["one", "three", "two", "two"]
    events.close()


def test_delay_fault_delays_event(proxied):
    it = proxied(event_fault("delay", seconds=1.0))
    started = time.monotonic()
    events = watched_with(it)
    assert len({next(events) for _ in range(3)}) == 3
    events.close()
    assert time.monotonic() - started >= 1.0


def test_silence_fault_keeps_watch_open_and_withholds_event(proxied):
    it = proxied(event_fault("silence"))
    for name in ("one", "two"):
        it.create(name)
    seen = []
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        for _, name in it.watch(seconds=2):
            seen.append(name)
    assert "two" not in seen


def test_gone_fault_sends_410_in_watch_stream(proxied):
    it = proxied(event_fault("gone", times=99))
    with pytest.raises(ApiException) as caught:
        list(watched_with(it))
    assert caught.value.status == 410


def test_proxy_listens_on_same_port_after_refusal(proxied):
    it = proxied()
    it.create("one")
    refusing = threading.Thread(target=lambda: it.run(it.proxy.refuse(5)))
    refusing.start()

    def refused():
        try:
            it.names()
        except urllib3.exceptions.HTTPError:
            return True
        return False

    wait_until(refused, "a refusal", PATIENCE)
    refusing.join()
    assert it.names() == {"one"}
