"""lockstep-s3 by itself, against a real object store, with faults on the way to it."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import pytest
from faulty_http import Answer, CutAnswer, CutRequest, FaultyHttp, Hold, StallAnswer, times
from object_store import SECRET, ObjectStore, program
from waiting import wait_until

MIB = 1 << 20
CHECKPOINT = "1-1/000001.step-5"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ObjectStore(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def store(server, request):
    """Each test has a prefix of its own."""
    server.url = f"s3://bucket/run/{request.node.name}"
    server.folder_of_test = server.bucket / "run" / request.node.name
    return server


def start(store, *arguments, endpoint=None, **variables):
    environment = {**os.environ, **store.variables, **variables}
    command = [program(), "--url", store.url, "--endpoint", endpoint or store.endpoint, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, words = process.communicate(timeout=120)
    assert not words and process.returncode in (0, 1), words
    answer = json.loads(out)
    assert ("error" in answer) == (process.returncode == 1), answer
    return answer


def ask(store, *arguments, **options):
    return finish(start(store, *map(str, arguments), **options))


def well(store, *arguments, **options):
    answer = ask(store, *arguments, **options)
    assert "error" not in answer, answer
    return answer


def error(store, *arguments, **options):
    answer = ask(store, *arguments, **options)
    assert "error" in answer, answer
    return answer["error"]["kind"], answer["error"]["message"]


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def put(store, folder, checkpoint=CHECKPOINT, machine=0, **options):
    return well(store, "put-part", "--checkpoint", checkpoint, "--machine", machine, "--folder", folder, **options)


def commit(store, checkpoint=CHECKPOINT, machines=1, job="job"):
    return well(store, "commit", "--checkpoint", checkpoint, "--job", job, "--machines", machines)


def tree(folder):
    """{path: (permissions, content or target; None: a folder)}, with names as bytes."""
    found = {}
    for path, folders, files in os.walk(os.fsencode(folder)):
        for name in [b"."] + folders + files:
            each = os.path.join(path, name)
            mode = os.lstat(each).st_mode & 0o777
            if os.path.islink(each):
                content, mode = os.readlink(each), None
            else:
                content = None if os.path.isdir(each) else open(each, "rb").read()
            found[os.path.relpath(each, os.fsencode(folder))] = (mode, content)
    return found


def test_a_checkpoint_comes_back_as_it_was(store, tmp_path):
    part = write(tmp_path / "part", {"model/shard-0": os.urandom(40 * MIB + 5), "empty": b"", "a b+c%41": b"1"})
    (part / "nothing" / "in it").mkdir(parents=True)
    (part / "link").symlink_to("model/../empty")
    with open(os.fsencode(part) + b"/no-\xff-utf8", "wb") as file:
        file.write(b"bytes")
    (part / "empty").chmod(0o640)
    (part / "model").chmod(0o500)
    well(store, "begin", "--generation", "1-1", "--job", "job")
    assert put(store, part)["bytes"] == 40 * MIB + 5 + 1 + 5
    commit(store)
    assert well(store, "state") == {
        "generations": [{"generation": "1-1", "jobUID": "job", "resumes": ""}], "commits": [CHECKPOINT]}
    well(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(part)


def test_each_machine_gets_its_part_and_another_number_of_machines_the_whole(store, tmp_path):
    for machine in range(2):
        folder = write(tmp_path / str(machine), {f"shard-{machine}": b"%d" % machine, "same": b"same"})
        put(store, folder, machine=machine)
    commit(store, machines=2)
    for name, machines, expected in [("own", 2, ["same", "shard-1"]), ("all", 3, ["same", "shard-0", "shard-1"])]:
        well(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / name,
             "--machine", 1, "--machines", machines)
        assert sorted(os.listdir(tmp_path / name)) == expected


def test_of_writers_that_begin_one_generation_at_once_exactly_one_does(store):
    writers = [start(store, "begin", "--generation", "1-1", "--job", "job") for _ in range(6)]
    answers = [finish(each) for each in writers]
    assert sorted(each.get("error", {}).get("kind", "begun") for each in answers) == ["begun"] + ["conflict"] * 5


def test_of_two_checkpoints_with_one_name_the_first_stays(store, tmp_path):
    write(tmp_path / "first", {"model": b"first"})
    write(tmp_path / "second", {"model": b"other"})
    put(store, tmp_path / "first")
    commit(store)
    kind, message = error(store, "put-part", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "second")
    assert kind == "conflict" and "model" in message
    well(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")
    assert (tmp_path / "back/model").read_bytes() == b"first"


@pytest.mark.parametrize("size", [100, 17 * MIB], ids=["small", "in-pieces"])
def test_of_two_machines_that_write_one_file_at_once_the_first_stays(store, tmp_path, size):
    first = write(tmp_path / "first", {"model": bytes(size)})
    second = write(tmp_path / "second", {"model": b"x" * size})
    with FaultyHttp(store.address) as proxy:
        def another_first(method, path, _headers):
            # The second has seen that the file is not there.
            if method == "PUT" and "/model" in path:
                proxy.fault = lambda *_: None
                put(store, first)

        proxy.fault = another_first
        kind, message = error(store, "--parallel", "1", "put-part", "--checkpoint", CHECKPOINT, "--machine", 1,
                              "--folder", second, endpoint=proxy.endpoint)
    assert kind == "conflict" and "model" in message


def test_a_generation_that_is_over_commits_nothing(store, tmp_path):
    well(store, "begin", "--generation", "1-1", "--job", "job")
    put(store, write(tmp_path / "part", {"model": b"1"}))
    well(store, "begin", "--generation", "2-1", "--job", "job")
    kind, message = error(store, "commit", "--checkpoint", CHECKPOINT, "--job", "job")
    assert kind == "conflict" and "2-1 has begun" in message
    assert well(store, "state")["commits"] == []


def test_a_checkpoint_without_all_parts_is_not_committed(store, tmp_path):
    put(store, write(tmp_path / "part", {"model": b"1"}))
    kind, message = error(store, "commit", "--checkpoint", CHECKPOINT, "--job", "job", "--machines", 2)
    assert kind == "unavailable" and "machine 1's part" in message
    assert error(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")[0] == "missing"
    assert not (tmp_path / "back").exists()


def test_a_part_that_failed_goes_on_with_the_files_that_are_there(store, tmp_path):
    part = write(tmp_path / "part", {"a": b"a" * 1000, "b": b"b" * 1000, "c": b"c"})
    with FaultyHttp(store.address) as proxy:
        proxy.fault = times(99, Answer(403, "AccessDenied"), "PUT", "/parts/")
        kind, _ = error(store, "put-part", "--checkpoint", CHECKPOINT, "--folder", part, endpoint=proxy.endpoint)
        assert kind == "invalid"
    again = put(store, part)
    assert (again["files"], again["there"]) == (3, 3)


# ---- faults ----

@pytest.mark.parametrize("fault", [Answer(500, "InternalError"), Answer(503, "SlowDown"), CutRequest(1000),
                                   CutAnswer()], ids=["500", "503", "cut", "answer-lost"])
def test_an_upload_outlives(store, tmp_path, fault):
    part = write(tmp_path / "part", {"small": os.urandom(5000), "large": os.urandom(17 * MIB)})
    with FaultyHttp(store.address) as proxy:
        proxy.fault = times(2, fault, "PUT", "/checkpoints/")
        put(store, part, endpoint=proxy.endpoint)
        proxy.fault = times(2, fault, "PUT", "/commits/")
        well(store, "commit", "--checkpoint", CHECKPOINT, "--job", "job", endpoint=proxy.endpoint)
    well(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(part)


@pytest.mark.parametrize("fault", [Answer(500, "InternalError"), CutAnswer(1000), CutAnswer()],
                         ids=["500", "cut", "answer-lost"])
def test_a_download_outlives(store, tmp_path, fault):
    part = write(tmp_path / "part", {"small": os.urandom(5000), "large": os.urandom(17 * MIB)})
    put(store, part)
    commit(store)
    with FaultyHttp(store.address) as proxy:
        proxy.fault = times(3, fault, "GET", "/checkpoints/")
        well(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back", endpoint=proxy.endpoint)
    assert tree(tmp_path / "back") == tree(part)


def test_a_request_that_stands_still_is_made_again(store, tmp_path):
    with FaultyHttp(store.address) as proxy:
        never = threading.Event()
        proxy.fault = times(1, Hold(never), "PUT", "/checkpoints/")
        well(store, "--stall", "500ms", "put-part", "--checkpoint", CHECKPOINT, "--folder",
             write(tmp_path / "part", {"model": b"1"}), endpoint=proxy.endpoint)
        assert sum(1 for method, path in proxy.requests if method == "PUT" and "/checkpoints/" in path) == 2
        never.set()


def test_an_answer_that_stands_still_is_asked_for_again(store, tmp_path):
    put(store, write(tmp_path / "part", {"model": bytes(100_000)}))
    commit(store)
    with FaultyHttp(store.address) as proxy:
        never = threading.Event()
        proxy.fault = times(1, StallAnswer(10_000, never), "GET", "/checkpoints/")
        well(store, "--stall", "500ms", "--timeout", "20s", "fetch", "--checkpoint", CHECKPOINT, "--folder",
             tmp_path / "back", endpoint=proxy.endpoint)
        never.set()


def test_a_store_that_fails_for_good_is_reported_in_the_time_that_is_given(store, tmp_path):
    part = write(tmp_path / "part", {"model": b"1"})
    with FaultyHttp(store.address) as proxy:
        proxy.fault = lambda *_: Answer(503, "SlowDown")
        kind, message = error(store, "--timeout", "2s", "put-part", "--checkpoint", CHECKPOINT, "--folder", part,
                              endpoint=proxy.endpoint)
    assert kind == "unavailable" and message


def test_a_lost_answer_to_a_winner_is_success_and_another_winner_is_not(store):
    with FaultyHttp(store.address) as proxy:
        proxy.fault = times(1, CutAnswer(), "PUT", "/generations/")
        well(store, "begin", "--generation", "1-1", "--job", "job", endpoint=proxy.endpoint)

        def another_first(method, path, _headers):
            if method != "PUT" or not path.endswith("/generations/1-2"):
                return None
            proxy.fault = lambda *_: None
            well(store, "begin", "--generation", "1-2", "--job", "job")
            return CutRequest()

        proxy.fault = another_first
        kind, _ = error(store, "begin", "--generation", "1-2", "--job", "job", endpoint=proxy.endpoint)
        assert kind == "conflict"


def test_a_record_that_cannot_be_read_yet_is_not_taken_for_missing(store):
    well(store, "begin", "--generation", "1-1", "--job", "job")
    with FaultyHttp(store.address) as proxy:
        proxy.fault = times(2, Answer(404, "NoSuchKey"), "GET", "/generations/1-1")
        kind, _ = error(store, "begin", "--generation", "1-1", "--job", "job", endpoint=proxy.endpoint)
    assert kind == "conflict"


def test_a_store_that_ignores_conditions_is_refused(store):
    with FaultyHttp(store.address) as proxy:
        proxy.fault = lambda method, *_: Answer(200) if method == "PUT" else None
        kind, message = error(store, "begin", "--generation", "1-1", "--job", "job", endpoint=proxy.endpoint)
    assert kind == "invalid" and "If-None-Match" in message


@pytest.mark.parametrize("answer,kind,words", [
    (Answer(400, "ExpiredToken"), "unavailable", "credentials have expired"),
    (Answer(403, "RequestTimeTooSkewed"), "unavailable", "clocks"),
    (Answer(403, "AccessDenied"), "invalid", "refuses the credentials"),
    (Answer(501, "NotImplemented"), "invalid", "lacks a function"),
], ids=["expired", "clock", "denied", "not-implemented"])
def test_an_error_says_what_to_mend(store, answer, kind, words):
    with FaultyHttp(store.address) as proxy:
        proxy.fault = lambda *_: answer
        # Once: the client repeats a request with expired credentials for a minute.
        found, message = error(store, "begin", "--generation", "1-1", "--job", "job", endpoint=proxy.endpoint)
    assert found == kind and words in message


def test_wrong_credentials_and_a_missing_bucket_are_named_and_no_secret_is(store):
    process = start(store, "state", AWS_SECRET_ACCESS_KEY="a-wrong-secret")
    out, words = process.communicate(timeout=60)
    assert json.loads(out)["error"]["kind"] == "invalid" and "credentials" in out
    assert "a-wrong-secret" not in out + words and SECRET not in out + words
    store.url = "s3://no-such-bucket/run"
    kind, message = error(store, "state")
    assert kind == "invalid" and "no-such-bucket" in message


def test_a_store_that_does_not_answer_is_named(store):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
    kind, message = error(store, "--endpoint", f"http://{address}", "state")
    assert kind == "unavailable" and f"no answer from {address}: " in message and "?" not in message


@pytest.mark.skipif("LOCKSTEP_TEST_MINIO" in os.environ, reason="takes the gateway's options")
def test_a_store_with_an_authority_of_its_own_is_trusted_once_that_is_given(tmp_path):
    certificate, key = tmp_path / "ca.crt", tmp_path / "key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with ObjectStore(tmp_path, certificate, key) as store:
        kind, message = error(store, "state")
        assert kind == "invalid" and "AWS_CA_PEM in the job's Secret" in message
        assert well(store, "state", AWS_CA_PEM=certificate.read_text())["commits"] == []
        assert well(store, "state", AWS_CA_BUNDLE=str(certificate))["commits"] == []
        kind, message = error(store, "state", AWS_CA_PEM="nonsense")
        assert kind == "invalid" and "AWS_CA_PEM holds no certificate" in message


@pytest.mark.parametrize("variables,words", [
    ({"AWS_SECRET_ACCESS_KEY": ""}, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is given"),
    ({"AWS_SECRET_ACCESS_KEY": "one\ntwo"}, "AWS_SECRET_ACCESS_KEY holds a line end"),
])
def test_keys_that_no_store_can_accept_are_named(store, variables, words):
    kind, message = error(store, "state", **variables)
    assert kind == "invalid" and words in message


def test_line_end_behind_a_key_is_not_part_of_the_key(store):
    assert well(store, "state", AWS_SECRET_ACCESS_KEY=store.variables["AWS_SECRET_ACCESS_KEY"] + "\n")["commits"] == []


# ---- damage ----

@pytest.mark.parametrize("damage", [lambda text: text[:-100], lambda text: text[:500] + b"?" + text[501:],
                                    lambda text: None], ids=["truncated", "changed", "gone"])
def test_an_object_that_is_not_what_was_committed_is_no_checkpoint(store, tmp_path, damage):
    if os.environ.get("LOCKSTEP_TEST_MINIO"):
        pytest.skip("MinIO keeps objects in a format of its own")
    put(store, write(tmp_path / "part", {"model": os.urandom(10_000)}))
    commit(store)
    file = store.folder_of_test / "checkpoints" / CHECKPOINT / "model"
    changed = damage(file.read_bytes())
    file.unlink() if changed is None else file.write_bytes(changed)
    kind, message = error(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")
    assert kind == "damaged" and "/model" in message
    assert os.listdir(tmp_path) == ["part"]


def test_a_manifest_that_leads_out_of_its_folder_is_refused(store, tmp_path):
    if os.environ.get("LOCKSTEP_TEST_MINIO"):
        pytest.skip("MinIO keeps objects in a format of its own")
    put(store, write(tmp_path / "part", {"model": b"1"}))
    commit(store)
    file = store.folder_of_test / "commits" / (CHECKPOINT + ".json")
    file.write_text(file.read_text().replace('"model"', '"../model"'))
    kind, message = error(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back")
    assert kind == "damaged" and "../model" in message
    assert os.listdir(tmp_path) == ["part"]


# ---- limits, retention, the end ----

def test_more_than_the_limit_is_not_fetched(store, tmp_path):
    put(store, write(tmp_path / "part", {"model": bytes(3 * MIB)}))
    commit(store)
    kind, message = error(store, "fetch", "--checkpoint", CHECKPOINT, "--folder", tmp_path / "back",
                          "--limit", 2 * MIB)
    assert kind == "invalid" and "3 MiB" in message and "2 MiB" in message
    assert not (tmp_path / "back").exists()


def test_prune_keeps_the_newest_and_what_is_not_its_own(store, tmp_path):
    part = write(tmp_path / "part", {"model": b"1"})
    for generation, job, numbers in [("1-1", "job", (1, 2)), ("1-2", "another", (1,)), ("2-1", "job", (1, 2))]:
        well(store, "begin", "--generation", generation, "--job", job)
        for number in numbers:
            name = f"{generation}/00000{number}.step-{number}"
            put(store, part, name)
            commit(store, name, job=job)
        put(store, part, f"{generation}/000003.not-committed")
    assert well(store, "prune", "--generation", "2-1", "--job", "job", "--keep", 3)["deleted"] == ["1-1/000001.step-1"]
    deleted = well(store, "prune", "--generation", "2-1", "--job", "job", "--keep", 1)["deleted"]
    assert deleted == ["1-1/000002.step-2", "2-1/000001.step-1"]
    assert well(store, "state")["commits"] == ["1-2/000001.step-1", "2-1/000002.step-2"]
    with_files = {each for each in ["1-1/000001.step-1", "1-1/000003.not-committed", "1-2/000003.not-committed",
                                    "2-1/000001.step-1", "2-1/000002.step-2", "2-1/000003.not-committed"]
                  if (store.folder_of_test / "checkpoints" / each / "model").exists()}
    if not os.environ.get("LOCKSTEP_TEST_MINIO"):
        assert with_files == {"1-2/000003.not-committed", "2-1/000002.step-2", "2-1/000003.not-committed"}
    well(store, "fetch", "--checkpoint", "2-1/000002.step-2", "--folder", tmp_path / "back")


@pytest.mark.skipif("LOCKSTEP_TEST_MINIO" in os.environ, reason="sets the times of objects' files")
def test_prune_keeps_one_checkpoint_of_each_interval(store, tmp_path):
    part = write(tmp_path / "part", {"model": b"1"})
    well(store, "begin", "--generation", "1-1", "--job", "job")
    for number in range(1, 8):
        name = f"1-1/00000{number}.step-{number}"
        put(store, part, name)
        commit(store, name)
        at = 1_700_000_000 + 1500 * number  # 25 minutes
        os.utime(store.folder_of_test / f"commits/{name}.json", (at, at))
        if number > 3:  # whatever was deleted before, the same ones stay
            well(store, "prune", "--generation", "1-1", "--job", "job", "--keep", 1, "--keep-every", "1h")
    assert well(store, "state")["commits"] == [f"1-1/00000{number}.step-{number}" for number in (1, 4, 7)]


def test_prune_deletes_nothing_before_its_generation_has_committed(store, tmp_path):
    part = write(tmp_path / "part", {"model": b"1"})
    well(store, "begin", "--generation", "1-1", "--job", "job")
    for number in (1, 2):
        put(store, part, f"1-1/00000{number}.step-{number}")
        commit(store, f"1-1/00000{number}.step-{number}")
    well(store, "begin", "--generation", "2-1", "--job", "job", "--resumes", "1-1/000002.step-2")
    assert well(store, "prune", "--generation", "2-1", "--job", "job", "--keep", 1) == {"deleted": []}
    assert len(well(store, "state")["commits"]) == 2


def test_an_upload_that_is_stopped_leaves_nothing_half_done(store, tmp_path):
    part = write(tmp_path / "part", {"model": os.urandom(40 * MIB)})
    never = threading.Event()
    with FaultyHttp(store.address) as proxy:
        proxy.fault = lambda method, path, _: Hold(never) if method == "PUT" and "partNumber=3" in path else None
        process = start(store, "put-part", "--checkpoint", CHECKPOINT, "--folder", str(part), endpoint=proxy.endpoint)
        wait_until(lambda: any("partNumber=3" in path for _, path in proxy.requests), "the third piece")
        process.send_signal(signal.SIGTERM)
        assert finish(process)["error"]["kind"] == "unavailable"
        assert ("DELETE" in {method for method, _ in proxy.requests})
        never.set()
    assert well(store, "state")["commits"] == []


def test_a_bandwidth_limit_is_kept(store, tmp_path):
    part = write(tmp_path / "part", {"model": os.urandom(600_000)})
    done = well(store, "--bandwidth", "400000", "put-part", "--checkpoint", CHECKPOINT, "--folder", part)
    assert done["seconds"] > 1  # by the limit 1.5


@pytest.mark.parametrize("arguments,words", [
    (["--url", "http://bucket", "state"], "s3://BUCKET/PREFIX"),
    (["--endpoint", "bucket.example.com", "state"], "--endpoint must be https://HOST"),
    (["--url", "s3://a..b/gpt", "state"], "the bucket 'a..b'"),
    (["--url", "s3://192.168.0.1/gpt", "state"], "the bucket '192.168.0.1'"),
    (["--parallel", "0", "state"], "--parallel must be 1 to 64"),
    (["begin", "--generation", "5"], "such as 2-5"),
    (["fetch", "--checkpoint", "../etc"], "GENERATION/NUMBER.NAME"),
    (["put-part", "--checkpoint", CHECKPOINT, "--folder", "/no/such/folder"], "/no/such/folder"),
    (["prune", "--generation", "1-1", "--keep", "0"], "--keep must be 1 or more"),
])
def test_a_wrong_argument_is_named(store, arguments, words):
    kind, message = error(store, *arguments)
    assert kind == "invalid" and words in message


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user wants root")
def test_processes_of_the_same_user_do_not_read_its_credentials(store):
    never, user = threading.Event(), 54321
    with FaultyHttp(store.address) as proxy, tempfile.TemporaryDirectory() as folder:
        proxy.fault = lambda method, path, _: Hold(never)
        os.chmod(folder, 0o755)
        copy = shutil.copy(program(), folder)
        with subprocess.Popen([copy, "--url", store.url, "--endpoint", proxy.endpoint, "state"], user=user,
                              env=store.variables, stdout=subprocess.PIPE) as process:
            wait_until(lambda: proxy.requests, "a request")
            read = subprocess.run(["cat", f"/proc/{process.pid}/environ"], user=user, capture_output=True, text=True)
            process.kill()
    assert read.returncode == 1 and "Permission denied" in read.stderr and SECRET not in read.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user wants root")
def test_installed_copy_hides_its_credentials_from_its_first_instruction(store):
    user = 54321
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(program(), folder)
        os.chown(copy, user, user)
        os.chmod(copy, 0o111)  # as lockstep-agent --install does
        for _ in range(20):
            with subprocess.Popen([copy, "--url", store.url, "state"], user=user, env=store.variables,
                                  stdout=subprocess.DEVNULL) as process:
                os.seteuid(user)
                try:
                    read = pathlib.Path(f"/proc/{process.pid}/environ").read_text()
                except PermissionError:
                    read = ""
                finally:
                    os.seteuid(0)
                process.kill()
            assert SECRET not in read
