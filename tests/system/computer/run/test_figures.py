"""Figures that a program reports under names of its own, wherever a user looks for them."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time

from paths import ROOT
from run import Run
from tls import binary

# Reports until somebody removes the file that it is told of, or 20 steps.
PROGRAM = """
import os, sys, time
import lockstep
rank, gate = int(os.environ["RANK"]), sys.argv[1]
for step in range(1, 21):
    lockstep.report(step=step, total_steps=20, loss=1 / step, accuracy=0.5 + rank / 4,
                    data_seconds=0.001)
while os.path.exists(gate):
    time.sleep(0.05)
    lockstep.report(step=20, accuracy=0.5 + rank / 4)
"""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Of a TFRecord file, each with its two checksums verified."""
    while data:
        size, = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        record = data[12:12 + size]
        assert struct.unpack("<I", data[12 + size:16 + size])[0] == masked(record)
        yield record
        data = data[16 + size:]


def fields(message):
    """[(number, value)] of a protobuf message: int, float, or bytes."""
    def varint():
        nonlocal message
        value = shift = 0
        while True:
            byte, message = message[0], message[1:]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while message:
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        value, message = message[:size], message[size:]
        form = {1: "<d", 5: "<f"}.get(kind)
        yield key >> 3, struct.unpack(form, value)[0] if form else value


def scalars(folder):
    """{tag: {step: value}} of all event files, by the description in TensorFlow's event.proto."""
    told = {}
    for path in sorted(folder.iterdir()):
        for record in records(path.read_bytes()):
            event = dict(fields(record))
            for number, value in fields(event.get(5, b"")):
                assert number == 1
                summary = dict(fields(value))
                told.setdefault(summary[1].decode(), {})[event[2]] = summary[2]
    return told


def test_named_figures_are_in_report_and_event_files(tmp_path):
    events = tmp_path / "events"
    run = Run(tmp_path, "-m", "2", "--tensorboard", str(events), "--", sys.executable, "-c", PROGRAM,
              "none")
    code, report, output = run.finish(patience=60)
    assert code == 0, output
    metrics = {each["name"]: each["value"] for each in report["progress"]["metrics"]}
    assert metrics["accuracy"] == "0.625" and "data_seconds" not in metrics, metrics
    told = scalars(events)
    assert told["accuracy"][20] == 0.625, told
    assert abs(told["loss"][20] - 0.05) < 1e-6, told


def test_table_has_asked_for_figures_and_what_machines_use(tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    process = subprocess.Popen(
        [binary("lockstep"), "run", "-m", "2", "--show", "accuracy", "--wide", "--", sys.executable,
         "-c", PROGRAM, str(gate)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/worker/python", "TERM": "xterm"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=writing, cwd=tmp_path)
    os.close(writing)
    shown = b""
    try:
        patience = time.monotonic() + 60
        while b"MiB" not in shown or b" 0.75" not in shown or b" 0.5 " not in shown:
            assert time.monotonic() < patience, shown[-3000:]
            shown += os.read(reading, 65536)  # it is drawn four times a second
        gate.unlink()
        for part in iter(lambda: read_or_end(reading), b""):
            shown += part
        assert process.wait(60) == 0, shown[-3000:]
    finally:
        process.kill()
        os.close(reading)
    for head in (b"ACCURACY", b"CPU", b"MEMORY", b"RECEIVED", b"SENT"):
        assert head in shown, shown[-3000:]


def read_or_end(fd):
    try:
        return os.read(fd, 65536)
    except OSError:  # its other end is closed
        return b""


def test_folder_for_event_files_that_cannot_be_made_is_refused_before_the_job_starts(tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run([binary("lockstep"), "run", "--tensorboard", tmp_path / "file/events", "--",
                           "touch", tmp_path / "ran"], capture_output=True, text=True)
    assert done.returncode == 2 and "--tensorboard: making the folder" in done.stderr, done
    assert not (tmp_path / "ran").exists()
