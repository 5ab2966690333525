"""A parked interpreter holds, whatever it imports, and is as a plain start then; or it says why."""

import json
import os
import signal
import socket
import subprocess
import textwrap
import time

import pytest
from parking import OLD_PYTHONS
from waiting import wait_until

# What an import does to its process, and what the program then sees of it in a plain start.
HOSTILE = {
    "exits": "import sys; sys.exit(3)",
    "raises": "raise RuntimeError('no device')",
    "is missing something": "import never_there",
    "changes folder": "import os; os.chdir('/')",
    "handles a signal": "import signal; signal.signal(10, lambda *a: None)",
    "ignores a signal": "import signal; signal.signal(10, signal.SIG_IGN)",
    "logs": "import logging; logging.warning('careful')",
    "chooses a start method": "import multiprocessing as m; m.set_start_method('spawn')",
    "puts itself first": "import sys; sys.path.insert(0, '/first')",
    "reads what comes late": "import os; port = os.environ.get('MASTER_PORT')",
}
LOOK = """
import logging, multiprocessing, os, signal, sys
before = [os.getcwd(), signal.getsignal(10), logging.root.handlers, sys.path[0] == '/first',
          multiprocessing.get_start_method(allow_none=True)]
logging.basicConfig(level=logging.INFO, format='%(message)s')
import hostile
logging.info('informed')
print(before, os.getcwd(), len(logging.root.handlers), getattr(hostile, 'port', ''))
"""


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def woken(pid):
    """How often each thread of a process has gone to sleep."""
    tasks = [f"{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return {task: status(task)["voluntary_ctxt_switches"] for task in tasks}


def wait_asleep(pid):
    """Until no thread of a process wakes any more; how often each has gone to sleep by then."""
    def asleep():
        before = woken(pid)
        time.sleep(0.5)
        # One that gets no CPU does not sleep.
        states = [status(task)["State"][0] for task in before]
        return before if set(states) == {"S"} and woken(pid) == before else None

    return wait_until(asleep, f"{pid} to sleep")


# Says on stdout that it is being imported, and goes on when it is let.
SLOW = """
import os, time
os.write(1, b'importing\\n')
while not os.path.exists('imported'):
    time.sleep(0.01)
"""


def importing(process):
    assert process.message() == {"held": "n1"}
    assert process.printed() == "importing\n"


def import_on(environment):
    (environment.home / "imported").touch()


@pytest.mark.parametrize("what", HOSTILE)
def test_parked_interpreter_leaves_unsafe_import_to_program(first, what):
    first.package("hostile", HOSTILE[what])
    train = first.program("train.py", LOOK)
    plain = first.run(train, extra={"MASTER_PORT": "4711"})
    first.learn("colorsys", "hostile", "wave")
    with first.park(train) as process:
        assert process.ready()["modules"] == 2
        (why,) = process.left
        assert why.startswith("hostile ")
        process.go(MASTER_PORT="4711")
        parked = process.result()
    assert parked[:2] == plain[:2] and parked[2].endswith(plain[2])  # after what parking printed
    assert "exclude hostile" in first.learnt()


def test_parked_interpreter_skips_packages_that_need_unsafe_import(every):
    every.package("hostile", "import os; os.chdir('/')")
    every.package("middle", "import hostile")
    every.package("outer", "import middle")
    every.learn("hostile", "middle", "colorsys", "outer", "wave")
    with every.park("-c", "import os, sys; print(os.getcwd(), 'outer' in sys.modules)") as process:
        assert process.ready()["modules"] == 2
        process.go()
        assert process.result() == (0, f"{every.home} False\n", "")


def test_parked_interpreter_reports_import_that_starts_process_and_exits(first):
    # A child is found whatever its environment says.
    first.package("hostile", "import subprocess; subprocess.Popen(['/bin/sleep', '60'], env={})")
    first.learn("hostile")
    with first.park("-c", "print('ran')") as process:
        assert process.message() == {"held": "n1"}
        why = "hostile starts a process when it is imported"
        assert process.message() == {"cannot": "n1", "why": why}
        assert process.process.wait(60) == 0
        os.killpg(process.pid, signal.SIGKILL)
        assert process.process.stdout.read() == ""


# A daemon is nobody's child: by a shell that leaves it, and by two forks of Python's own.
DAEMONS = {
    "a program": "import subprocess; subprocess.check_call(['sh', '-c', 'exec 3>&-; sleep 60 &'])",
    "a fork": """
        import os, time
        middle = os.fork()
        if middle == 0:
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.waitpid(middle, 0)
    """,
}


@pytest.mark.parametrize("what", DAEMONS)
def test_parked_interpreter_reports_import_that_leaves_daemon_and_exits(first, what):
    first.package("daemon", textwrap.dedent(DAEMONS[what]))
    first.learn("colorsys", "daemon", "wave")
    with first.park("-c", "print('ran')") as process:
        assert process.message() == {"held": "n1"}
        why = "daemon starts a process when it is imported"
        assert process.message() == {"cannot": "n1", "why": why}
        assert process.process.wait(60) == 0
        os.killpg(process.pid, signal.SIGKILL)
        assert process.process.stdout.read() == ""
    assert "exclude daemon" in first.learnt()


def test_parked_interpreter_reports_daemon_of_last_import(first):
    first.package("daemon", DAEMONS["a program"])
    first.learn("colorsys", "daemon")
    with first.park("-c", "print('ran')") as process:
        assert process.message() == {"held": "n1"}
        assert process.message()["why"] == "daemon starts a process when it is imported"
        os.killpg(process.pid, signal.SIGKILL)


def test_parked_interpreter_ignores_daemon_of_other_program(first):
    code = "import subprocess; subprocess.check_call(['sh', '-c', 'sleep 60 &'])"
    first.package("slow", SLOW)
    first.learn("slow", "colorsys")
    with first.park("-c", "print('ran')") as process:
        importing(process)
        with first.start("-c", code) as other:
            assert other.process.wait(60) == 0  # and its daemon runs on
            import_on(first)
            assert process.message()["modules"] == 2
            process.go()
            assert process.result() == (0, "ran\n", "")


def test_lockstep_parked_variable_exists_only_during_early_imports(first):
    first.package("early", "import os; mark = os.environ.get('LOCKSTEP_PARKED')")
    first.learn("early")
    code = "import early, os; print(early.mark, sorted(n for n in os.environ if n[:8] == 'LOCKSTEP'))"
    with first.park("-c", code) as process:
        pid = process.pid
        process.ready()
        process.go()
        assert process.result() == (0, f"n1.{pid} []\n", "")


# A /dev of this process's own, where the driver's file is one that anybody may open, as NVIDIA's is.
WITH_A_GPU = ["unshare", "--mount", "sh", "-c",
              'mount -t tmpfs none /dev && : >/dev/nvidiactl && exec "$@"', "sh"]


# As libcuda opens it, whose files an exec closes; and as one that forgets that.
DRIVERS = {
    "for itself": "driver = open('/dev/nvidiactl')",
    "for its children": "import os; os.set_inheritable(os.open('/dev/nvidiactl', 0), True)",
}


@pytest.mark.parametrize("how", DRIVERS)
def test_parked_interpreter_leaves_import_that_opens_gpu_driver_to_program(first, how):
    if subprocess.run([*WITH_A_GPU, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace of one's own here")
    first.package("cuda_at_import", DRIVERS[how])
    first.learn("colorsys", "cuda_at_import", "wave")
    code = "import sys; print(sorted({'cuda_at_import', 'wave'} & set(sys.modules)))"
    with first.park("-c", code, before=WITH_A_GPU) as process:
        assert process.ready()["modules"] == 2
        assert process.left == ["cuda_at_import opens /dev/nvidiactl when it is imported"]
        opened = [os.readlink(f"/proc/{process.pid}/fd/{fd}")
                  for fd in os.listdir(f"/proc/{process.pid}/fd")]
        assert "/dev/nvidiactl" not in opened
        process.go()
        assert process.result() == (0, "['wave']\n", "")
    assert "exclude cuda_at_import" in first.learnt()


def test_child_forked_by_import_never_parks(first):
    first.package("hostile", "import os; child = os.fork()\nif child: os.waitpid(child, 0)")
    first.learn("hostile", "colorsys")
    with first.park("-c", "print('ran')") as process:
        assert process.ready()["modules"] == 2
        process.go()
        assert process.result() == (0, "ran\n", "")


def test_parked_interpreter_flushes_import_output_before_ready_message(first):
    first.package("hostile", "print('x' * 10000)")
    first.learn("hostile")
    with first.park("-c", "print('ran')") as process:
        process.ready()
        assert process.printed() == "x" * 10000 + "\n"
        process.go()
        assert process.result() == (0, "ran\n", "")


def test_parked_interpreter_exits_silently_when_agent_closes_socket(every):
    every.learn("colorsys")
    with every.park("-c", "print('ran')") as process:
        process.ready()
        process.let_go()
        assert process.result() == (0, "", "")


def test_importing_interpreter_exits_silently_when_agent_closes_socket(first):
    first.package("slow", SLOW)
    first.learn("slow", "colorsys")
    with first.park("-c", "print('ran')") as process:
        importing(process)
        process.let_go()
        import_on(first)
        assert process.result() == (0, "", "")


def test_early_go_message_stops_remaining_imports(every):
    every.package("slow", SLOW)
    every.package("later", "print('too late')")
    every.learn("slow", "later")
    code = "import os, sys; print(os.environ['MASTER_PORT'], 'slow' in sys.modules)"
    with every.park("-c", code) as process:
        importing(process)
        process.go(MASTER_PORT="4711")
        import_on(every)
        assert process.message() is None
        assert process.result() == (0, "4711 True\n", "")


def test_go_message_during_unsafe_import_leads_to_plain_start(first):
    first.package("hostile", SLOW + "os.chdir('/')")
    first.learn("hostile", "colorsys")
    code = "import os; print(os.getcwd(), os.environ['MASTER_PORT'], os.environ.get('PYTHONPATH'))"
    with first.park("-c", code) as process:
        importing(process)
        process.go(MASTER_PORT="4711")
        import_on(first)
        assert process.result() == (0, f"{first.home} 4711 None\n", "")


@pytest.mark.parametrize("value", ["pa", "park:99:n:l", "park:x:n:l", "park", "unknown:3:n:l"])
def test_interpreter_with_malformed_prestart_variable_never_runs_program(first, value):
    result = first.run("-c", "print('ran')", mode=value)
    assert (result[0], result[1]) == (70, "")


def test_interpreter_with_malformed_go_message_never_runs_program(first):
    with first.park("-c", "print('ran')") as process:
        process.ready()
        process.socket.sendall(b'{"gone": {}}\n')
        assert process.result()[:2] == (70, "")


def test_program_receives_variables_of_go_message_unchanged(every):
    values = {"A": "a\"\\\n\t\u00fc\U0001f600", "EMPTY": "", "PYTHONHASHSEED": "1", "B-C": "{}, "}
    code = "import json, os; print(json.dumps([os.environ.get(n) for n in %r]))" % list(values)
    with every.park("-c", code, extra={"PYTHONUTF8": "1"}) as process:
        process.ready()
        process.go(**values)
        code, out, err = process.result()
    assert (code, err) == (0, "")
    assert json.loads(out) == list(values.values())


# Notes each pause, and listens on MASTER_PORT in that of number LISTENS.
PAUSES = """
import os, time
pauses, sleep = [], time.sleep
def pause(seconds):
    global listener
    pauses.append(seconds)
    if len(pauses) == int(os.environ.get("LISTENS", "0")):
        import socket
        listener = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
    sleep(seconds)
time.sleep = pause
"""


def pauses(environment, mode="park", own=PAUSES, **variables):
    """Of a rank, before its program begins."""
    own = environment.program("own/sitecustomize.py", own)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    code = "import sitecustomize; print(sitecustomize.pauses)"
    extra = {"PYTHONPATH": os.path.dirname(own), **variables}
    with environment.park("-c", code, mode=mode, extra=extra) as process:
        process.ready()
        process.go(MASTER_PORT=port)
        code, out, err = process.result()
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.mark.parametrize("rank, paused", [("0", []), ("3", [0.05]), (None, [])])
def test_rank_0_starts_50_ms_before_ranks_on_other_computers(first, rank, paused):
    variables = {"RANK": rank} if rank else {}
    assert pauses(first, MASTER_ADDR="10.0.0.1", GROUP_RANK="1", **variables) == paused


@pytest.mark.parametrize("here", [{"MASTER_ADDR": "127.0.0.1"}, {"GROUP_RANK": "0"}])
def test_rank_starts_when_rank_0_listens(every, here):
    assert pauses(every, RANK="3", LISTENS="3", **here) == [0.005] * 3


LOCAL = {"RANK": "3", "GROUP_RANK": "0"}


def test_rank_waits_three_times_for_rank_0_that_listens_late(first):
    first.learn("colorsys")
    for times in range(1, 4):
        assert len(pauses(first, "park+record", **LOCAL)) > 3
        assert first.learnt().count("late MASTER_PORT") == times
    assert pauses(first, "park+record", **LOCAL) == [0.05]


def test_rank_0_that_listened_late_on_busy_computer_is_waited_for_again(first):
    first.learn("colorsys", "late MASTER_PORT", "late MASTER_PORT")
    assert pauses(first, "park+record", LISTENS="3", **LOCAL) == [0.005] * 3
    assert "early MASTER_PORT" in first.learnt()
    first.learn("late MASTER_PORT", "late MASTER_PORT", "late MASTER_PORT")
    assert pauses(first, "park+record", LISTENS="1", **LOCAL) == [0.05]
    assert pauses(first, "park+record", LISTENS="3", **LOCAL) == [0.005] * 3


# Notes each read of the table of connections as -1. No socket of this namespace is opened or closed
# meanwhile, and the sums of the whole host differ at each look.
READS = PAUSES + """
import builtins, io
opened = open
def note(path, *words, **named):
    if path == "/proc/self/net/tcp":
        pauses.append(-1)
    if "sockstat" in str(path):
        n = len(pauses)
        return io.BytesIO(b"sockets: used 9\\nTCP: inuse 3 orphan %d tw 0 alloc %d mem %d\\nUDP: "
                          b"inuse 1 mem %d\\n" % (n, n, n, n))
    return opened(path, *words, **named)
builtins.open = note
"""


def test_rank_that_awaits_rank_0_seldom_reads_table_of_connections(every):
    """Each read takes milliseconds of a core, which rank 0 needs."""
    noted = pauses(every, own=READS, **LOCAL)
    assert 0 < noted.count(-1) <= 5 < noted.count(0.005)


def test_hook_answers_probe_and_never_runs_user_code(every):
    every.program("own/sitecustomize.py", "print('user')")
    extra = {"PYTHONPATH": str(every.home / "own")}
    with every.park("-c", "print('ran')", mode="probe", extra=extra) as process:
        answer = process.message()
        assert (answer["probe"], answer["executable"]) == ("n1", every.python)
        assert answer["prefix"] in every.python
        assert process.result() == (0, "", "")


LEAVES_ITSELF = "import os, subprocess; print(sorted(set(os.environ) & {'PYTHONPATH', 'LOCKSTEP_PRESTART'}))"


@pytest.mark.parametrize("version", OLD_PYTHONS or [pytest.param("", marks=pytest.mark.skip)])
def test_python_older_than_3_8_runs_program_and_refuses_to_park(first, version):
    first.python = OLD_PYTHONS[version]
    assert first.record("-c", LEAVES_ITSELF) == (0, "[]\n", "")
    assert not first.list.exists()
    with first.park("-c", "print('ran')", mode="probe") as process:
        why = f"Python {version} is older than 3.8"
        assert process.message() == {"cannot": "n1", "why": why}
        assert process.result() == (0, "", "")
    with first.park("-c", "print('ran')") as process:
        assert process.result()[:2] == (70, "")


def test_program_runs_when_recording_hook_fails(every):
    """As with the `site` of old virtual environments, which has no getsitepackages()."""
    own = "lambda *words, f=site.getsitepackages: f(*words) if words else 1 / 0"
    (every.packages / "own.pth").write_text(f"import site; site.getsitepackages = {own}\n")
    assert every.record("-c", LEAVES_ITSELF) == (0, "[]\n", "")
    with every.park("-c", "print('ran')") as process:
        assert process.result()[:2] == (70, "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_python_that_ignores_hook_does_not_answer_probe(first, option):
    with first.park(option, "-c", "pass", mode="probe") as process:
        assert process.message() is None
        assert process.result()[0] == 0


@pytest.mark.parametrize("options", ["-s", "-u", "-X dev", "-W error", "-O", "-B"])
def test_parked_start_accepts_other_python_options(first, options):
    first.learn("colorsys")
    with first.park(*options.split(), "-c", "print('ran')") as process:
        process.ready()
        process.go()
        assert process.result() == (0, "ran\n", "")


@pytest.mark.parametrize("text", ["import os; os.environ['OWN'] = 'x'", "raise ValueError('own')"])
def test_sitecustomize_of_user_runs_once_and_fails_as_in_plain_start(every, text):
    own = every.program("own/sitecustomize.py", f"print('own')\n{text}")
    extra = {"PYTHONPATH": os.path.dirname(own)}
    every.learn("colorsys")
    code = "import os, sys; print(os.environ.get('OWN'), 'sitecustomize' in sys.modules)"
    plain = every.run("-c", code, extra=extra)
    assert every.record("-c", code, extra=extra) == plain
    with every.park("-c", code, extra=extra) as process:
        process.ready()
        process.go()
        assert process.result() == plain


def test_sitecustomize_that_exits_ends_parked_interpreter(first):
    own = first.program("own/sitecustomize.py", "import sys; sys.exit(4)")
    extra = {"PYTHONPATH": os.path.dirname(own)}
    plain = first.run("-c", "print('ran')", extra=extra)
    with first.park("-c", "print('ran')", extra=extra) as process:
        assert process.message() == {"held": "n1"}
        assert process.message() is None
        assert process.result()[:2] == plain[:2] == (plain[0], "")


# Some libraries take what is frozen at the end for leaks.
def test_early_imports_stay_frozen_in_gc_until_program_ends(first):
    text = "import atexit, gc\natexit.register(lambda: print(gc.get_freeze_count()))"
    own = first.program("own/sitecustomize.py", text)  # registered first, so it is called last
    first.learn("colorsys")
    extra = {"PYTHONPATH": os.path.dirname(own)}
    code = "import gc; print(gc.get_freeze_count() > 100)"
    with first.park("-c", code, extra=extra) as process:
        process.ready()
        process.go()
        assert process.result() == (0, "True\n0\n", "")


COLLECTING = """
import gc, weakref
import parked_lib
class Node:
    ended = 0
    def __del__(self):
        Node.ended += 1
for _ in range(50):
    one, other = Node(), Node()
    one.other, other.one = other, one
    seen = weakref.ref(one)
    del one, other
    gc.collect()
    assert seen() is None
print(Node.ended, gc.garbage)
"""


def test_a_program_that_collects_often_frees_its_own_cycles(every):
    every.package("parked_lib", "")
    train = every.program("train.py", COLLECTING)
    plain = every.record(train)
    assert plain == (0, "100 []\n", "")
    with every.park(train) as process:
        process.ready()
        process.go()
        assert process.result() == plain


def test_a_parked_interpreter_sleeps(first):
    first.learn("threading", "multiprocessing", "logging", "asyncio")
    with first.park("-c", "print('ran')") as process:
        process.ready()
        before = wait_asleep(process.pid)
        time.sleep(float(os.environ.get("LOCKSTEP_PARKED_SECONDS", "2")))
        assert woken(process.pid) == before
        process.go()
        assert process.result() == (0, "ran\n", "")
