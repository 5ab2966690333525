"""The nodes of a cluster that tools/lib/cluster/up --nodes brought up, to be broken and mended.

    nodes = Nodes(cluster.folder)
    nodes.power_off("node-1")
"""

import contextlib
import os
import signal

import lifecycle
import processes


class Nodes:
    def __init__(self, folder):
        self._folder = folder
        self._nodes = {node.name: node for node in lifecycle.nodes_of(folder)}

    @property
    def names(self):
        return list(self._nodes)

    def power_off(self, name):
        """Its link, kubelet, containerd and all processes of its containers are gone, at once: its
        peers hear nothing."""
        self._nodes[name].power_off()

    def power_on(self, name):
        """Back with its disk and its images, and no container. It takes a few seconds until the API
        server calls it Ready again."""
        self._nodes[name].boot()
        self._nodes[name].join()

    def cut(self, name):
        """Its link alone: what runs there runs on, and hears and says nothing."""
        self._nodes[name].cut()

    def mend(self, name):
        self._nodes[name].mend()

    def use_registry(self, name, port):
        """Each takes images of registry `name` from a port of this computer, without TLS."""
        for node in self._nodes.values():
            node.use_registry(name, port)

    @contextlib.contextmanager
    def aligning(self, name, resource, device):
        """Its kubelet aligns pods by two NUMA nodes, of which only 0 has CPUs to give, and offers a
        pretended device on `device`, one of them. Yields the CPUs of node 0."""
        try:
            yield self._nodes[name].align(resource, device)[0]
        finally:
            self._nodes[name].align_no_more()

    def processes(self, pod):
        """The ids, here, of all processes of a pod (a V1Pod), wherever it runs: sandbox, agent,
        ranks."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if processes.pod(pid) == pod.metadata.uid]

    def kill(self, pod, variable, value):
        """SIGKILL to the process of a pod that has this in its environment, RANK=3 for one; its
        id."""
        found = [pid for pid in self.processes(pod)
                 if processes.environment(pid).get(variable) == value]
        assert found, f"no process of {pod.metadata.name} has {variable}={value}"
        os.kill(found[0], signal.SIGKILL)
        return found[0]

    def stop(self, program):
        """Ends one of the control plane's programs: "coredns", "kube-apiserver"..."""
        lifecycle.stop(self._folder, program)

    def start(self, program):
        """Starts it again as it was; the API server answers on return."""
        lifecycle.start(self._folder, program)

    def restart(self, program):
        lifecycle.restart(self._folder, program)
