"""The client of `lockstep-agent --sync-receive`, as docs/reference/protocol.md describes it.

    with CodeSender(agent.folder / "run") as sender:
        digest = sender.send({"train.py": "print(1)"})
"""

import hashlib
import json
import subprocess

from tls import binary


def manifest_of(files):
    return [[path, hashlib.sha256(text.encode()).hexdigest(), 0o644, len(text.encode())]
            for path, text in sorted(files.items())]


def digest_of(files):
    lines = "".join(f"{path}\0{mode}\0{sha256}\n" for path, sha256, mode, _ in manifest_of(files))
    return hashlib.sha256(lines.encode()).hexdigest()


class CodeSender:
    def __init__(self, run_folder):
        self._process = subprocess.Popen(
            [binary("lockstep-agent"), "--sync-receive", run_folder], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.greeting = self._read()
        self.sent = 0  # contents

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _read(self):
        line = self._process.stdout.readline()
        assert line, "the receiver has ended"
        return json.loads(line)

    def send(self, files, replaces=None, by="alice", watched=False):
        """The digest, or (None, why) it was refused."""
        if replaces is None:
            replaces = self.greeting["gang"]["code"].get("digest", "")
        while True:
            manifest = json.dumps(manifest_of(files)).encode()
            header = {"digest": digest_of(files), "replaces": replaces, "by": by, "words": "a test",
                      "watched": watched, "manifest": len(manifest)}
            self._process.stdin.write(json.dumps(header).encode() + b"\n" + manifest)
            self._process.stdin.flush()
            answer = self._answer(files)
            if not answer.get("later"):
                return answer["taken"] if "taken" in answer else (None, answer["refused"])

    def _answer(self, files):
        by_hash = {hashlib.sha256(text.encode()).hexdigest(): text.encode()
                   for text in files.values()}
        while True:
            answer = self._read()
            if "taken" in answer or "refused" in answer:
                return answer
            for sha256 in answer.get("missing", []):
                self.sent += 1
                self._process.stdin.write(by_hash[sha256])
            self._process.stdin.flush()
