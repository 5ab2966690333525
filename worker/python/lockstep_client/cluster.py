"""Jobs on a cluster, by the official package `kubernetes`."""

from __future__ import annotations

import calendar
import contextlib
import getpass
import json
import queue
import re
import threading
import time
import uuid
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, cast

from lockstep_client.errors import (
    ClusterError,
    JobInvalid,
    JobStopped,
    MissingProgram,
    NotFound,
    Unsupported,
)
from lockstep_client.job import Job
from lockstep_client.packages import need
from lockstep_client.runs import ENDED, Deadline, Event, Run
from lockstep_client.status import Status
from lockstep_client.view import Live

GROUP, VERSION, PLURAL = "lockstep.dev", "v1alpha1", "trainingjobs"
CONTAINER = "worker"
REQUEST_SECONDS = 30.0  # for each request
_WATCH_SECONDS = 20  # for each watch; a broken connection costs no more
_PATIENCE_SECONDS = 300.0  # that a wait goes on without an API server
_AGAIN_SECONDS = 1.0
_CLOCKS_SECONDS = 60  # by which a node's clock may differ
_LOOK_SECONDS = 0.5  # between two looks at a job whose logs are followed
_MOST_FOLLOWED = 128  # machines whose logs are followed at once; each takes a connection
_PREFIX = re.compile(r"\[m(\d+) r(\d+)\] ?")
_STAMP = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(?:\.(\d{1,9}))?"
                    r"(?:Z|([+-])(\d\d):(\d\d))$")
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def submit(job: Job, *, namespace: Optional[str] = None, kubeconfig: Optional[str] = None,
           context: Optional[str] = None) -> ClusterRun:
    """Creates a job on a cluster, and returns as soon as the API server has stored it.

        run = lockstep.submit(job, namespace="research")
        for line in run.logs(rank=0, follow=True):
            print(line)

    namespace: else that of the job, then of the kubeconfig's context. kubeconfig: a file; else
    $KUBECONFIG or ~/.kube/config, in a pod its service account. context: of the kubeconfig.

    The job lives on after this process. `attach` finds it again. Raises JobInvalid if Lockstep's
    rules refuse it, ClusterError if the API server does, or if a job of that name exists.
    """
    if not isinstance(job, Job):
        raise TypeError(f"submit() takes a lockstep.Job, not {type(job).__name__}")
    try:
        for text in job.validate("cluster"):
            warnings.warn(f"job {job.name}: {text}", stacklevel=2)
    except MissingProgram:
        pass  # the API server knows the same rules
    if namespace and job.namespace and namespace != job.namespace:
        raise JobInvalid([f"metadata.namespace: is {job.namespace}, but namespace={namespace!r} "
                          "was asked for"])
    api = _Api.of(kubeconfig, context, namespace or job.namespace)
    made = api.create(job.manifest())
    return ClusterRun(job, api, str(made["metadata"]["uid"]))


def attach(name: str, *, namespace: Optional[str] = None, kubeconfig: Optional[str] = None,
           context: Optional[str] = None) -> ClusterRun:
    """The run of a job that is on a cluster already. The arguments are those of submit().

    Raises NotFound and ClusterError.
    """
    api = _Api.of(kubeconfig, context, namespace)
    found = api.read(name)
    return ClusterRun(Job.from_manifest(found, strict=False), api, str(found["metadata"]["uid"]))


class ClusterRun(Run):
    """A job on a cluster. lockstep.submit() and lockstep.attach() make it."""

    def __init__(self, job: Job, api: _Api, uid: str) -> None:
        super().__init__(job)
        self._api, self.uid = api, uid

    @property
    def namespace(self) -> str:
        """The namespace in which the job is."""
        return self._api.namespace

    @property
    def status(self) -> Status:
        """The job's status. Raises NotFound once the job is deleted."""
        return _status_of(self._read())

    def _read(self) -> Dict[str, Any]:
        found = self._api.read(self.name)
        if found["metadata"]["uid"] != self.uid:
            raise NotFound(f"job {self.name} was deleted, and another job has its name now")
        return found

    def _wait(self, deadline: Deadline, live: Live) -> Status:
        try:
            for found in self._follow(deadline):
                status = _status_of(found)
                live.show(self.name, lambda: status, last=status.state in ENDED)
                verdict = self._verdict(status)
                if verdict is not None:
                    return verdict
        except NotFound:
            pass
        raise JobStopped(f"job {self.name} was deleted before it ended")

    def _follow(self, deadline: Deadline) -> Iterator[Dict[str, Any]]:
        """The object now and after each change. Raises NotFound once it is deleted."""
        answered = time.monotonic()
        while True:
            try:
                found = self._read()
                yield found
                answered = time.monotonic()
                version = found["metadata"]["resourceVersion"]
                seconds = deadline.left(_WATCH_SECONDS)
                for kind, each in self._api.watch(self.name, version, seconds):
                    if kind == "DELETED":
                        break
                    if each["metadata"]["uid"] == self.uid:
                        yield each
            except _NoAnswer:
                if time.monotonic() - answered > _PATIENCE_SECONDS:
                    raise
                time.sleep(deadline.left(_AGAIN_SECONDS))

    def logs(self, rank: Optional[int] = None, machine: Optional[int] = None,
             follow: bool = False, timeout: Optional[float] = None) -> Iterator[str]:
        """The lines that the processes printed; see Run.logs.

        They are those of each machine's current pod. `follow` goes on behind the last line after a
        broken connection, and with the new pod after a replacement. It follows at most 128
        machines at once. If lines don't name their rank (`logs.format` Raw or Json, `launch`
        PerMachine), `rank` gives all lines of its machine.
        """
        return super().logs(rank, machine, follow, timeout)

    def _logs(self, rank: Optional[int], machine: Optional[int], follow: bool,
              deadline: Deadline) -> Iterator[Optional[str]]:
        self.job = Job.from_manifest(self._read(), strict=False)  # somebody may have scaled it
        wanted = self._machine_of(rank, machine)
        machines = range(self.job.machines or 1) if wanted is None else [wanted]
        if follow and len(machines) > _MOST_FOLLOWED:
            raise Unsupported(f"the logs of {len(machines)} machines are too many to follow at "
                              f"once; name a machine or a rank (at most {_MOST_FOLLOWED} machines)")
        lines = self._lines(list(machines), follow, deadline)
        form = (self.job.logs.format if self.job.logs else None) or "Prefix"
        named = form == "Prefix" and self.job.launch != "PerMachine"
        return _of_rank(lines, rank) if rank is not None and named else lines

    def _lines(self, machines: List[int], follow: bool,
               deadline: Deadline) -> Iterator[Optional[str]]:
        if not follow:
            pods = self._api.pods_of(self.name)
            for each in machines:
                if each in pods and pods[each].began:  # else the kubelet refuses the request
                    yield from self._api.log(pods[each].name)
            return
        with contextlib.ExitStack() as stack:
            lookout = _Lookout(self)
            followers = [_Follower(self, lookout, each) for each in machines]
            merged: queue.Queue[Any] = queue.Queue(maxsize=1000)
            for follower in followers:
                stack.callback(follower.stop)
                follower.start(merged)
            running = len(followers)
            while running:
                try:
                    item = merged.get(timeout=deadline.left(_AGAIN_SECONDS))
                except queue.Empty:
                    yield None
                    continue
                if isinstance(item, str):
                    yield item
                elif item is None:
                    running -= 1
                else:
                    raise item

    def events(self) -> List[Event]:
        """The Kubernetes events of the job, the oldest first. A cluster keeps them for an hour."""
        return self._api.events(self.name, self.uid)

    def suspend(self) -> None:
        """Stops the processes with their grace period, and gives the machines back."""
        self._change({"suspend": True})

    def resume(self) -> None:
        """Continues the job from its last checkpoint, once it has machines again."""
        self._change({"suspend": False})

    def restart(self, reason: str = "", at_commit: bool = False) -> None:
        """Asks for a new generation on the same pods; see Run.restart."""
        if self._read()["spec"].get("suspend"):
            raise Unsupported(f"job {self.name} is suspended; resume() starts it")
        self._change({"restartRequest": {  # what is None is removed: no earlier reason stays
            "id": uuid.uuid4().hex, "reason": reason or None, "requestedBy": _user(),
            "atCommit": at_commit or None}})

    def scale(self, machines: int) -> None:
        """Changes how many machines the job has. The gang restarts from its last checkpoint."""
        self._change({"numMachines": machines})

    def _change(self, spec: Dict[str, Any]) -> None:
        found = self._read()
        state = _status_of(found).state
        if state in ENDED:
            raise Unsupported(f"job {self.name} has ended ({state})")
        changed = {**found, "spec": _merged(found["spec"], spec)}
        with contextlib.suppress(MissingProgram):  # as `lockstep scale` does
            Job.from_manifest(changed, strict=False).validate("cluster")
        version = {"uid": self.uid, "resourceVersion": found["metadata"]["resourceVersion"]}
        patched = self._api.patch(self.name, {"metadata": version, "spec": spec})
        self.job = Job.from_manifest(patched, strict=False)

    def delete(self, timeout: float = 300.0) -> None:
        """Deletes the job, and returns once it and its pods are gone. `timeout`: in seconds."""
        deadline = Deadline(timeout, f"the end of job {self.name}")
        with contextlib.suppress(NotFound):
            self._api.delete(self.name, self.uid)
            while True:
                self._read()
                time.sleep(deadline.left(0.2))
        while self._api.has_pods(self.name, self.uid):
            time.sleep(deadline.left(0.5))


def _merged(old: Dict[str, Any], change: Dict[str, Any]) -> Dict[str, Any]:
    """What a JSON merge patch makes of it (RFC 7386)."""
    merged = dict(old)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[name] = value
    return merged


class _NoAnswer(ClusterError):
    """The same request may succeed a little later."""


class _Pod(NamedTuple):
    name: str
    attempt: int
    began: bool  # whether its container has a log
    ended: bool  # whether that log is complete


class _Lookout:
    """Looks at the job and its pods for all followers: many of them ask no more than one."""

    def __init__(self, run: ClusterRun) -> None:
        self._run, self._lock = run, threading.Lock()
        self._looked = -_LOOK_SECONDS
        self._ended, self._pods = False, cast(Dict[int, _Pod], {})

    def look(self, machine: int) -> Tuple[bool, Optional[_Pod]]:
        """Whether the job has ended, and the machine's newest pod, at most half a second old."""
        with self._lock:
            if time.monotonic() >= self._looked + _LOOK_SECONDS:
                try:  # before the look at the pods: then no pod comes after it
                    self._ended = self._run.status.state in ENDED
                except NotFound:
                    self._ended = True
                self._pods = self._run._api.pods_of(self._run.name)
                self._looked = time.monotonic()
            return self._ended, self._pods.get(machine)


class _Follower:
    """Follows the logs of one machine in a thread of its own."""

    def __init__(self, run: ClusterRun, lookout: _Lookout, machine: int) -> None:
        self._run, self._lookout, self._machine = run, lookout, machine
        self._stop = threading.Event()
        self._response: Optional[Any] = None

    def start(self, lines: queue.Queue[Any]) -> None:
        threading.Thread(target=self._follow, args=(lines,), daemon=True,
                         name=f"log of {self._run.name}-{self._machine}").start()

    def stop(self) -> None:
        self._stop.set()
        response = self._response
        if response is not None:
            with contextlib.suppress(Exception):
                response.shutdown()  # wakes the thread that reads it

    def _put(self, lines: queue.Queue[Any], item: Any) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                lines.put(item, timeout=_AGAIN_SECONDS)
                return

    def _follow(self, lines: queue.Queue[Any]) -> None:
        try:
            for line in self._all():
                self._put(lines, line)
        except Exception as error:  # it is the reader's to see
            self._put(lines, error)
        else:
            self._put(lines, None)

    def _all(self) -> Iterator[str]:
        name, last, complete = "", 0, False
        answered = time.monotonic()
        while not self._stop.is_set():
            try:
                ended, pod = self._lookout.look(self._machine)
                answered = time.monotonic()
                if pod is not None and pod.name != name:
                    name, last, complete = pod.name, 0, False
                if pod is not None and pod.began and not complete:
                    for stamp, text in self._run._api.follow_log(name, last, self._opened):
                        last, answered = stamp, time.monotonic()
                        yield text
                    complete = pod.ended
                if ended:
                    return
            except _NoAnswer:
                if time.monotonic() - answered > _PATIENCE_SECONDS:
                    raise
            self._stop.wait(_LOOK_SECONDS)

    def _opened(self, response: Any) -> None:
        self._response = response


def _of_rank(lines: Iterator[Optional[str]], rank: int) -> Iterator[Optional[str]]:
    """The rank's lines, and None for each other line."""
    for line in lines:
        found = _PREFIX.match(line or "")
        yield line[found.end():] if line and found and int(found[2]) == rank else None


def _status_of(found: Mapping[str, Any]) -> Status:
    return Status.from_dict(found.get("status") or {})


class _Api:
    """The requests, each with a timeout, and with this package's exceptions."""

    def __init__(self, kubernetes: Any, client: Any, namespace: str) -> None:
        self._kubernetes, self.namespace = kubernetes, namespace
        self._objects = kubernetes.client.CustomObjectsApi(client)
        self._core = kubernetes.client.CoreV1Api(client)

    @classmethod
    def of(cls, kubeconfig: Optional[str], context: Optional[str],
           namespace: Optional[str]) -> _Api:
        kubernetes = need("kubernetes", "kubernetes", "a job on a cluster")
        config = kubernetes.config
        try:
            client = config.new_client_from_config(config_file=kubeconfig, context=context)
            _, active = config.list_kube_config_contexts(config_file=kubeconfig)
            if context:
                active = next(each for each in config.list_kube_config_contexts(
                    config_file=kubeconfig)[0] if each["name"] == context)
            default = active["context"].get("namespace")
        except config.ConfigException as error:
            if kubeconfig or context:
                raise ClusterError(f"the kubeconfig cannot be used: {error}") from None
            client, default = cls._in_cluster(kubernetes, error)
        return cls(kubernetes, client, namespace or default or "default")

    @staticmethod
    def _in_cluster(kubernetes: Any, why: Exception) -> Tuple[Any, Optional[str]]:
        configuration = kubernetes.client.Configuration()
        try:
            kubernetes.config.load_incluster_config(client_configuration=configuration)
            with open(_SERVICE_ACCOUNT, encoding="utf-8") as file:
                namespace = file.read().strip()
        except (kubernetes.config.ConfigException, OSError):
            raise ClusterError(f"no cluster is known: {why}; name a kubeconfig, or set KUBECONFIG"
                               ) from None
        return kubernetes.client.ApiClient(configuration), namespace

    def _call(self, what: str, method: Callable[..., Any], *arguments: Any,
              seconds: float = REQUEST_SECONDS, **options: Any) -> Any:
        try:
            return method(*arguments, _request_timeout=(10.0, seconds), **options)
        except self._kubernetes.client.ApiException as error:
            raise _error_of(what, error) from None
        except (_http_error(), OSError) as error:
            raise _NoAnswer(f"{what}: no answer from the API server: {error}") from None

    def _object(self, what: str, method: Callable[..., Any], *arguments: Any,
                **options: Any) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._call(what, method, GROUP, VERSION, self.namespace, PLURAL,
                                               *arguments, **options))

    def create(self, manifest: Dict[str, Any]) -> Dict[str, Any]:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}
        return self._object(f"job {manifest['metadata']['name']}",
                            self._objects.create_namespaced_custom_object, manifest)

    def read(self, name: str) -> Dict[str, Any]:
        return self._object(f"job {name}", self._objects.get_namespaced_custom_object, name)

    def patch(self, name: str, change: Dict[str, Any]) -> Dict[str, Any]:
        return self._object(f"job {name}", self._objects.patch_namespaced_custom_object, name,
                            change)

    def delete(self, name: str, uid: str) -> None:
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        self._object(f"job {name}", self._objects.delete_namespaced_custom_object, name,
                     body=options)

    def watch(self, name: str, version: str, seconds: float
              ) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """(kind, object) of each change since `version`, for at most `seconds`."""
        watching = self._kubernetes.watch.Watch()
        whole = max(1, int(seconds))
        try:
            for event in watching.stream(
                    self._objects.list_namespaced_custom_object, GROUP, VERSION, self.namespace,
                    PLURAL, field_selector=f"metadata.name={name}", resource_version=version,
                    timeout_seconds=whole, _request_timeout=(10.0, whole + 10.0)):
                yield event["type"], event["object"]
        except self._kubernetes.client.ApiException as error:
            if error.status != 410:  # too old a version: the next look begins anew
                raise _error_of(f"job {name}", error) from None
        except (_http_error(), OSError, json.JSONDecodeError) as error:
            raise _NoAnswer(f"job {name}: the watch broke: {error}") from None
        finally:
            watching.stop()

    def has_pods(self, name: str, uid: str) -> bool:
        """Whether pods of this very job are left, spares included."""
        found = self._call(f"pods of job {name}", self._core.list_namespaced_pod, self.namespace,
                           label_selector=f"lockstep.dev/job in ({name},{name}.spare)")
        return any(owner.uid == uid for pod in found.items
                   for owner in pod.metadata.owner_references or [])

    def pods_of(self, name: str) -> Dict[int, _Pod]:
        """The newest pod of each machine."""
        found = self._call(f"pods of job {name}", self._core.list_namespaced_pod, self.namespace,
                           label_selector=f"lockstep.dev/job={name},lockstep.dev/machine")
        pods: Dict[int, _Pod] = {}
        for each in found.items:
            states = [status.state for status in each.status.container_statuses or []
                      if status.name == CONTAINER]
            ended = any(state.terminated for state in states)
            began = ended or any(state.running for state in states)
            machine = int(each.metadata.labels["lockstep.dev/machine"])
            attempt = int(each.metadata.labels.get("lockstep.dev/attempt", "0"))
            if machine not in pods or attempt > pods[machine].attempt:
                pods[machine] = _Pod(each.metadata.name, attempt, began, ended)
        return pods

    def log(self, pod: str) -> Iterator[str]:
        with contextlib.suppress(NotFound):
            for _, text in self._read_log(pod, False, {}, None):
                yield text

    def follow_log(self, pod: str, last: int, opened: Callable[[Any], None]
                   ) -> Iterator[Tuple[int, str]]:
        """(time, line) of the lines after the time `last`, until the log or the connection ends.

        A kubelet's own messages are left out.
        """
        since = {}
        if last:  # a kubelet counts in its own seconds
            passed = int(time.time()) - last // 10**9
            since["since_seconds"] = max(0, passed) + _CLOCKS_SECONDS
        try:
            for stamp, text in self._read_log(pod, True, since, opened):
                if stamp > last:
                    yield stamp, text
        except NotFound:
            return  # it is gone; its successor comes

    def _read_log(self, pod: str, follow: bool, since: Dict[str, int],
                  opened: Optional[Callable[[Any], None]]) -> Iterator[Tuple[int, str]]:
        response = self._call(f"the log of pod {pod}", self._core.read_namespaced_pod_log, pod,
                              self.namespace, container=CONTAINER, follow=follow, timestamps=True,
                              _preload_content=False, seconds=3600.0 if follow else REQUEST_SECONDS,
                              **since)
        if opened is not None:
            opened(response)
        try:
            rest = b""
            for chunk in response.stream(65536, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _stamped(line)
            if rest:
                yield _stamped(rest)
        except (_http_error(), OSError) as error:
            raise _NoAnswer(f"the log of pod {pod} broke off: {error}") from None
        finally:
            response.close()

    def events(self, name: str, uid: str) -> List[Event]:
        found = self._call(f"events of job {name}", self._core.list_namespaced_event,
                           self.namespace, field_selector=f"involvedObject.uid={uid}")
        events = []
        for each in found.items:
            at = each.event_time or each.last_timestamp or each.metadata.creation_timestamp
            events.append(Event(each.message or "", each.reason or "", at.isoformat() if at else "",
                                each.type == "Warning"))
        return sorted(events, key=lambda event: event.time)


def _user() -> Optional[str]:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return None


def _http_error() -> Any:
    """What urllib3, on which the package kubernetes is built, raises for a connection."""
    return need("urllib3.exceptions", "urllib3", "a job on a cluster").HTTPError


def _stamped(line: bytes) -> Tuple[int, str]:
    """(time, text) of a line. The time is in nanoseconds, and 0 for a kubelet's own message."""
    whole = line.decode("utf-8", "replace")
    stamp, _, text = whole.partition(" ")
    found = _STAMP.match(stamp)
    if found is None:
        return 0, whole
    seconds = calendar.timegm(tuple(int(each) for each in found.groups()[:6]))
    if found[8]:  # the node's own zone
        offset = int(found[9]) * 3600 + int(found[10]) * 60
        seconds += -offset if found[8] == "+" else offset
    return seconds * 10**9 + int((found[7] or "").ljust(9, "0")), text


def _error_of(what: str, error: Any) -> Exception:
    """The API server's own words."""
    try:
        words = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        words = error.reason or f"status {error.status}"
    if error.status == 404:
        return NotFound(f"{what}: {words}")
    if error.status == 422:
        return JobInvalid([f"{what}: {words}"])
    if error.status in (400, 408, 429) or error.status >= 500:  # 400: no container to read yet
        return _NoAnswer(f"{what}: {words}")
    return ClusterError(f"{what}: {words}")
