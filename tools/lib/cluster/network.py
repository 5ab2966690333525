"""The network of a cluster with nodes: a bridge, whose name and addresses are one folder's.

On the bridge, 10.K.255.0/24, .1 is this computer, where the control plane listens, and .10+I is
node I; its pods are 10.K.I.0/24, and are reached from this computer too. K is one that nobody uses
here. The bridge's alias is the folder, so that what a killed cluster left behind is known as
nobody's.
"""

import contextlib
import fcntl
import hashlib
import json
import pathlib
import subprocess

FIRST, LAST = 100, 227
LOCK = pathlib.Path("/run/lock/lockstep-cluster")
SYSTEM = pathlib.Path("/sys/class/net")
PREFIX = "ls-"  # of every bridge


class Network:
    def __init__(self, bridge, number):
        self.bridge = bridge
        self.number = number
        self.address = f"10.{number}.255.1"

    @staticmethod
    def claim(folder):
        """A new bridge; what was left of an older one for this folder must be gone."""
        bridge = name_for(folder)
        with _locked():
            number = _free_number(bridge)
            network = Network(bridge, number)
            # A bridge without an address of its own takes its ports' lowest: with that node's power
            # its address would go, and for all others this computer, until they asked again who
            # it is, a minute later.
            _ip(f"link add {bridge} address 02:00:00:00:00:{number:02x} type bridge",
                f"link set {bridge} alias '{folder}'",
                f"addr add {network.address}/24 dev {bridge}",
                f"link set {bridge} up")
        return network

    def node_address(self, index):
        return f"10.{self.number}.255.{10 + index}"

    def pod_subnet(self, index):
        return f"10.{self.number}.{index}.0/24"

    def attach(self, index, count, pid):
        """Gives the network namespace of process `pid` the address and the routes of node `index`,
        one of `count`."""
        link = self._link(index)
        _ip(f"link add {link} type veth peer name eth0 netns {pid}",
            f"link set {link} master {self.bridge} up",
            f"route replace {self.pod_subnet(index)} via {self.node_address(index)}")
        others = [other for other in range(count) if other != index]
        _ip("link set lo up",
            f"addr add {self.node_address(index)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {self.address}",
            *(f"route add {self.pod_subnet(other)} via {self.node_address(other)}"
              for other in others),
            inside=pid)

    def cut(self, index):
        _ip(f"link set {self._link(index)} down")

    def mend(self, index):
        _ip(f"link set {self._link(index)} up")

    def detach(self, index):
        _ip(f"link del {self._link(index)}")

    def _link(self, index):
        return f"{self.bridge}-{index}"


def name_for(folder):
    return PREFIX + hashlib.sha256(str(folder).encode()).hexdigest()[:8]


def exists(folder):
    return SYSTEM.joinpath(name_for(folder)).exists()


def unplugged():
    """The folders of bridges that no node is plugged into: a node's end goes with the node, even
    one whose processes cannot be seen from here, as from a container."""
    found = json.loads(_ip_json("-details", "link", "show", "type", "bridge"))
    return [link["ifalias"] for link in found
            if link.get("ifname", "").startswith(PREFIX) and "ifalias" in link
            and not any(SYSTEM.joinpath(link["ifname"], "brif").iterdir())]


def remove(folder):
    """The bridge and what is plugged into it, if they are there."""
    bridge = name_for(folder)
    names = [link.get("ifname", "") for link in json.loads(_ip_json("link", "show"))]
    for name in names:
        if name == bridge or name.startswith(bridge + "-"):
            with contextlib.suppress(OSError):  # a dead node's end goes by itself meanwhile
                _ip(f"link del {name}")
    if exists(folder):
        raise OSError(f"the bridge {bridge} could not be removed")


def _free_number(bridge):
    used = {int(entry["local"].split(".")[1])
            for link in json.loads(_ip_json("-4", "address", "show"))
            for entry in link.get("addr_info", []) if entry.get("local", "").startswith("10.")}
    count = LAST - FIRST + 1
    first = int(hashlib.sha256(bridge.encode()).hexdigest(), 16)
    for step in range(count):
        number = FIRST + (first + step) % count
        if number not in used:
            return number
    raise OSError("every network of 10.100.0.0 to 10.227.0.0 is in use here")


def _ip(*commands, inside=None):
    """Runs them by one `ip`, in the network namespace of process `inside`."""
    if not commands:
        return
    enter = ["nsenter", f"--net=/proc/{inside}/ns/net"] if inside else []
    done = subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(commands) + "\n",
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise OSError(f"ip failed: {done.stderr.strip()}; its commands were: {'; '.join(commands)}")


def _ip_json(*arguments):
    return subprocess.run(["ip", "-json", *arguments], check=True, capture_output=True,
                          text=True).stdout or "[]"


@contextlib.contextmanager
def _locked():
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
