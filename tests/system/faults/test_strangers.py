"""Who has no business with the gang is refused, the log says why, and the job continues."""

import concurrent.futures
import contextlib
import http.client
import multiprocessing
import resource
import secrets
import socket
import struct
import sys
import uuid

import pytest
import wire
from waiting import wait_until

REFUSED = 9  # the message's type


@pytest.fixture
def running(gang):
    """A gang at work that has the same generation and ranks in the end, and succeeds."""
    made = gang(machines=2)
    made.start()
    generation = made.wait_running()["generation"]
    ranks = [agent.ranks() for agent in made.agents.values()]
    yield made
    assert made.status()["generation"] == generation
    assert [agent.ranks() for agent in made.agents.values()] == ranks
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


def in_clear(gang):
    return socket.create_connection((gang.address(0), 7070), timeout=30)


def says(connection, data):
    """What the agent answers before it closes."""
    connection.send(data)
    return connection.wait_closed()


def refusal(gang, **changes):
    """The code of the REFUSED that a HELLO earns."""
    with gang.connect() as connection:
        answer = says(connection, wire.MAGIC + wire.frame(wire.hello(gang, **changes)))
    body = next(wire.messages(answer))
    assert body[0] == REFUSED
    return body[1]


def test_coordinator_refuses_wrong_key(running):
    with running.connect(key=secrets.token_hex(32)) as connection:
        assert connection.wait_closed() == b""
    running.agents[0].wait_log("refused a connection from 127.0.0.1")


def test_coordinator_refuses_identity_of_other_job(running):
    with running.connect(identity=f"lockstep-v1:{uuid.uuid4()}") as connection:
        assert connection.wait_closed() == b""
    running.agents[0].wait_log("refused a connection")


def test_coordinator_refuses_hello_of_other_job(running):
    assert refusal(running, job_uid=str(uuid.uuid4())) == 0
    running.agents[0].wait_log(f"this is job {running.job_uid}")


def test_coordinator_refuses_hello_with_wrong_machine_count(running):
    assert refusal(running, machines=3) == 1
    running.agents[0].wait_log("this job has 2 machines of 1 processes")


def test_coordinator_refuses_hello_of_unknown_machine_or_attempt_0(running):
    assert refusal(running, machine=2) == 2
    assert refusal(running, attempt=0) == 2
    running.agents[0].wait_log("machines are 0..1")


def test_coordinator_refuses_message_before_hello(running):
    with running.connect() as connection:
        says(connection, wire.MAGIC + wire.frame(b"\x07" + struct.pack(">II", 1, 1)))
    running.agents[0].wait_log("VERDICT_ACK before HELLO")


def test_coordinator_refuses_other_protocol_version(running):
    with running.connect() as connection:
        assert says(connection, b"LKSTEP\x00\x02") == b""
    running.agents[0].wait_log("speaks version 2")


@pytest.mark.parametrize(
    "garbage", [b"\x00", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, b"SSH-2.0-x\r\n"],
    ids=["zero", "http", "ones", "ssh"])
def test_coordinator_refuses_garbage_instead_of_tls(running, garbage):
    with in_clear(running) as connection:
        connection.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    running.agents[0].wait_log("refused a connection")


def test_coordinator_refuses_garbage_in_frame(running):
    with running.connect() as connection:
        assert says(connection, wire.MAGIC + wire.frame(b"\xee" * 100)) == b""
    running.agents[0].wait_log("ended:")


def test_coordinator_refuses_one_gigabyte_frame_by_its_length(running):
    with running.connect() as connection:
        assert says(connection, wire.MAGIC + struct.pack(">I", 1 << 30) + b"x" * 1000) == b""
    running.agents[0].wait_log("1073741824")


def test_coordinator_refuses_oversized_client_hello(running):
    with in_clear(running) as connection:
        connection.sendall(b"\x16\x03\x01\xff\xff" + b"\x01\xff\xff\xff")
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
    running.agents[0].wait_log("refused a connection")


def test_half_hello_does_not_block_coordinator(running):
    body = wire.frame(wire.hello(running))
    with running.connect() as connection:
        connection.send(wire.MAGIC + body[: len(body) // 2])
        assert running.status()["phase"] == "Running"


def test_coordinator_closes_silent_connections(running):
    with in_clear(running) as silent, running.connect() as proven:
        assert silent.recv(1) == b""
        assert proven.wait_closed() == b""
    running.agents[0].wait_log("did not prove the key and send a greeting in time")


def test_coordinator_reads_hello_sent_byte_by_byte(running):
    with running.connect() as connection:
        data = wire.MAGIC + wire.frame(wire.hello(running, machines=3))
        for i in range(len(data)):
            connection.send(data[i : i + 1])
        assert next(wire.messages(connection.wait_closed()))[0] == REFUSED


def test_agent_with_lower_attempt_exits_and_first_agent_keeps_its_ranks(gang):
    made = gang(machines=2)
    made.start(0)
    made.start(1)  # attempt 2
    made.wait_running()
    ranks = made.agents[1].ranks()
    older = made.start_agent(1, 1, listen=f"{made.address(8)}:7070", metricsListen="")
    assert older.process.wait(30) == 75
    older.wait_log("attempt 2 of this machine exists")
    made.agents[1] = made.past.pop()
    assert made.agents[1].ranks() == ranks
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


def test_agent_with_higher_attempt_replaces_first_agent(gang):
    made = gang(machines=2)
    made.start()
    generation = made.wait_running()["generation"]
    first = made.agents[1]
    made.replace(1, predecessor_dead=False, listen=f"{made.address(8)}:7070", metricsListen="")
    assert first.process.wait(30) == 75
    assert not made.left_of(first)
    first.wait_log("a higher attempt has joined")
    made.wait_status(lambda s: s["phase"] == "Fencing", "the lease of the first to be waited for")
    made.set_desired_state(fenced=[(1, 2)])
    made.wait_running(after=generation)
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


# ---- many ----

CROWD = 10_000


def _crowd(address, source, count, ready, leave):
    held = []
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((source, 0))
        connection.connect_ex((address, 7070))
        held.append(connection)
    ready.set()
    leave.wait()


def test_ten_thousand_connections_do_not_block_coordinator(running):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CROWD), hard))
    leave = multiprocessing.Event()
    crowds = []
    try:
        for i in range(4):
            ready = multiprocessing.Event()
            source = running.address(100 + i)
            arguments = (running.address(0), source, CROWD // 4, ready, leave)
            crowd = multiprocessing.Process(target=_crowd, args=arguments, daemon=True)
            crowd.start()
            crowds.append((crowd, ready))
        for _, ready in crowds:
            assert ready.wait(60)
        assert running.status()["phase"] == "Running"
        running.agents[0].wait_log("refused a connection")
        with running.connect() as connection:  # who holds the key gets in all the same
            connection.send(b"GET /status HTTP/1.1\r\n\r\n")
            assert connection.receive().startswith(b"HTTP/1.1 200")
    finally:
        leave.set()
        for process, _ in crowds:
            process.join()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_hundred_idle_authenticated_connections_do_not_block_coordinator(running):
    with contextlib.ExitStack() as stack:
        idlers = [stack.enter_context(running.connect()) for _ in range(100)]
        for idler in idlers:
            idler.send(wire.MAGIC)
        assert running.status()["phase"] == "Running"


REPORTS = """
import json, os, socket
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["LOCKSTEP_SOCKET"])
for step in range(3000):
    names = {f"loss_of_sample_{step}_{i}": 0.5 for i in range(62)}
    agent.sendall(json.dumps({"rank": 1, "step": step + 1, **names}).encode() + b"\\n")
"""


def test_constant_scrapes_of_rank_with_186000_metric_names_delay_no_heartbeat(gang):
    made = gang(machines=2, policy={"machineLostAfter": "15s"})
    (made.gates / "report.py").write_text(REPORTS)
    (made.gates / "hook").write_text(
        f'[ "$RANK" = 0 ] || {sys.executable} $GATES/report.py && : >$GATES/reported.$RANK\n')
    made.start()
    generation = made.wait_running()["generation"]
    wait_until((made.gates / "reported.1").exists, "186,000 names to be reported", patience=60)

    def scrape(_):
        for _ in range(50):
            connection = http.client.HTTPConnection(made.address(1), 7071, timeout=60)
            connection.request("GET", "/metrics")
            assert connection.getresponse().read()

    with concurrent.futures.ThreadPoolExecutor(8) as scrapers:
        list(scrapers.map(scrape, range(8)))
    assert made.status()["generation"] == generation, made.logs()
    made.open_gates()
    assert made.verdict()["exitCode"] == 0
