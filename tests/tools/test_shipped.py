"""What is shipped: how the programs are hardened, and what images are made of."""

import pathlib
import re
import subprocess

import pytest
from paths import ROOT
from tls import binary

STATIC = ["lockstep", "lockstep-agent", "lockstep-operator"]
# Most of it is OpenPMIx, as Debian compiles it.
OTHERS = ["lockstep-pmix"]
DYNAMIC = ["lockstep-trainer"]
# mov %fs:0x28, REGISTER: the canary, put on the stack and looked at again.
CANARY = rb"\x64[\x48\x4c]\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25\x28\0\0\0"
ENDBR64 = b"\xf3\x0f\x1e\xfa"


class Program:
    def __init__(self, name):
        self.path = path = binary(name)
        if pathlib.Path(path).parts[-3] != "release":
            pytest.skip("only what the preset release makes is shipped")
        said = subprocess.run(["readelf", "--wide", "--file-header", "--segments", "--sections",
                               "--dynamic", "--dyn-syms", path],
                              capture_output=True, text=True, check=True)
        self.said = said.stdout
        offset, size = re.search(r" \.text +PROGBITS +\w+ (\w+) (\w+) ", self.said).groups()
        self.code = pathlib.Path(path).read_bytes()[int(offset, 16):][:int(size, 16)]

    def segments(self, kind):
        return re.findall(rf"^  {kind} .*$", self.said, re.MULTILINE)

    def in_a_kilobyte(self, instruction):
        return len(re.findall(instruction, self.code)) * 1024 / len(self.code)


@pytest.mark.parametrize("name", [*STATIC, *OTHERS, *DYNAMIC])
def test_program_is_position_independent_with_read_only_relocations(name):
    program = Program(name)
    assert re.search(r"Type: +DYN ", program.said)
    assert re.search(r"FLAGS_1\).*\bNOW\b.*\bPIE\b", program.said)
    assert program.segments("GNU_RELRO") and "TEXTREL" not in program.said
    assert " RW " in program.segments("GNU_STACK")[0]
    assert not [each for each in program.segments("LOAD") if re.search(r" RWE|  WE", each)]


@pytest.mark.parametrize("name", [*STATIC, *DYNAMIC])
def test_program_has_stack_protector_and_branch_protection(name):
    program = Program(name)
    # Without, a fifth of either: those of the C library in a static program.
    canaries, landings = program.in_a_kilobyte(CANARY), program.in_a_kilobyte(ENDBR64)
    assert canaries > 1 and landings > 1


@pytest.mark.parametrize("name", DYNAMIC)
def test_program_calls_fortified_libc_functions(name):
    assert re.search(r"\b__(memcpy|memset|read|fdelt)_chk", Program(name).said)


# Go checks bounds itself, and links nothing static to any address.
@pytest.mark.parametrize("name", [*STATIC, *OTHERS, "lockstep-s3"])
def test_program_is_statically_linked(name):
    program = Program(name)
    assert not program.segments("INTERP") and "(NEEDED)" not in program.said


def test_lockstep_is_one_program_of_at_most_13_megabytes():  # docs/adr/051-static-programs.md
    path = pathlib.Path(Program("lockstep").path)
    assert path.stat().st_size <= 13_000_000


def test_kubectl_lockstep_is_a_link_to_lockstep():
    link = pathlib.Path(binary("kubectl-lockstep"))
    assert link.readlink() == pathlib.Path("lockstep")


DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda each: each.stem)
def test_image_stages_start_only_from_configurable_base_images(dockerfile):
    text = dockerfile.read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - set(stages)
    # An image on top of another of ours begins from that one.
    assert "$BASE" in bases and bases <= {"$BASE", "$WORKER", "scratch"}


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "debian@sha256:12", ""])
def test_tools_images_rejects_base_without_full_digest(base):
    done = subprocess.run([ROOT / "tools/images", "--base", base], capture_output=True, text=True)
    assert done.returncode == 1
    assert "--base wants IMAGE@sha256:DIGEST" in done.stderr
