"""One node: namespaces of its own, in which containerd, kubelet and kube-proxy run.

Its process 1 is node_init.py. With that all else on the node ends, so a node's power can go at once
and come back, as a real one's does: containers are gone, images and the node's disk are not.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import cgroups
import images
import numa_nodes
import parts
import processes
from control_plane import DNS_SERVICE
from network import Network, name_for
from programs import MARK, PATIENCE, ClusterError, running
from waiting import wait_until

HERE = pathlib.Path(__file__).resolve().parent
SOCKET = "/run/containerd/containerd.sock"
CONFIG = "/var/lib/lockstep"  # on the node


def all_of(cluster):
    """The nodes of a cluster, given its programs with their state loaded."""
    count = cluster.state.get("nodes", 0)
    return [Node(cluster, index, count) for index in range(count)]


def stop_all(folder):
    """Ends the nodes of a folder, however far they came."""
    for file in pathlib.Path(folder).glob("nodes/*/init.pid"):
        _end(folder, int(file.read_text()))


class Node:
    def __init__(self, cluster, index, count):
        self.name = f"node-{index}"
        self._cluster = cluster
        self._index = index
        self._count = count
        self._folder = cluster.folder / "nodes" / self.name
        self._network = Network(name_for(cluster.folder), cluster.state["network"])
        self._bins = {group: pathlib.Path(path) for group, path in cluster.state["bins"].items()}
        self._cgroup = f"{self._network.bridge}-{self.name}"

    def boot(self):
        """Power on, up to a containerd with the sandbox's image."""
        first = not self._folder.exists()
        for each in ("lib/lockstep/net.d", "log", "tmp", "cache"):
            (self._folder / "var" / each).mkdir(parents=True, exist_ok=True)
        if first:
            (self._folder / "var/run").symlink_to("/run")
        self._write_config()
        # A kubelet takes seconds over each that is left of a container.
        cgroups.remove(self._cgroup)
        cgroups.make(self._cgroup)
        self._start_init()
        self._network.attach(self._index, self._count, self.init())
        self._run("containerd", self._bins["containers"] / "containerd",
                  "--config", f"{CONFIG}/containerd.toml")
        socket = pathlib.Path(f"/proc/{self.init()}/root{SOCKET}")
        self._cluster.wait(self._log_name("containerd"), socket.exists)
        if first:
            self.load(self._cluster.folder / "busybox.tar")

    def join(self):
        """Starts kubelet and kube-proxy, once there is an API server to talk to."""
        config = self._folder / "var/lib/lockstep"
        (config / "kubeconfig").write_text((self._cluster.folder / "kubeconfig").read_text())
        self._start_kubelet()
        self._run("kube-proxy", self._bins["node"] / "kube-proxy", "--proxy-mode=nftables",
                  f"--kubeconfig={CONFIG}/kubeconfig", f"--hostname-override={self.name}",
                  "--conntrack-max-per-core=0", "--conntrack-min=0")

    def align(self, resource, device):
        """Kubelet aligns pods by two NUMA nodes that it seems to have (numa_nodes.py), and offers one
        pretended device on one of them. What runs on the node runs on."""
        halves = numa_nodes.write(self._folder / "var/lib/lockstep/numa")
        self._stop("kubelet")
        self._mount("--bind", f"{CONFIG}/numa", numa_nodes.SYSTEM)
        self._start_kubelet(**numa_nodes.kubelet(halves))
        plugin = parts.build("device-plugin", lambda _: None) / "device-plugin"
        self._run("device-plugin", plugin, resource, device)
        return halves

    def align_no_more(self):
        self._stop("device-plugin")
        self._stop("kubelet")
        self._mount(numa_nodes.SYSTEM, unmount=True)
        self._start_kubelet()

    def _start_kubelet(self, **settings):
        for state in ("cpu", "memory"):  # kept for another policy, kubelet refuses to start
            (self._folder / f"var/lib/kubelet/{state}_manager_state").unlink(missing_ok=True)
        # One that was killed may answer there until its last thread is gone, and a plugin that it has
        # answered loses its own socket to the next kubelet, which empties the folder.
        (self._folder / "var/lib/kubelet/device-plugins/kubelet.sock").unlink(missing_ok=True)
        (self._folder / "var/lib/lockstep/kubelet.json").write_text(
            json.dumps({**_kubelet(self._cgroup), **settings}))
        self._run("kubelet", self._bins["node"] / "kubelet", f"--config={CONFIG}/kubelet.json",
                  f"--kubeconfig={CONFIG}/kubeconfig", f"--hostname-override={self.name}",
                  f"--node-ip={self._network.node_address(self._index)}",
                  f"--node-labels=topology.kubernetes.io/zone=zone-{self._index}")

    def _stop(self, program):
        """Ends one of this node's programs, which this process need not have started."""
        def mine(pid):
            return _namespace(pid) == _namespace(self.init())

        def gone():
            left = [pid for pid in running(self._cluster.folder, program) if mine(pid)]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return not left

        wait_until(gone, f"{program} of {self.name} to end", PATIENCE, 0.02)
        self._cluster.forget(self._log_name(program))

    def _mount(self, *arguments, unmount=False):
        program = "umount" if unmount else "mount"
        subprocess.run([*self.inside(), program, *arguments], check=True)

    def power_off(self):
        """The link first: a computer without power says nobody goodbye."""
        self._network.detach(self._index)
        _end(self._cluster.folder, self.init())
        self._cluster.forget(self._log_name(""))

    def cut(self):
        self._network.cut(self._index)

    def mend(self):
        self._network.mend(self._index)

    def load(self, archive):
        """Gives an image of a docker-archive to this node's containers."""
        with open(archive, "rb") as file:
            done = subprocess.run(
                [*self.inside(), str(self._bins["containers"] / "ctr"), "--address", SOCKET,
                 "--namespace", "k8s.io", "images", "import", "-"],
                stdin=file, capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterError(f"{self.name} could not load {archive}: {done.stderr}")

    def use_registry(self, name, port):
        """Takes images of registry `name` from a port of this computer, without TLS."""
        folder = self._folder / "var/lib/lockstep/registries" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(f'server = "http://{self._network.address}:{port}"\n')

    def inside(self):
        """What to put before a command so that it runs on the node."""
        namespaces = ["--mount", "--net", "--pid", "--uts", "--root"]
        return ["nsenter", f"--target={self.init()}", *namespaces]

    def init(self):
        """The id of the node's process 1."""
        return int((self._folder / "init.pid").read_text())

    def _start_init(self):
        wrapper = self._cluster.run(
            self._log_name("init"),
            ["unshare", "--mount", "--pid", "--net", "--uts", "--fork", "--kill-child",
             sys.executable, str(HERE / "node_init.py"), str(self._folder)],
            stdout=subprocess.PIPE, text=True)
        if wrapper.stdout.readline() != "ready\n":
            raise ClusterError(f"{self.name} did not start; see log/{self._log_name('init')}.log")
        (self._folder / "init.pid").write_text(str(processes.children(wrapper.pid)[0]))

    def _run(self, name, *command):
        path = f"{self._bins['containers']}:/usr/sbin:/usr/bin:/sbin:/bin"
        self._cluster.run(self._log_name(name), [*self.inside(), *map(str, command)],
                          variables={"PATH": path})

    def _log_name(self, program):
        return f"{program}-{self.name}"

    def _write_config(self):
        folder = self._folder / "var/lib/lockstep"
        (folder / "containerd.toml").write_text(CONTAINERD.format(
            image=images.BUSYBOX, plugins=self._bins["containers"], config=CONFIG))
        (folder / "net.d/pods.conflist").write_text(json.dumps(
            _pod_network(self._network.pod_subnet(self._index))))


CONTAINERD = """
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{config}/registries"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true  # or runc may lack the right to lower it
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{config}/net.d"
"""


def _pod_network(subnet):
    # Addresses in use are noted in /run: a power cut frees them.
    addresses = {"type": "host-local", "dataDir": "/run/pod-addresses",
                 "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False,
         "hairpinMode": True, "ipam": addresses},
        {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}]}


def _kubelet(cgroup):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        # The API server has no certificate that a kubelet knows, and nobody else gets here.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{cgroup}", "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [DNS_SERVICE], "clusterDomain": "cluster.local", "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/plugins",
        "serializeImagePulls": False, "failSwapOn": False,
        # Several nodes share a disk and memory, and a full one is not what any test is about.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%",
                         "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    }


def _namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _end(folder, init):
    """Ends a node's process 1, and with it all of them."""
    environment = processes.environment(init)
    if environment and environment.get(MARK) != str(folder):
        return  # another's, by a number that was given anew
    try:
        os.kill(init, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_until(lambda: not processes.alive(init), f"process {init} to end", PATIENCE, 0.01)
