"""Machines of network namespaces on one bridge, each with an address of its own, and links that can
be slowed."""

import contextlib
import subprocess

PROBE = subprocess.run(["unshare", "--net", "ip", "link", "add", "v0", "type", "bridge"],
                       capture_output=True, check=False)
POSSIBLE = PROBE.returncode == 0


class Network(contextlib.ExitStack):
    """Machines 10.9.0.1 and on."""

    def __init__(self, machines):
        super().__init__()
        self.hub = self._namespace()
        self.machines = [self._namespace() for _ in range(machines)]
        self.within(self.hub, "ip link add br0 type bridge")
        self.within(self.hub, "ip link set br0 up")
        for i, machine in enumerate(self.machines):
            self.within(self.hub, f"ip link add m{i} type veth peer name eth0 netns {machine}")
            self.within(self.hub, f"ip link set m{i} master br0 up")
            for words in ("link set lo up", f"addr add {self.address(i)}/24 dev eth0",
                          "link set eth0 up"):
                self.within(machine, f"ip {words}")

    @staticmethod
    def address(machine):
        return f"10.9.0.{machine + 1}"

    def _namespace(self):
        holder = self.enter_context(subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True))
        holder.stdout.readline()
        self.callback(holder.kill)
        return holder.pid

    @staticmethod
    def enter(namespace):
        return ["nsenter", f"--net=/proc/{namespace}/ns/net"]

    def within(self, namespace, command):
        subprocess.run([*self.enter(namespace), *command.split()], check=True)

    def slow_link(self, machine, rate="20mbit"):
        """So many bits a second both ways."""
        for namespace, device in ((self.hub, f"m{machine}"), (self.machines[machine], "eth0")):
            self.within(namespace,
                        f"tc qdisc add dev {device} root tbf rate {rate} burst 32k latency 50ms")

    def quick_link(self, machine):
        """As it was before slow_link."""
        for namespace, device in ((self.hub, f"m{machine}"), (self.machines[machine], "eth0")):
            self.within(namespace, f"tc qdisc del dev {device} root")
