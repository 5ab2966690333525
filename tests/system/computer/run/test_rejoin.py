"""worker/python/lockstep_rejoin.py, with which a Python rank outlives its generation, against an agent's side of the
socket that the test plays. It needs no torch."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from paths import MODULES

sys.path.insert(0, str(MODULES))

from lockstep_rejoin import Connections, Ended, RejoinClient, Slots, apply  # noqa: E402


def connected():
    """Both ends of a TCP connection, and its listener."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0], listener


class Waiting:
    """A thread that waits for a peer, as a rank's does in a collective."""

    def __init__(self, connection):
        self.got = None
        self._thread = threading.Thread(target=self._wait, args=(connection,), daemon=True)
        self._thread.start()

    def _wait(self, connection):
        try:
            self.got = connection.recv(1)
        except OSError as error:
            self.got = error

    def result(self):
        self._thread.join(30)
        return self.got


def test_severing_ends_waits_on_the_groups_connections_and_on_no_others():
    connections = Connections()
    mine, other, _ = connected()  # the program's own, from before
    connections.opening()
    client, server, listener = connected()
    pair, peer = socket.socketpair()  # a data loader's
    connections.opened()
    waiting = Waiting(client)
    assert connections.sever() == 2
    assert waiting.result() == b""
    other.sendall(b"a")
    assert mine.recv(1) == b"a"
    peer.sendall(b"b")
    assert pair.recv(1) == b"b"
    socket.create_connection(listener.getsockname(), timeout=5).close()  # Gloo's must not throw
    server.close()


def test_group_that_is_being_made_is_severed_and_no_other_is_made_after_it():
    connections = Connections()
    connections.opening()
    client, _server, _listener = connected()
    waiting = Waiting(client)
    connections.sever()
    assert waiting.result() == b""
    with pytest.raises(Ended):
        connections.opening()
    connections.forget()
    connections.opening()


class Agent:
    def __init__(self, path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        self._listener, self._lines = listener, None

    def accept(self):
        self.connection, _ = self._listener.accept()
        self._lines = self.connection.makefile("r")

    def hear(self):
        self.connection.settimeout(30)
        return json.loads(self._lines.readline())

    def say(self, **words):
        self.connection.sendall(json.dumps(words).encode() + b"\n")


@pytest.fixture
def agent(tmp_path, monkeypatch):
    path = str(tmp_path / "agent.sock")
    monkeypatch.setenv("LOCKSTEP_SOCKET", path)
    monkeypatch.setenv("LOCKSTEP_GENERATION", "1-3")
    monkeypatch.setenv("RANK", "2")
    return Agent(path)


def test_process_leaves_its_generation_at_once_and_goes_on_in_the_next(agent, monkeypatch):
    severed = threading.Event()
    client = RejoinClient(severed.set)
    agent.accept()
    assert agent.hear() == {"rank": 2, "id": 1, "rejoin": "1-3"}
    assert not client.ended.is_set()
    agent.say(id=1, ended="1-3")
    # While the program computes on, for longer than the 5 s in which it must have left.
    assert agent.hear() == {"rank": 2, "id": 2, "left": "1-3"}
    assert client.ended.is_set() and severed.is_set()
    agent.say(id=2, generation="1-4",
              environment={"LOCKSTEP_GENERATION": "1-4", "MASTER_PORT": "7", "GONE": None})
    monkeypatch.setenv("GONE", "1")
    monkeypatch.setenv("MASTER_PORT", "6")
    apply(client.leave())
    assert os.environ["MASTER_PORT"] == "7" and "GONE" not in os.environ
    client.rejoin()
    assert agent.hear() == {"rank": 2, "id": 3, "rejoin": "1-4"}
    assert not client.ended.is_set()


def test_connections_that_open_after_left_are_severed_too(agent):
    count = []
    again = threading.Event()

    def sever():
        count.append(1)
        if len(count) > 3:
            again.set()

    client = RejoinClient(sever)
    agent.accept()
    agent.hear()
    agent.say(id=1, ended="1-3")
    agent.hear()
    agent.say(id=2, environment={})
    assert again.wait(30), "a group may have been in the making"
    assert client.leave() == {}


@pytest.mark.parametrize("words", [{"reason": "launchers start all anew"}, {"ended": "1-2"}, ["no object"]])
def test_process_that_may_not_live_on_is_told_why_and_stays_in_its_group(agent, words):
    severed = threading.Event()
    client = RejoinClient(severed.set)
    agent.accept()
    agent.hear()
    agent.connection.sendall(json.dumps(words).encode() + b"\n")
    assert client.leave() is None
    assert client.refused == ("launchers start all anew" if "reason" in words else "the agent closed the connection")
    assert not severed.is_set() and not client.ended.is_set()


def test_agent_that_ends_leaves_no_process_waiting(agent):
    client = RejoinClient(lambda: None)
    agent.accept()
    agent.hear()
    agent.say(id=1, ended="1-3")
    agent.hear()
    agent.connection.shutdown(socket.SHUT_RDWR)
    assert client.leave() is None


def test_slot_holds_the_state_of_its_step_and_of_no_other(tmp_path):
    slots = Slots(str(tmp_path / "own"), 100)
    assert slots.read(0) is None
    assert slots.write(4, b"four") and slots.write(5, b"five")
    again = Slots(str(tmp_path / "own"), 100)  # the successor's
    assert again.read(4) == b"four" and again.read(5) == b"five"
    assert again.read(2) is None and again.read(6) is None
    assert again.write(6, b"six") and again.read(4) is None
    assert not again.write(7, bytes(100_000)) and again.read(5) is None


def test_slot_is_whole_or_absent_at_whatever_moment_its_process_is_killed(tmp_path):
    program = ("import sys; sys.path.insert(0, sys.argv[1]); from lockstep_rejoin import Slots\n"
               "slots, step = Slots(sys.argv[2], 60000), 0\n"
               "while True:\n"
               "    slots.write(step, bytes([step % 251]) * (20000 + step % 30000)); step += 1\n"
               "    if step == 1: print('writes', flush=True)\n")
    path = str(tmp_path / "own")
    for _ in range(10):
        writer = subprocess.Popen([sys.executable, "-c", program, str(MODULES), path],
                                  stdout=subprocess.PIPE)
        writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        slots = Slots(path, 60000)
        steps = [(step, slots.read(step)) for step in range(60000)]
        held = [(step, state) for step, state in steps if state is not None]
        assert held, "two slots, of which one is being written"
        for step, state in held:
            assert state == bytes([step % 251]) * (20000 + step % 30000)
