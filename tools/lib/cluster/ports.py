"""TCP ports to listen on."""

import contextlib
import pathlib
import random
import socket

LOWEST, HIGHEST = 20000, 65535


def free_port():
    """A port that nobody listens on, outside the ephemeral range: no outgoing connection takes it
    before its listener does."""
    with reserved_port() as port:
        return port


@contextlib.contextmanager
def reserved_port():
    """A free port that nobody else finds free meanwhile; only a listener that shares its port
    (SO_REUSEPORT) can take it."""
    low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(LOWEST, HIGHEST) if not low <= port <= high]
    for port in random.sample(ports, len(ports)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            # Only now: two that reserve must not share.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            yield port
            return
    raise OSError(f"no free port outside {low}..{high}")
