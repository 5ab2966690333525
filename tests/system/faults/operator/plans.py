"""Plans: a scenario and the faults that strike in it. A file holds one, as JSON:

    {"scenario": "create",
     "faults": [{"verb": "POST", "resource": "pods", "name": "gpt-1", "do": "crash-after"}]}

Those in the folder plans/ are always played.
"""

import dataclasses
import json
import pathlib

from api_proxy import Fault, counted

CLUSTER = ("--gangs", "api-server")  # what tools/lib/cluster/up is asked for
CRASHES = ("crash-before", "crash-after")
ANSWERS = [
    {"do": "answer", "status": 409},
    {"do": "answer", "status": 429},
    {"do": "answer", "status": 429, "retry_after": 1},
    {"do": "answer", "status": 500},
    {"do": "answer-after", "status": 504},
    {"do": "truncate"},
    {"do": "html"},
    {"do": "drop-before"},
    {"do": "drop-after"},
    {"do": "stall", "seconds": 5.0},
    {"do": "restart", "seconds": 2.0},
    {"do": "touch"},
]
WATCH_FAULTS = [
    {"do": "cut"}, {"do": "tear"}, {"do": "gone"}, {"do": "twice"}, {"do": "delay", "seconds": 2.0},
    {"do": "crash-before"}, {"do": "crash-after"},
]
RENEWALS = 2  # of the Lease, before which and after which the operator is killed


@dataclasses.dataclass
class Plan:
    scenario: str
    faults: list = dataclasses.field(default_factory=list)  # as keyword arguments of Fault
    operators: int = 1  # of which one leads
    options: list = dataclasses.field(default_factory=list)  # of the operators

    @classmethod
    def read(cls, path):
        return cls(**json.loads(pathlib.Path(path).read_text()))

    def write(self, path):
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    def made_faults(self):
        return [Fault(**each) for each in self.faults]

    @property
    def name(self):
        parts = [self.scenario]
        for fault in self.faults:
            aim = [str(fault[key]) for key in ("verb", "resource", "name", "nth") if key in fault]
            what = "-".join(str(fault[each]) for each in ("do", "status") if each in fault)
            parts.append(" ".join([*aim, what]))
        return ": ".join(parts)


def aims(keys):
    for key, nth in counted(keys):
        yield {"verb": key.verb, "resource": key.resource, "name": key.name, "nth": nth}


def crash_plans(reference):
    """One before and one after every write of the reference run."""
    return [Plan(reference.scenario, [{**aim, "do": do}])
            for aim in aims(call.key for call in reference.writes)
            if aim["resource"] != "leases" or aim["nth"] <= RENEWALS
            for do in CRASHES]


def answer_plans(reference):
    return [Plan(reference.scenario, [{**aim, **fault}])
            for aim in aims(call.key for call in reference.writes)
            if aim["resource"] not in ("leases", "events")
            for fault in ANSWERS
            if fault["do"] != "touch" or aim["verb"] != "POST"]


def watch_plans(reference):
    return [Plan(reference.scenario, [{**aim, **fault}])
            for aim in aims(key for key in reference.events if key.verb != "BOOKMARK")
            for fault in WATCH_FAULTS]
