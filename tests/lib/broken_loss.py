"""A program whose loss is NaN from a step on, and the bits with which it ends without the data of that step."""

import hashlib

# Its state is a hash over the data of all steps. The data of step BAD breaks it for good.
TRAIN = """\
import hashlib, json, os, struct, lockstep
BAD, LAST, EVERY = 500, 700, 100
rank = int(os.environ.get("RANK", "0"))
state, broken, first = "start", False, 1
folder = lockstep.latest()
if folder:
    with open(os.path.join(folder, "state.json")) as file:
        first, state, broken = json.load(file)
print("begins at", first, "skips", os.environ.get("LOCKSTEP_SKIP_STEPS"), flush=True)
for step in range(first, LAST + 1):
    if not lockstep.skips(step):
        broken = broken or step == BAD
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
    lockstep.report(step=step, total_steps=LAST, loss=float("nan") if broken else 100 / step)
    if rank == 0 and step % EVERY == 0:
        where = os.path.join(lockstep.checkpoint_dir() or "out", f"step-{step}")
        os.makedirs(where)
        with open(os.path.join(where, "state.json"), "w") as file:
            json.dump([step + 1, state, broken], file)
        lockstep.commit(where)
print("bits", state, broken, flush=True)
"""


def undisturbed(bad):
    """The bits of a run that left out step `bad` from the start."""
    state = "start"
    for step in range(1, 701):
        if step != bad:
            state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
    return state
