"""What the training programs of the benchmarks share: stamps as _bench.py reads them, and a death.

A program stamps start, imported, joined (the process group stands) and step (the first one is
done), and calls done() after every step. In the first generation the last rank kills itself once
the file BENCH_DIE is there; later ones train a few steps and are done.

BENCH_SILENT  seconds in which no step is reported, so that no parked interpreter is made; default 0
BENCH_PAUSE   seconds between steps; default 0.02
BENCH_TICKS   not empty: rank 0 stamps every tenth step as tick
"""

import os
import signal
import socket
import time

TIMES = os.open(os.environ["BENCH_TIMES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
RESTARTED = int(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0)
SILENT = float(os.environ.get("BENCH_SILENT", "0"))
PAUSE = float(os.environ.get("BENCH_PAUSE", "0.02"))
TICKS = bool(os.environ.get("BENCH_TICKS")) and RANK == 0

_steps = 0
_first = 0.0
_reported = False


def stamp(event):
    ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(TIMES, f"{event} {RANK} {RESTARTED} {ns}\n".encode())


def _report():
    """Interpreters are parked from the first reported step on."""
    global _reported
    if _reported or time.monotonic() - _first < SILENT or "LOCKSTEP_SOCKET" not in os.environ:
        return
    _reported = True
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(os.environ["LOCKSTEP_SOCKET"])
        agent.sendall(f'{{"rank": {RANK}, "step": 1}}\n'.encode())


def done():
    """One more step is done. Whether it was the last."""
    global _steps, _first
    _steps += 1
    if _steps == 1:
        stamp("step")
        _first = time.monotonic()
    _report()
    if TICKS and _steps % 10 == 0:
        stamp("tick")
    if PAUSE:
        time.sleep(PAUSE)
    if RESTARTED:
        return _steps == 6
    if RANK == WORLD - 1 and _steps > 5 and os.path.exists(os.environ["BENCH_DIE"]):
        stamp("death")
        os.kill(os.getpid(), signal.SIGKILL)
    return False


stamp("start")
