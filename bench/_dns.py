"""What a cluster's pods would find by the names of a job's machines."""

import socket
import struct
import tempfile
from pathlib import Path

import parts
from _operator_bench import Process
from ports import free_port


class Dns:
    """CoreDNS as clusters run it, on a port of this computer."""

    def __init__(self, cluster, folder):
        self.port = free_port()
        made = Path(tempfile.mkdtemp(dir=folder))
        (made / "Corefile").write_text(
            f".:{self.port} {{\n  bind 127.0.0.1\n  errors\n  kubernetes cluster.local {{\n"
            f"    kubeconfig {cluster.kubeconfig} test\n  }}\n}}\n")
        program = parts.build("coredns", lambda _: None) / "coredns"
        self._process = Process([program, "-conf", made / "Corefile"], folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()

    def ask(self, name):
        """Whether pod.service.namespace has an IPv4 address."""
        labels = [*name.split("."), "svc", "cluster", "local"]
        question = b"".join(bytes([len(each)]) + each.encode() for each in labels) + b"\0"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(5)
            udp.connect(("127.0.0.1", self.port))
            try:
                udp.send(struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + question
                         + struct.pack("!2H", 1, 1))
                _, flags, _, answers = struct.unpack("!4H", udp.recv(4096)[:8])
            except (ConnectionRefusedError, TimeoutError):
                return False
        return flags & 0xF == 0 and answers == 1
