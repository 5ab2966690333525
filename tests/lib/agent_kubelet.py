"""Kubelets that run real agents: KubeletWriter for what the API server sees, and in place of each
worker container a lockstep-agent on this computer, on an address of its own (127.x.y.z). What
kube-proxy would do for the coordinator's Service, a TCP proxy does; it leads to the newest machine
0 that runs, as the operator's EndpointSlice would say if the API server took such addresses for
one (tests/system/faults and tests/system/nodes have others), or to what a Service selects.

    with AgentKubelet(cluster, namespace, folder) as kubelet:
        kubelet.process("gpt-1").kill()     # as the kernel would: the pod fails with 137
"""

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

from api_client import ApiClient, ApiError, ApiServer
from kubelet_writer import KubeletWriter, Nodes, now, own_address
from proxy import Proxy
from tls import binary

GANG_PORT, METRICS_PORT = 7070, 7071
LOOPBACK = 127  # the first byte of agents' addresses


def expand(text, variables):
    """As kubelet expands an environment variable's value: $(NAME), and $$ for $."""
    def replace(match):
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])
    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", replace, text)


class _Writer(KubeletWriter):
    """Attends to pods of one namespace with real processes."""

    def __init__(self, api, namespace, nodes, folder, pull, unlike, programs):
        super().__init__(api, namespace, nodes)
        self._programs = programs
        self._unlike = unlike
        self._pull = pull
        self._pulled = set(nodes[:2])
        self._namespace, self._folder = namespace, folder
        self.processes = {}  # pod name -> Popen
        self._tasks = set()
        self._proxies = {}  # clusterIP -> Proxy
        self._targets = {}  # (job, attempt of machine 0) -> address
        self._services = {}  # job -> (clusterIP, attempt that is selected or None)
        self._asked = set()  # pods whose agents got SIGTERM
        self._keys = {}  # pod name -> files of its Secret
        self._given = {}  # pod name -> variables of its worker's envFrom
        self._powerless = set()  # nodes
        self._unwatched = set()  # pods whose agents have just been started

    async def follow_services(self):
        path = f"/api/v1/namespaces/{self._namespace}/services"
        async for kind, found in self._api.follow(path):
            for service in found if kind == "LIST" else [found]:
                job = service["metadata"].get("labels", {}).get("lockstep.dev/job")
                cluster_ip = service["spec"].get("clusterIP", "None")
                if kind != "DELETED" and job and cluster_ip != "None":
                    attempt = service["spec"].get("selector", {}).get("lockstep.dev/attempt")
                    self._services[job] = (cluster_ip, attempt and int(attempt))
                    self._lead(job)

    def _lead(self, job):
        """The Service's address leads to its machine 0, if that is there."""
        if job not in self._services:
            return
        cluster_ip, attempt = self._services[job]
        newest = max((number for name, number in self._targets if name == job), default=None)
        target = self._targets.get((job, attempt or newest))
        if target is None:
            return
        if cluster_ip in self._proxies:
            self._proxies[cluster_ip].redirect((target, GANG_PORT))
        else:
            address = (self._here(cluster_ip), GANG_PORT)
            self._proxies[cluster_ip] = Proxy(address, (target, GANG_PORT))

    @staticmethod
    def _here(cluster_ip):
        return "127." + cluster_ip.split(".", 1)[1]

    async def lose(self, node):
        self._powerless.add(node)
        for name, pod in self.pods.items():
            if pod["spec"].get("nodeName") == node and name in self.processes:
                self.processes[name].kill()

    async def _attend(self, pod):
        if pod["spec"].get("nodeName") in self._powerless:
            return
        name = pod["metadata"]["name"]
        process = self.processes.get(name)
        if "deletionTimestamp" in pod["metadata"] and process is not None:
            if process.poll() is not None:
                await self._remove(pod)
            elif name not in self._asked:
                self._asked.add(name)
                process.send_signal(signal.SIGTERM)
                self._start(self._kill_later(process, pod["metadata"]["deletionGracePeriodSeconds"]))
            return
        node = pod["spec"].get("nodeName")
        if node and self._pull and node not in self._pulled:
            self._start(self._attend_later(pod, node))
            return
        if process is None and node and "deletionTimestamp" not in pod["metadata"]:
            try:
                self._keys[name] = await self._read_key(pod)
                self._given[name] = await self._read_variables(pod)
            except ApiError as error:
                if error.status != 404:  # its job was deleted meanwhile, and the pod is going, too
                    raise
                return
        await super()._attend(pod)
        if name in self._unwatched:  # its end is told after its start
            self._unwatched.discard(name)
            self._start(self._watch(pod, self.processes[name], self._folder / name / "termination"))

    async def _attend_later(self, pod, node):
        await asyncio.sleep(self._pull)
        self._pulled.add(node)
        name = pod["metadata"]["name"]
        if name in self.pods and name not in self.processes:
            await self._attend(self.pods[name])

    async def _read_key(self, pod):
        """The files of the pod's Secret, by name; a spare has none."""
        secrets = [each["secret"]["secretName"] for each in pod["spec"]["volumes"]
                   if "secret" in each]
        if "lockstep.dev/spare" in pod["metadata"]["labels"]:
            assert secrets == []
            return {}
        [secret] = secrets
        return await self._read_secret(secret)

    async def _read_variables(self, pod):
        given = {}
        for container in pod["spec"]["containers"]:
            for source in container.get("envFrom", []) if container["name"] == "worker" else []:
                data = await self._read_secret(source["secretRef"]["name"])
                given |= {source.get("prefix", "") + name: value.decode() for name, value in data.items()}
        return given

    async def _read_secret(self, name):
        path = f"/api/v1/namespaces/{self._namespace}/secrets/{name}"
        data = (await self._api.call("GET", path))["data"]
        return {name: base64.b64decode(value) for name, value in data.items()}

    def started(self):
        return now()

    def address(self, pod):
        machine = int(pod["metadata"]["labels"].get("lockstep.dev/machine", "-1"))
        if self._unlike is not None and machine >= self._unlike:
            return super().address(pod)
        return own_address(pod, LOOPBACK)

    def _running(self, pod):
        if pod["metadata"]["name"] not in self.processes:
            self._run(pod, own_address(pod, LOOPBACK))
            self._unwatched.add(pod["metadata"]["name"])
        return super()._running(pod)

    def _run(self, pod, address):
        labels, name = pod["metadata"]["labels"], pod["metadata"]["name"]
        folder = self._folder / name
        (folder / "key").mkdir(parents=True, exist_ok=True)  # its name may come again
        shutil.rmtree(folder / "run", ignore_errors=True)
        [worker] = [each for each in pod["spec"]["containers"] if each["name"] == "worker"]
        if "lockstep.dev/spare" in labels:
            (folder / "termination").touch()
            self.processes[name] = subprocess.Popen(
                [self._agent(pod), *worker["command"][1:]], stdin=subprocess.DEVNULL)
            return
        variables = {**self._given[name], "LOCKSTEP_POD_IP": address}
        for each in worker.get("env", []):
            if "value" in each:
                variables[each["name"]] = expand(each["value"], variables)
        config = json.loads(variables["LOCKSTEP_CONFIG"])
        key = folder / "key" / pathlib.Path(config["keyFile"]).name
        key.write_bytes(self._keys[name][key.name])
        config["keyFile"] = str(key)
        config["coordinator"] = self._here(config["coordinator"])
        config["listen"] = f"{address}:{GANG_PORT}"
        config["metricsListen"] = f"{address}:{METRICS_PORT}"
        config["runDir"] = str(folder / "run")
        config["cacheDir"] = str(folder / "cache")
        config["terminationPath"] = str(folder / "termination")
        (folder / "termination").touch()
        variables["LOCKSTEP_CONFIG"] = json.dumps(config)
        with open(folder / "log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [self._agent(pod)], env={"PATH": os.environ["PATH"], **variables},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if labels["lockstep.dev/machine"] == "0":
            job = labels["lockstep.dev/job"]
            self._targets[job, int(labels["lockstep.dev/attempt"])] = address
            self._lead(job)

    def _agent(self, pod):
        """The agent of the image from which the pod copies it."""
        images = [each["image"] for each in pod["spec"].get("initContainers", [])]
        return next((self._programs[image] / "lockstep-agent" for image in images if image in self._programs),
                    binary("lockstep-agent"))

    async def _watch(self, pod, process, message):
        code = await asyncio.to_thread(process.wait)
        path = f"{self._path}/{pod['metadata']['name']}"
        seen = await self._api.find(path)
        if seen is None or seen["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if seen["spec"]["nodeName"] in self._powerless:
            return
        await self._write_end(seen, code if code >= 0 else 128 - code,
                              "Error" if code else "Completed", message.read_text()[-4096:], "")
        if "deletionTimestamp" in seen["metadata"]:
            await self._remove(pod)

    async def _remove(self, pod):
        name = pod["metadata"]["name"]
        await self._api.delete(f"{self._path}/{name}", gracePeriodSeconds=0,
                               preconditions={"uid": pod["metadata"]["uid"]})
        # Another spare, or a pod of a job that is made again, may have its name.
        process = self.processes.get(name)
        if process is not None and process.poll() is not None:
            self.processes.pop(name)
            self._asked.discard(name)

    async def _kill_later(self, process, seconds):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(process.wait), seconds)
        if process.poll() is None:
            process.kill()

    def _start(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self):
        for task in self._tasks:
            task.cancel()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        for proxy in self._proxies.values():
            proxy.close()


class AgentKubelet:
    """The kubelets of one namespace, in a thread of their own, on `nodes` nodes. To all but the first
    two of these an image takes `pull` seconds to come. Of machine `unlike` and those
    after it the API server is told other addresses than they have, such as it takes for endpoints;
    the operator cannot ask these then. `programs` has the folder of an agent image's programs; agents
    of other images are those under test.
    """

    def __init__(self, cluster, namespace, folder, nodes=4, pull=0, unlike=None, programs=None):
        self._programs = programs or {}
        self._server = ApiServer.from_kubeconfig(cluster.kubeconfig)
        self._namespace, self._folder = namespace, pathlib.Path(folder)
        self._names = [f"{namespace}-{index}" for index in range(nodes)]
        self._pull, self._unlike = pull, unlike
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._failure = None

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60), "the kubelets did not start"
        return self

    def __exit__(self, *_):
        with contextlib.suppress(RuntimeError):  # it has ended by itself, with a failure
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def process(self, pod):
        """The agent that runs as this pod."""
        return self._writer.processes[pod]

    def hold(self, machines):
        """Pods of these machines find no node from now on; others do."""
        asyncio.run_coroutine_threadsafe(self._writer.hold(machines), self._loop).result(60)

    def instead(self, status_of):
        """Of a pod that has a node, status_of(pod) is written and nothing runs, unless it is None."""
        self._writer.instead = status_of

    def lose(self, node):
        """It loses its power: agents there are dead, and nothing is told of its pods any more."""
        self._nodes.silent.add(node)
        asyncio.run_coroutine_threadsafe(self._writer.lose(node), self._loop).result(60)

    def log(self, pod):
        return (self._folder / pod / "log").read_text()

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        api, following = ApiClient(self._server), ApiClient(self._server)
        self._nodes = nodes = Nodes(api, self._names)
        await nodes.make()
        self._writer = _Writer(following, self._namespace, self._names, self._folder,
                               self._pull, self._unlike, self._programs)
        tasks = [asyncio.ensure_future(each) for each in (
            nodes.beat(), self._writer.follow(), self._writer.follow_services())]
        self._ready.set()
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                self._failure = task.exception()
            task.cancel()
        self._writer.close()
        await nodes.remove()
        api.close()
        following.close()
