#!/usr/bin/env python3
"""check_pairs.py LOCKSTEP_GANG_STATES: fails unless every state of core's state machines has, with
every victim, a way to get there or a written reason why the pair cannot exist."""

import subprocess
import sys

from kill_states import UNREACHABLE, VICTIMS, WAYS


def states(program):
    """Every (machine, state) of core's enums, e.g. ("coordinator", "Fencing")."""
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [tuple(line.split()) for line in lines.splitlines()]


def problems(all_states):
    found = []
    for state in all_states:
        for victim in VICTIMS:
            tested, excused = state in WAYS, (state, victim) in UNREACHABLE
            if not tested and not excused:
                found.append(f"{state[0]} in {state[1]}, {victim} killed: no test and no reason")
    known = set(all_states)
    named = set(WAYS) | {state for state, _ in UNREACHABLE}
    found += [f"{state[0]} has no state {state[1]}" for state in sorted(named - known)]
    return found


if __name__ == "__main__":
    complaints = problems(states(sys.argv[1]))
    if complaints:
        sys.exit("tests/system/faults/kill_states.py:\n  " + "\n  ".join(complaints))
