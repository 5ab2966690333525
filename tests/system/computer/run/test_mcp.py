"""`lockstep mcp`: a coding agent looks at runs on this computer, by the official SDK and by hand."""

import json
import os
import socket
import subprocess
import sys
import uuid

import pytest
from mcp.shared.exceptions import McpError
from mcp_session import PATIENCE, Lines, call, call_until, with_session
from run import Run
from tls import binary

# Rank 3 of the first generation fails.
PROGRAM = """
import lockstep, os, sys, time
print("hello from", os.environ["RANK"], flush=True)
lockstep.report(step=1)
if os.environ["RANK"] == "3" and lockstep.restarts() == 0:
    raise ValueError("no such file: part-3")
def wait_for_the_end():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
wait_for_the_end()
"""
READING = ["list_jobs", "get_job", "explain_failure", "logs", "stacks", "validate", "plan"]
WRITING = ["restart", "suspend", "resume", "delete", "submit"]
JOB = """
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: gpt}
spec:
  numMachines: %s
  processesPerMachine: 2
  command: [python, train.py]
"""


@pytest.fixture
def no_cluster(tmp_path):
    return {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}


def test_an_agent_finds_out_why_a_run_failed_and_restarts_it(tmp_path, no_cluster):
    name, end = "job-" + uuid.uuid4().hex[:8], tmp_path / "end"
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    run = Run(tmp_path, "-m", "2", "-p", "2", "--name", name, "--", sys.executable, str(program),
              str(end))

    async def look(session):
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == READING + WRITING
        assert [tool.name for tool in tools if not tool.annotations.readOnlyHint] == WRITING
        await call_until(session, lambda text: "Running" in text and "Restarts     1" in text,
                         "get_job", name=name)
        jobs = await call(session, "list_jobs")
        assert jobs.startswith("Runs on this computer:\nNAME") and f"\n{name} " in jobs
        assert "TrainingJobs of the cluster:\nlockstep: " in jobs, "there is none, and it is told"
        status = json.loads(await call(session, "get_job", name=name, format="json"))
        assert status["metadata"]["name"] == name and status["status"]["restarts"]["total"] == 1
        why = await call(session, "explain_failure", name=name)
        assert "root cause: ProcessExit, rank 3, machine 1" in why
        assert "| ValueError: no such file: part-3" in why and "1 of 3 restarts" in why
        assert f"lockstep logs {name} --rank 3 --tail 200" in why
        logs = await call(session, "logs", name=name, rank=3)
        assert "[m1 r3] hello from 3\n" in logs and "hello from 2" not in logs
        assert len((await call(session, "logs", name=name, lines=2)).splitlines()) == 3
        assert "there is no rank 9" in await call(session, "logs", error=True, name=name, rank=9)
        await call_until(session, lambda text: "ranks 0-3 are in wait_for_the_end" in text,
                         "stacks", name=name, rank=1)
        text = await call(session, "restart", name=name, reason="from an agent")
        assert text == f"run {name} restarts\n"
        await call_until(session, lambda text: "StopRequested" in text, "get_job", name=name)

    with_session(look, "--allow-write", env=no_cluster)
    end.touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert report["history"][-1]["reason"].endswith(": from an agent")


def test_an_agent_judges_and_plans_a_job_and_may_write_nothing(no_cluster):
    async def look(session):
        assert [tool.name for tool in (await session.list_tools()).tools] == READING
        with pytest.raises(McpError, match="there is no tool \"delete\""):
            await session.call_tool("delete", {"name": "gpt"})
        valid = await call(session, "validate", job=JOB % 2, target="local")
        assert "valid: gpt, 2 machines x 2 = world size 4" in valid
        wrong = await call(session, "validate", error=True, job=JOB % 0)
        assert "-:6:" in wrong and "numMachines" in wrong
        plan = await call(session, "plan", job=JOB % 2, machines=3)
        assert "WORLD_SIZE" in plan and "6" in plan
        assert "job is missing" in await call(session, "plan", error=True, jobs="x")
        assert "small letters" in await call(session, "get_job", error=True, name="--help")
        gone = await call(session, "get_job", error=True, name="gone-" + uuid.uuid4().hex)
        assert "exit code" in gone

    with_session(look, env=no_cluster)


@pytest.fixture
def silent_cluster(tmp_path):
    """A listening socket, and a kubeconfig by which it is an API server that never answers."""
    authority, kubeconfig = tmp_path / "ca.pem", tmp_path / "kubeconfig"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=nobody", "-keyout",
                    os.devnull, "-out", authority], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{server.getsockname()[1]}",
                "certificate-authority": str(authority)}}]}))
        yield server, str(kubeconfig)


def test_a_cancelled_call_ends_at_once_and_gets_no_answer(silent_cluster):
    server, kubeconfig = silent_cluster
    session = Lines("--kubeconfig", kubeconfig)
    session.send(1, "tools/call", name="get_job", arguments={"name": "gpt", "namespace": "x"})
    connection, _ = server.accept()
    with connection:
        connection.settimeout(PATIENCE)
        session.send(None, "notifications/cancelled", requestId=1)
        while connection.recv(65536):
            pass  # until its end: the command was killed
    assert session.ask(2, "ping")["result"] == {}
    assert session.close() == 0


def test_a_call_that_takes_too_long_is_killed_and_says_so(silent_cluster):
    _, kubeconfig = silent_cluster
    session = Lines("--kubeconfig", kubeconfig, "--timeout", "1")
    answer = session.ask(1, "tools/call", name="get_job",
                         arguments={"name": "gpt", "namespace": "x"})["result"]
    assert answer["isError"] and "no end within 1 s" in answer["content"][0]["text"]
    assert session.close() == 0


def test_bad_lines_are_answered_and_cost_the_session_nothing(tmp_path):
    session = Lines()
    for line, code in [("{", -32700), ("[]", -32600), ("x" * (5 << 20), -32700),
                       ('{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', -32601)]:
        session.write(line)
        assert session.read()["error"]["code"] == code, line[:50]
    assert session.ask(7, "ping")["result"] == {}
    assert session.close() == 0
    script = tmp_path / "lines"  # a file instead of a pipe
    script.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with script.open() as lines:
        done = subprocess.run([binary("lockstep"), "mcp"], stdin=lines, capture_output=True,
                              text=True, timeout=PATIENCE, check=True)
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
