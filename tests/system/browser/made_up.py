"""Views as cli/ui writes them (docs/internals/page.md), made up: of states that a real run seldom has."""

MACHINES, PROCESSES = 4, 4
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def listed(*items):
    return {"from": 0, "dropped": 0, "items": list(items)}


def generation(name, at, last_step, **more):
    return {"generation": name, "announced": at, "spawned": at + 0.1, "firstStep": at + 0.8,
            "lastStep": last_step, "resumedAt": 1, "respawn": None, **more}


def failed(name, at, last_step, message, stderr="", **parts):
    """A generation that failed 30 s after its announcement, and was stopped 0.05 s later."""
    end = at + 30
    respawn = {"detect": 0.05, "stop": 0.041, "wait": 1.0, "spawn": 0.012, "firstStep": 0.706,
               "redone": 4.1, "redoneSteps": 21, "seconds": 1.103, **parts}
    return generation(name, at, last_step, died=end, stopSent=end + 0.05, allStopped=end + 0.091,
                      ended=end + 0.091, respawn=respawn,
                      failure={"cause": "ProcessSignal", "rank": 11, "machine": 2,
                               "message": message, "stderr": stderr})


def view(machines=MACHINES, processes=PROCESSES, state="Running", **more):
    """A gang at step 300 after one restart; rank 9 is slow."""
    ranks = list(range(machines * processes))
    reason = "rank 11 on machine 2 was killed by SIGKILL"
    line = {"n": 1, "t": 3.25, "r": 0, "s": "out", "m": "step 25 loss 9.1"}
    error = {"n": 2, "t": 29.5, "r": 11, "s": "err", "m": "RuntimeError: made up"}
    made = {
        "format": 1, "version": 7, "now": 60.0, "heard": 60.0, "live": False, "exitCode": 0,
        "job": {"name": "made-up", "uid": "0", "machines": machines, "processes": processes,
                "framework": "Torch", "launch": "Ranks", "bind": "Node", "where": "one computer",
                "command": ["python3", "train.py"], "began": "2026-11-29T12:00:00Z", "logNote": "",
                "lockstep": "0.2.0"},
        "status": {
            "state": state, "reason": "all ranks are running",
            "progress": {"step": 300, "totalSteps": 1200, "percent": 25,
                         "metrics": [{"name": "loss", "value": "2.5"}]},
            "restarts": {"total": 1, "application": 1, "infrastructure": 0, "stopped": 0},
            "ledger": {"elapsedMilliseconds": 60000, "goodput": "87.5%",
                       "machineMilliseconds": {"Productive": 210000, "Redone": 16400, "Stop": 164,
                                               "StartUp": 13436},
                       "lostTo": {"None": 3600, "ProcessSignal": 26400}}},
        "gang": {"phase": "Running", "reason": "", "generation": "1-2",
                 "straggler": {"machine": 2, "cost": 0.28, "steps": 30,
                               "because": "its ranks differ among themselves"}},
        "machines": {"state": ["Running"] * machines, "attempt": [1] * machines,
                     "silent": [0.1] * machines, "binding": ["Node"] * machines,
                     "note": [""] * machines},
        "ranks": {"by": "rank", "totalSteps": 1200, "rank": ranks, "step": [300 for _ in ranks],
                  "loss": [2.5 for _ in ranks], "tokensPerSecond": [4000.0 for _ in ranks],
                  "stepSeconds": [0.19 for _ in ranks],
                  "waitSeconds": [0.005 if rank == 9 else 0.06 for rank in ranks]},
        "bindings": {"rank": ranks, "cpus": [f"{rank}" for rank in ranks], "why": ["" for _ in ranks]},
        "generations": listed(failed("1-1", 1.0, 150, reason, error["m"]),
                              generation("1-2", 32.1, 300, resumedAt=130, warm=True)),
        "events": listed({"t": 31.1, "text": reason}, {"t": 32.2, "text": "all ranks running again"}),
        "series": {"from": 0, "t": [5.0, 15.0, 25.0, 35.0, 45.0, 55.0],
                   "step": [20, 70, 120, 140, 200, 280], "loss": [9.5, 7.1, 5.5, 5.2, 3.9, 2.5],
                   "stepsPerSecond": [5.0, 5.0, 5.1, None, 5.2, 5.25]},
        "logs": {"0": [line], "11": [error]},
        "topology": {"0": {"svg": SVG, "notes": [], "ranks": [
            {"rank": 0, "cpus": "0-3", "memory": "node 0", "gpus": [], "nics": ["eth0"], "why": "near"}]}},
    }
    return {**made, **more}


SVG = ("<svg xmlns='http://www.w3.org/2000/svg' width='90' height='30'><text y='20'>node 0</text>"
       "<script>parent.document.title='owned'</script></svg>")


def huge(machines=4096, processes=8):
    """A view of more than 512 ranks is by machine. Some machines start, three are lost."""
    numbers = list(range(machines))
    states = ["Lost" if m in (77, 78, 79) else "Starting" if 2040 <= m < 2056 else "Running"
              for m in numbers]
    made = view(machines, processes)
    columns = {"state": states, "attempt": [1] * machines, "silent": [0.1] * machines,
               "binding": ["Node"] * machines, "note": [""] * machines}
    ranks = {"by": "machine", "totalSteps": 1200, "machine": numbers, "step": [300] * machines,
             "stepMost": [301] * machines, "loss": [2.4 + m / 4096 for m in numbers],
             "tokensPerSecond": [800.0] * machines, "stepSeconds": [0.2] * machines,
             "waitSeconds": [0.004 if m == 1234 else 0.06 for m in numbers]}
    return {**made, "machines": columns, "ranks": ranks, "bindings": None,
            "gang": {"straggler": {"machine": 1234, "cost": 0.28, "steps": 30, "because": ""}}}
