"""A gang of real agents on this computer, and its operator in as many words as a test needs.

    with Gang(folder, machines=2, processes=2) as gang:
        gang.start()
        gang.wait_phase("Running")
        gang.agents[1].kill()
        gang.heal_until_running()       # a new agent, of the next attempt
        gang.open_gates()               # every rank exits 0
        assert gang.verdict()["exitCode"] == 0

Without a `command` a rank is rank.sh: it waits at its gate. Each gang has an address block, a key
and a job of its own; close() kills it and asserts that nothing of it is left.
"""

import contextlib
import json
import os
import pathlib
import random
import secrets
import signal
import socket
import subprocess
import uuid

import processes
from proxy import Proxy
from tls import Closed, HttpClient, TlsConnection, binary
from waiting import PATIENCE, wait_until

MARK = "GANG_UNDER_TEST"  # LOCKSTEP_* is not handed down to ranks
GATE = str(pathlib.Path(__file__).parent / "rank.sh")
GANG_PORT, METRICS_PORT, PROXY_PORT = 7070, 7071, 7000


class Agent:
    """One attempt of one machine: the process, what it said and what it left."""

    def __init__(self, machine, attempt, process, folder, listen):
        self.machine, self.attempt, self.process, self.folder = machine, attempt, process, folder
        self.listen = listen
        self.pid = process.pid
        self.stopped = False

    @property
    def log(self):
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def output(self):
        return (self.folder / "stdout").read_text(errors="replace")

    @property
    def termination(self):
        try:
            return json.loads((self.folder / "termination").read_text())
        except (OSError, ValueError):
            return None

    @property
    def running(self):
        return self.process.poll() is None

    @property
    def guard(self):
        found = [p for p in processes.children(self.pid) if processes.name(p) == "lockstep-guard"]
        return found[0] if found else None

    def ranks(self):
        """Rank -> pid, of what the agent has started and not reaped."""
        found = {}
        for pid in processes.children(self.pid):
            variables = processes.environment(pid)
            if "RANK" in variables and processes.alive(pid):
                found[int(variables["RANK"])] = pid
        return found

    def stop(self):
        """SIGSTOP: alive, and silent."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_stopped()
        self.stopped = True

    def wait_stopped(self):
        wait_until(lambda: processes.state(self.pid) == "T", lambda: f"{self} to stop\n{self.log}")

    def cont(self):
        self.stopped = False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait_log(self, words, patience=PATIENCE):
        wait_until(lambda: words in self.log,
                   lambda: f"'{words}' in the log of {self}:\n{self.log}", patience)

    def __str__(self):
        return f"m{self.machine}.{self.attempt}"


class Gang:
    def __init__(self, folder, machines=2, processes=1, command=None, environment=None,
                 checkpoint=None, proxied=(), policy=None, **spec):
        self.folder = pathlib.Path(folder)
        self.machines, self.processes = machines, processes
        self.job_uid, self.key, self.epoch = str(uuid.uuid4()), secrets.token_hex(32), 0
        self.observed = 0
        self.desired_stop = None
        self.counters = {}  # the highest seen, by name
        self.code = None  # as status.code would have it
        self._told = None  # the machine 0 that heard the desired state
        self.checkpoint = checkpoint and self.folder / checkpoint
        self.base = self._free_block(machines)
        self.agents = {}
        self.past = []
        self._clients = {}
        self._gates = {}
        self.gates = self.folder / "gates"
        self.gates.mkdir(parents=True)
        for rank in range(machines * processes):
            self._make_gate(rank)
        self.environment = {**os.environ, "GATES": str(self.gates), MARK: self.job_uid,
                            **(environment or {})}
        self.job = {
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "faults"},
            "spec": {"numMachines": machines, "processesPerMachine": processes,
                     "command": command or [GATE], "failurePolicy": policy or {}, **spec},
        }
        self.proxies = {}
        for machine in proxied:
            address = (self.address(machine), PROXY_PORT)
            self.proxies[machine] = Proxy(address, (self.address(0), GANG_PORT))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _free_block(machines):
        while True:
            base = f"127.{random.randint(64, 250)}.{random.randint(0, 255)}"
            try:
                for machine in range(machines):
                    for port in (GANG_PORT, METRICS_PORT):
                        with socket.create_server((f"{base}.{machine + 1}", port)):
                            pass
                return base
            except OSError:
                continue

    def address(self, machine):
        return f"{self.base}.{machine + 1}"

    # ---- the ranks' gates ----

    def _make_gate(self, rank):
        path = self.gates / str(rank)
        os.mkfifo(path)
        # Reading too, so that opening waits for nobody.
        self._gates[rank] = os.open(path, os.O_RDWR)

    def tell(self, rank, code):
        """This rank of this generation exits with `code`."""
        os.write(self._gates[rank], f"{code}\n".encode())

    def tell_all(self, codes):
        """{rank: code}: these exit with their codes, or are stopped before they read them: a code
        that nobody read is taken back, lest the next generation's rank reads it."""
        pids = [pid for agent in self.agents.values() if agent.running
                for rank, pid in agent.ranks().items() if rank in codes]
        for rank, code in codes.items():
            self.tell(rank, code)
        wait_until(lambda: not any(processes.alive(pid) for pid in pids), f"{codes} to be read")
        for rank in codes:
            with contextlib.suppress(BlockingIOError):
                os.set_blocking(self._gates[rank], False)
                os.read(self._gates[rank], 4096)
            os.set_blocking(self._gates[rank], True)

    def open_gates(self, ranks=None, code=0):
        """These ranks (all) exit with `code`, in every generation from now on."""
        for rank in list(self._gates) if ranks is None else ranks:
            plain = self.gates / f"{rank}.open"
            plain.write_text(f"{code}\n")
            plain.rename(self.gates / str(rank))
            self.tell(rank, code)
            os.close(self._gates.pop(rank))

    # ---- agents ----

    def start(self, *machines, **options):
        """Starts these machines (all), each of the next attempt."""
        self.epoch += 1
        for machine in machines or range(self.machines):
            self.start_agent(machine, self.epoch, **options)

    def start_agent(self, machine, attempt, predecessor_dead=True, stdout=None, prefix=(),
                    program=None, **changes):
        folder = self.folder / f"m{machine}.{attempt}"
        folder.mkdir(parents=True)
        listen = self.address(machine)
        coordinator = f"{self.address(0)}:{GANG_PORT}"
        if machine in self.proxies:
            coordinator = self.proxies[machine].address
        zero = attempt if machine == 0 else self.agents[0].attempt if 0 in self.agents else 1
        config = {
            "jobUID": self.job_uid, "job": self.job, "machine": machine, "attempt": attempt,
            "machine0Attempt": zero, "epoch": max(self.epoch, attempt),
            "predecessorDead": predecessor_dead, "key": self.key, "coordinator": coordinator,
            "listen": f"{listen}:{GANG_PORT}", "metricsListen": f"{listen}:{METRICS_PORT}",
            "advertise": listen, "runDir": str(folder / "run"),
            "checkpointPath": str(self.checkpoint or ""), "logPath": "",
            "terminationPath": str(folder / "termination"), "interface": "lo", **changes,
        }
        read, write = os.pipe()
        with open(folder / "stderr", "wb") as log, open(folder / "stdout", "wb") as output:
            process = subprocess.Popen(
                [*prefix, program or binary("lockstep-agent"), "--config-fd", str(read)],
                stdin=subprocess.DEVNULL, stdout=stdout or output, stderr=log, pass_fds=[read],
                env=self.environment)
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(config, pipe)
        agent = Agent(machine, attempt, process, folder, config["listen"])
        if machine in self.agents:
            self.past.append(self.agents[machine])
        self.agents[machine] = agent
        return agent

    def replace(self, machine, **options):
        """The next attempt of a machine whose agent has ended."""
        self.epoch += 1
        return self.start_agent(machine, self.epoch, **options)

    # ---- what agents say ----

    def connect(self, machine=0, identity=None, key=None):
        identity = identity or f"lockstep-v1:{self.job_uid}"
        return TlsConnection(self.agents[machine].listen, identity, key or self.key)

    def request(self, machine, method, path, body=None):
        agent = self.agents[machine]
        if self._clients.get(machine, (None, None))[0] is not agent:
            self._forget(machine)
            self._clients[machine] = (agent, HttpClient(self.connect(machine)))
        try:
            return self._clients[machine][1].request(method, path, body)
        except (Closed, TimeoutError):
            self._forget(machine)
            raise

    def _forget(self, machine):
        _, client = self._clients.pop(machine, (None, None))
        if client:
            client.close()

    def status(self, machine=0):
        """None where nobody answers."""
        agent = self.agents[machine]
        if not agent.running or agent.stopped:
            return None
        try:
            code, body = self.request(machine, "GET", "/status")
        except (Closed, TimeoutError):
            return None
        assert code == 200, body
        status = json.loads(body)
        for name, value in status["counters"].items():
            self.counters[name] = max(value, self.counters.get(name, 0))
        return status

    def wait_status(self, condition, what, machine=0, patience=PATIENCE):
        last = None

        def satisfied():
            nonlocal last
            last = self.status(machine) or last
            return last if last and condition(last) else None

        return wait_until(
            satisfied, lambda: f"{what}; machine {machine} says {last}\n{self.logs()}", patience)

    def wait_phase(self, phase, machine=0, patience=PATIENCE):
        return self.wait_status(lambda s: s["phase"] == phase, f"phase {phase}", machine, patience)

    def wait_running(self, after="0-0", patience=PATIENCE):
        """Running, in a later generation than `after`, and every rank can be seen; where they are to
        be stubborn, they are."""
        status = self.wait_status(
            lambda s: s["phase"] == "Running" and number(s["generation"]) > number(after),
            f"a generation after {after}", patience=patience)
        for agent in self.agents.values():
            # The environment of a process that is being exec'ed is empty for a moment.
            wait_until(lambda a=agent: a.stopped or self._are_there(a.ranks()),
                       lambda a=agent: f"the ranks of {a}: {a.ranks()}\n{self.logs()}")
        return status

    def _are_there(self, ranks):
        stubborn = "STUBBORN" in self.environment
        return len(ranks) == self.processes and all(
            processes.has_signal(pid, "SigIgn", signal.SIGTERM) or not stubborn
            for pid in ranks.values())

    def set_desired_state(self, stop=None, fenced=(), terminated=()):
        """PUT /gang. `stop`: (reason, seconds), until the next desired state."""
        self.observed += 1
        self.desired_stop = stop
        wanted = stop and {"reason": stop[0], "deadlineSeconds": stop[1]}
        body = {"jobUID": self.job_uid, "epoch": self.epoch, "observedGeneration": self.observed,
                "stop": wanted, "machineFailures": self.counters,
                **({"code": self.code} if self.code else {}),
                "fenced": [{"machine": m, "attempt": a} for m, a in fenced],
                "terminated": [{"machine": m, "attempt": a, "cause": c} for m, a, c in terminated]}
        code, answer = self.request(0, "PUT", "/gang", body)
        assert code == 200, answer
        self._told = self.agents[0]

    def logs(self):
        everyone = self.past + list(self.agents.values())
        return "\n".join(f"--- {agent}\n{agent.log}" for agent in everyone)

    # ---- the operator ----

    def heal(self):
        """Replaces every agent that has ended without a verdict, as long as nobody has one."""
        # In this order: an agent that ended after the look at verdicts may have left one.
        ended = [(machine, agent) for machine, agent in self.agents.items() if not agent.running]
        if self._verdict():
            return
        for machine, agent in ended:
            wait_until(lambda a=agent: not self.left_of(a), f"what {agent} started to die")
            self.replace(machine)
        if not self._is_told() and self.status():
            with contextlib.suppress(Closed):
                self.set_desired_state(self.desired_stop)

    def _is_told(self):
        """Whether this machine 0 has what the last one had counted and heard."""
        return not self.past or self._told is self.agents[0]

    def heal_until_running(self, satisfied=lambda status: True, patience=PATIENCE):
        """The status of machine 0 then. A death that nobody has noticed yet is not in it, unless
        `satisfied` asks for it."""
        def running():
            self.heal()
            status = self.status(0)
            runs = status and status["phase"] == "Running" and self._is_told()
            return status if runs and satisfied(status) else None

        return wait_until(running, lambda: f"the gang to run again\n{self.logs()}", patience)

    def _verdict(self):
        highest = self.agents[0].attempt if 0 in self.agents else 0
        for agent in self.agents.values():
            told = agent.termination
            if not agent.running and told and told["verdict"]:
                if number(told["generation"])[0] >= highest:
                    return told
        return None

    def verdict(self, patience=PATIENCE, insist=True):
        """The job's verdict, healing on the way. Then every agent is gone, of itself if `insist`."""
        def reached():
            self.heal()
            return self._verdict()

        told = wait_until(reached, lambda: f"a verdict\n{self.logs()}", patience)
        for agent in self.agents.values():
            if not insist and agent.running:
                agent.process.terminate()
        wait_until(lambda: not any(a.running for a in self.agents.values()),
                   lambda: f"all agents to leave\n{self.logs()}")
        return told

    # ---- the end ----

    def left_of(self, agent):
        """What one machine has started and is alive."""
        return [pid for pid in processes.with_variable(MARK, self.job_uid)
                if pid != agent.pid
                and processes.environment(pid).get("LOCKSTEP_MACHINE") == str(agent.machine)]

    def left(self):
        return processes.with_variable(MARK, self.job_uid)

    def close(self):
        for machine in list(self._clients):
            self._forget(machine)
        for agent in self.past + list(self.agents.values()):
            if agent.running:
                agent.kill()
        for proxy in self.proxies.values():
            proxy.close()
        for gate in self._gates.values():
            os.close(gate)
        self._gates.clear()
        try:
            wait_until(lambda: not self.left(), lambda: f"orphans {self.left()} to die", 10)
        finally:
            for pid in self.left():
                os.kill(pid, signal.SIGKILL)


def number(generation):
    """"2-5" as (2, 5), to compare."""
    attempt, _, n = generation.partition("-")
    return int(attempt or 0), int(n or 0)
