"""role_program.py FOLDER: a rank of a role. At its Nth start it leaves FOLDER/ROLE-INDEX.N with what
it finds in its environment, and runs until somebody writes its exit code to FOLDER/ROLE-INDEX, a
FIFO. With LEAVES=ROLE one of that role leaves a process behind that outlives it, and tells whether
it met its own of the start before.
"""

import json
import os
import pathlib
import subprocess
import sys

NAMES = ("RANK", "LOCKSTEP_ROLE", "LOCKSTEP_ROLE_RANK", "LOCKSTEP_ROLE_SIZE", "ROLE_NAME",
         "ROLE_RANK", "ROLE_WORLD_SIZE", "TF_CONFIG", "LOCKSTEP_GENERATION", "TMPDIR",
         "LOCKSTEP_RESTARTS", "MASTER_PORT")

folder = pathlib.Path(sys.argv[1])
role, index = os.environ["LOCKSTEP_ROLE"], os.environ["LOCKSTEP_ROLE_RANK"]
name = f"{role}-{index}"
told = {each: os.environ.get(each) for each in NAMES}
left = folder / f"left-{name}"
told["met"] = None
if left.exists() and pathlib.Path("/proc", left.read_text()).exists():
    told["met"] = left.read_text()
if os.environ.get("LEAVES") == role:
    left.write_text(str(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid))
start = len(list(folder.glob(f"{name}.*"))) + 1
new = folder / f"new-{name}"
new.write_text(json.dumps(told))
new.rename(folder / f"{name}.{start}")
sys.exit(int((folder / name).read_text()))
