"""What shells, disks and kubectl see of the command line."""

import os
import subprocess

import pytest
from paths import ROOT
from tls import binary

WRITERS = [["convert", "--", "torchrun", "--nproc-per-node", "2", "train.py"],
           ["plan", str(ROOT / "examples/trainingjob.yaml")],
           ["topology", str(ROOT / "examples/two-sockets.xml")], ["--help"], ["run", "--help"],
           ["version"]]


@pytest.mark.parametrize("words", WRITERS, ids=lambda words: " ".join(words[:2]).split("/")[0])
def test_command_whose_output_finds_a_full_disk_fails(words):
    if words[0] == "topology":
        words = ["topology", "--xml", words[1]]
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary("lockstep"), *words], stdout=full, stderr=subprocess.PIPE,
                              text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot write to standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("locale, ascii_alone", [("C", True), ("C.UTF-8", False)])
def test_topology_draws_in_the_characters_of_the_locale(locale, ascii_alone):
    done = subprocess.run(
        [binary("lockstep"), "topology", "--xml", ROOT / "examples/two-sockets.xml"], check=True,
        capture_output=True, env={**os.environ, "LC_ALL": locale})
    assert done.stdout.isascii() == ascii_alone, done.stdout.decode()
