"""Who says whether a TrainingJob is right: the API server by its CRD, and core."""

import base64
import concurrent.futures
import json
import re
import subprocess
import threading

import urllib3
import yaml

THREADS = 8


class Verdict:
    """`errors` are (path, message); none of them: the document is right."""

    def __init__(self, errors):
        self.errors = errors

    @property
    def accepted(self):
        return not self.errors

    def __str__(self):
        return "accepted" if self.accepted else "; ".join(f"{p}: {m}" for p, m in self.errors)


class Server:
    """The API server, asked by creations that are dry runs, with unknown fields as errors."""

    def __init__(self, cluster, namespace, folder):
        self.namespace = namespace
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        at = config["clusters"][0]["cluster"]
        self._url = at["server"]
        self._token = config["users"][0]["user"]["token"]
        self._trusted = folder / "ca.pem"
        self._trusted.write_bytes(base64.b64decode(at["certificate-authority-data"]))
        self._path = f"/apis/lockstep.dev/v1alpha1/namespaces/{namespace}/trainingjobs"
        self._local = threading.local()

    def validate(self, documents):
        """Of documents as kubectl sends them."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self._validate, map(as_kubectl_sends, documents)))

    def request(self, method, path="", body=None, query="fieldValidation=Strict", kind="json"):
        """Of this namespace's jobs: (HTTP status, answer)."""
        if not hasattr(self._local, "pool"):
            self._local.pool = urllib3.connection_from_url(self._url, ca_certs=self._trusted,
                                                           timeout=120)
        answer = self._local.pool.request(
            method, f"{self._path}{path}?{query}",
            body=None if body is None else json.dumps(body),
            headers={"Authorization": f"Bearer {self._token}",
                     "Content-Type": f"application/{kind}"})
        return answer.status, json.loads(answer.data)

    def _validate(self, document):
        status, answer = self.request("POST", body=document,
                                      query="dryRun=All&fieldValidation=Strict")
        return Verdict([] if status == 201 else errors_of(answer))


def as_kubectl_sends(value):
    """4.0 as 4: kubectl writes every whole number so."""
    if isinstance(value, dict):
        return {key: as_kubectl_sends(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sends(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def errors_of(answer):
    """The (path, message) pairs of a Status."""
    _, by_policy, told = answer["message"].partition(
        "'rules.trainingjobs.lockstep.dev' denied request: ")
    if by_policy:
        problems = [each.partition(": ") for each in re.split(r"; (?=spec\.|metadata\.)", told)]
        return [(path, message) if path.startswith("spec.") else ("", path + separator + message)
                for path, separator, message in problems]
    causes = answer.get("details", {}).get("causes")
    if not causes:
        return [("", answer["message"])]
    return [(cause.get("field", ""), cause["message"]) for cause in causes]


class Core:
    def __init__(self, program):
        self._program = program

    def validate(self, documents):
        return [Verdict([(each["path"], each["message"]) for each in errors])
                for errors in self._answers(documents)]

    def specs(self, documents):
        """Less what is at its default."""
        return self._answers(documents, "--specs")

    def names(self):
        return self._answers([], "--names")[0]

    def _answers(self, documents, *arguments):
        lines = "".join(json.dumps(each) + "\n" for each in documents)
        done = subprocess.run([self._program, *arguments], input=lines, capture_output=True,
                              text=True, timeout=300, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]
