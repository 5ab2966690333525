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


def complete(*words):
    """What bash offers in place of the last word."""
    script = ('source <("$0" completion bash); COMP_WORDS=(lockstep "$@"); COMP_CWORD=$#; _lockstep; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", script, binary("lockstep"), *words], check=True,
                          capture_output=True, text=True).stdout.split()


def test_bash_completes_commands_options_and_values():
    assert complete("st") == ["status"]
    assert complete("run", "--framew") == ["--framework"]
    assert complete("run", "--framework", "T") == ["Torch", "TensorFlow"]
    assert complete("status", "-o", "") == ["text", "json", "yaml"]


def test_kubectl_completes_what_stands_behind_lockstep(tmp_path):
    """kubectl runs kubectl_complete-lockstep; a colon and a number end what it prints."""
    program = tmp_path / "kubectl_complete-lockstep"
    program.write_bytes(subprocess.check_output([binary("lockstep"), "completion", "kubectl"]))
    program.chmod(0o755)

    def said(*words):
        return subprocess.check_output([program, *words], text=True).split()

    assert said("st") == ["status", ":4"]
    assert said("list", "--output", "w") == ["wide", ":4"]
