"""A program cannot tell a parked start from a plain one."""

import json
import pathlib

import pytest

FACETS = (pathlib.Path(__file__).parent / "facets.py").read_text()
ONE_LINE = "import runpy; print(__name__); runpy.run_path('facets.py', run_name='__main__')"
WAYS = {
    "script": ["-u", "facets.py", "--raise"],
    "module": ["-W", "ignore::UserWarning", "-X", "dev", "-m", "facets", "a b"],
    "command": ["-c", ONE_LINE, "x"],
    "zipapp": ["app.pyz", "y"],
    "folder": ["-s", "folder"],
}


def program(environment):
    environment.program("facets.py", FACETS)
    environment.program("folder/__main__.py", FACETS)
    environment.zipapp(FACETS)


def seen(environment, words, name, parked, users=None, children="", late=None):
    out = environment.folder / f"facets-{name}"
    extra = {"FACETS_TO": str(environment.folder / "facets"), "FACETS_CHILDREN": children}
    if users:
        extra["PYTHONPATH"] = users
    late = {"MASTER_PORT": "4711", "LOCKSTEP_GENERATION": "1-2", **(late or {})}
    if parked:
        with environment.park(*words, extra={**extra, "REMOVED": "1"}) as process:
            ready = process.ready()
            assert ready["modules"] > 10, ready
            process.go(**late, REMOVED=None)
            result = process.result()
    else:
        result = environment.run(*words, extra={**extra, **late})
    (environment.folder / "facets").rename(out)
    return json.loads(out.read_text()), result


def compare(environment, words, **options):
    program(environment)
    methods = options.get("children", "")
    environment.record(*words, extra={"FACETS_TO": "/dev/null", "FACETS_CHILDREN": methods})
    plain, told = seen(environment, words, "plain", parked=False, **options)
    parked, told_parked = seen(environment, words, "parked", parked=True, **options)
    differing = {key: (plain[key], parked[key]) for key in plain if plain[key] != parked[key]}
    assert differing == {}
    assert told_parked == told


@pytest.mark.parametrize("way", WAYS)
def test_parked_start_of_each_program_form_matches_plain_start(first, way):
    compare(first, WAYS[way])


def test_parked_start_matches_plain_start_on_each_python(every):
    compare(every, WAYS["script"])


def test_parked_start_matches_plain_start_in_conda_layout(conda):
    compare(conda, WAYS["module"])


def test_parked_start_matches_plain_start_in_children_of_each_start_method(first):
    compare(first, ["facets.py"], children="fork spawn forkserver")


def test_parked_start_restores_pythonpath_of_user(first):
    other = first.folder / "others"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import os\nos.environ['OWN_HOOK'] = 'ran'\n")
    (other / "usercustomize.py").write_text("import os\nos.environ['USERS_HOOK'] = 'ran'\n")
    compare(first, ["facets.py"], users=f"{other}:relative")


def test_parked_start_with_stacks_folder_holds_one_extra_file_at_descriptor_200(first):
    (first.folder / "stacks").mkdir()
    program(first)
    script = WAYS["script"]
    asked = {"LOCKSTEP_SOCKET": f"{first.folder}/agent.sock"}
    first.record(*script, extra={"FACETS_TO": "/dev/null", "FACETS_CHILDREN": "", **asked})
    plain, told = seen(first, script, "plain", parked=False, late=asked)
    parked, told_parked = seen(first, script, "parked", parked=True, late=asked)
    more = [file for file in parked.pop("files") if file not in plain["files"]]
    del plain["files"]
    assert {key: (plain[key], parked[key]) for key in plain if plain[key] != parked[key]} == {}
    assert told_parked == told
    assert more == ["200"]


ASKED = """
import os, signal, sys
def where(pid):
    with open(f"{os.path.dirname(os.environ['LOCKSTEP_SOCKET'])}/stacks/{pid}") as file:
        return file.read()
def ask():
    os.kill(os.getpid(), 51)
    return where(os.getpid())
assert "faulthandler" not in sys.modules
parent = where(os.getpid())
assert "in ask" in ask()
child = os.fork()
if child == 0:
    assert "in ask" in ask()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert "in ask" not in parent and where(os.getpid()).count("in ask") == 1
import faulthandler
faulthandler.unregister(51)
assert signal.getsignal(51) is signal.SIG_DFL
signal.signal(51, lambda *_: print("its own"))
if os.fork() == 0:
    os.kill(os.getpid(), 51)
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def test_process_and_forked_child_write_stacks_to_separate_files(every):
    (every.folder / "stacks").mkdir()
    every.program("asked.py", ASKED)
    asked = {"LOCKSTEP_SOCKET": f"{every.folder}/agent.sock"}
    assert every.record("asked.py", extra=asked) == (0, "its own\n", "")


def test_each_parked_start_has_its_own_random_seed_and_hash_seed(first):
    first.learn("random", "hashlib")
    said = set()
    for _ in range(2):
        with first.park("-c", "import random; print(random.random(), hash('lockstep'))") as process:
            process.ready()
            process.go()
            code, out, err = process.result()
            assert (code, err) == (0, "")
            said.update(out.split())
    assert len(said) == 4
