"""What a Python rank needs to outlive its generation, whatever it trains with.

lockstep_torch.Live is built on it; docs/reference/protocol.md ("Living on") has the protocol.

    connections = Connections()
    client = RejoinClient(connections.sever) # says `rejoin`
    ...
    client.ended                             # an event: this generation has ended
    environment = client.leave()             # of the next generation; None: none follows
    client.rejoin()                          # once os.environ is the next generation's

It needs Python 3.8 and nothing else.
"""

import json
import mmap
import os
import socket
import struct
import threading
from typing import Any, Callable, Dict, Optional, Set

__all__ = ["Connections", "Ended", "RejoinClient", "Slots", "apply"]


class Ended(RuntimeError):
    """The generation of this process has ended."""


def apply(environment: Dict[str, Optional[str]]) -> None:
    """Puts the variables that changed into os.environ; None removes one."""
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ---- the connections of a process group ----


def _sockets() -> Dict[str, int]:
    """What /proc calls each open socket, and its descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # closed since
        if link.startswith("socket:"):
            found[link] = int(name)
    return found


def _shut_down(links: Set[str]) -> int:
    """Ends the connections among these sockets, for both ends. Returns how many there were.

    Listeners stay: Gloo's throws on a thread of its own, which ends the process.
    """
    count = 0
    for link, descriptor in _sockets().items():
        if link not in links:
            continue
        try:
            # A copy of the descriptor, so that nothing here closes the group's own.
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    continue
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
        except OSError:
            pass  # not connected, or closed since
    return count


class Connections:
    """The TCP connections that a process group has opened, to be ended from another thread.

    Gloo has no abort: a rank whose neighbours live waits for a dead peer for ever. The group's
    sockets are those that were opened between opening() and opened().
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: Optional[Set[str]] = None
        self._links: Set[str] = set()
        self._barred = False

    def opening(self) -> None:
        """A group is made from here on. Raises Ended if its generation has ended already."""
        with self._lock:
            if self._barred:
                raise Ended("the generation ended while a process group was made")
            self._before = set(_sockets())

    def opened(self) -> None:
        with self._lock:
            assert self._before is not None
            self._links |= set(_sockets()) - self._before
            self._before = None

    def sever(self) -> int:
        """Ends them all, and those of a group that is being made. No further group is made."""
        with self._lock:
            self._barred = True
            links = set(self._links)
            if self._before is not None:
                links |= set(_sockets()) - self._before
            return _shut_down(links)

    def forget(self) -> None:
        """The group is gone, and the next generation may make another."""
        with self._lock:
            self._before, self._links, self._barred = None, set(), False


# ---- the agent ----


class RejoinClient:
    """The connection to the agent on which a process lives on, and the thread that reads it.

    The thread hears that the generation has ended while the program waits for a peer. It calls
    `sever`, which must end every wait of the program as a rank, and says `left` at once: the
    program may compute on, because it can reach nobody, and commits of an ended generation are
    refused.
    """

    def __init__(self, sever: Callable[[], Any]) -> None:
        self.ended = threading.Event()
        self.refused: Optional[str] = None  # why this process cannot live on
        self._sever = sever
        self._rank = int(os.environ["RANK"])
        self._ids = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.environ["LOCKSTEP_SOCKET"])
        self._lines = self._socket.makefile("rb")
        self.rejoin()

    def rejoin(self) -> None:
        """Takes part in the generation that os.environ names, and can live on when it ends."""
        self._generation = os.environ["LOCKSTEP_GENERATION"]
        self.ended = threading.Event()
        self._out = threading.Event()  # the program uses the generation's groups no more
        self._told = threading.Event()
        self._next: Optional[Dict[str, Optional[str]]] = None
        self._say({"rejoin": self._generation})
        threading.Thread(target=self._listen, name="lockstep-rejoin", daemon=True).start()

    def leave(self) -> Optional[Dict[str, Optional[str]]]:
        """The program has left the generation. Waits for the next one's environment.

        None: no generation follows in which this process could be, and the agent ends it.
        """
        self._out.set()
        self._told.wait()
        return self._next

    def close(self) -> None:
        """This process lives on no more."""
        self.refused = "it has closed its connection"
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the agent has closed it
        self._socket.close()

    def _say(self, words: Dict[str, Any]) -> None:
        self._ids += 1
        line = dict(words, rank=self._rank, id=self._ids)
        self._socket.sendall(json.dumps(line).encode() + b"\n")

    def _hear(self) -> Dict[str, Any]:
        try:
            line = self._lines.readline()
        except (OSError, ValueError):  # closed by close()
            line = b""
        try:
            answer = json.loads(line) if line else {}
        except ValueError:
            answer = {}
        return answer if isinstance(answer, dict) else {}

    def _listen(self) -> None:
        ended, told = self.ended, self._told
        answer = self._hear()
        if answer.get("ended") != self._generation:
            if self.refused is None:
                self.refused = str(answer.get("reason") or "the agent closed the connection")
            told.set()
            return
        ended.set()  # before the group is severed: what breaks from here on is known to be that
        self._sever()
        try:
            self._say({"left": self._generation})
        except OSError:
            told.set()
            return
        answer = self._hear()
        # A group that was being made may have opened connections since.
        while not self._out.wait(0.005):
            self._sever()
        if isinstance(answer.get("environment"), dict):
            self._next = answer["environment"]
        told.set()


# ---- what is a rank's own, and dies with it ----


class Slots:
    """Two states of a rank in a file that survives the rank's process, for even and odd steps.

    A state is whole or absent, at whatever moment the process is killed: its step is written last.
    """

    _HEAD = struct.Struct("<qq")  # step + 1, as a new file is 0; bytes

    def __init__(self, path: str, room: int) -> None:
        self._room = (room + self._HEAD.size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        with open(path, "a+b") as file:
            file.truncate(2 * self._room)
            self._map = mmap.mmap(file.fileno(), 2 * self._room)

    def write(self, step: int, state: bytes) -> bool:
        """False: it has no room, and the slot holds nothing now."""
        at = step % 2 * self._room
        self._HEAD.pack_into(self._map, at, -1, 0)
        if len(state) > self._room - self._HEAD.size:
            return False
        begin = at + self._HEAD.size
        self._map[begin : begin + len(state)] = state
        self._HEAD.pack_into(self._map, at, step + 1, len(state))
        return True

    def read(self, step: int) -> Optional[bytes]:
        at = step % 2 * self._room
        held, size = self._HEAD.unpack_from(self._map, at)
        if held != step + 1 or not 0 <= size <= self._room - self._HEAD.size:
            return None
        return self._map[at + self._HEAD.size : at + self._HEAD.size + size]
