"""A job as an object."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Literal, Mapping, cast

from lockstep_client import program
from lockstep_client.errors import JobInvalid
from lockstep_client.packages import need
from lockstep_client.spec import JobFields

API_VERSION = "lockstep.dev/v1alpha1"
KIND = "TrainingJob"
_METADATA = ("namespace", "labels", "annotations")


@dataclasses.dataclass(repr=False)
class Job(JobFields):
    """A TrainingJob. Its fields are those of `spec`, in Python's spelling.

        job = lockstep.Job("gpt", machines=2, processes=4, image="registry/train:1",
                           command=["python3", "train.py"], env={"EPOCHS": "3"},
                           failure_policy=lockstep.FailurePolicy(max_restarts=5))

    `machines` is numMachines and `processes` is processesPerMachine; every other name is the
    field's, with underscores. `env` is a dict; a value may be a source, as `valueFrom` has it.
    `template` and `env_from` are as in YAML. A field that is None has the server's default.

    A wrong type, choice or number raises JobInvalid here. `validate` judges the job as a whole.
    """

    def validate(self, target: Literal["local", "cluster"] = "cluster") -> List[str]:
        """Judges the job as `lockstep validate --target TARGET` does, and returns its warnings.

        Raises JobInvalid with every error, in the same words. Raises MissingProgram if this
        computer has no program `lockstep`. An image is needed on a cluster only.
        """
        return program.validate(json.dumps(self.manifest()), target)

    def manifest(self) -> Dict[str, Any]:
        """The whole object as the API server takes it. Raises JobInvalid."""
        metadata: Dict[str, Any] = {"name": self.name}
        for name in _METADATA:
            if getattr(self, name) is not None:
                metadata[name] = getattr(self, name)
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata,
                "spec": self.to_dict()}

    def to_yaml(self) -> str:
        """The job as a file for `lockstep run` and `kubectl apply`. Raises JobInvalid."""
        return str(_yaml().safe_dump(self.manifest(), sort_keys=False, width=100,
                                     allow_unicode=True))

    @classmethod
    def from_yaml(cls, text: str) -> Job:
        """The job of a file's text, YAML or JSON. Raises JobInvalid.

        A status, and metadata that the API server writes, are left out.
        """
        yaml = _yaml()
        try:
            documents = [each for each in yaml.safe_load_all(text) if each is not None]
        except yaml.YAMLError as error:
            raise JobInvalid([f"no YAML: {error}"]) from None
        if len(documents) != 1:
            raise JobInvalid([f"must hold one job, not {len(documents)} documents"])
        return cls.from_manifest(documents[0])

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], strict: bool = True) -> Job:
        """The job of a whole object, as `manifest` returns it. Raises JobInvalid.

        strict: an unknown field is an error. Else it is left out, because a newer operator may
        have fields that this client lacks.
        """
        if not isinstance(manifest, Mapping):
            raise JobInvalid([f"must be a mapping, not {type(manifest).__name__}"])
        kind = (manifest.get("apiVersion"), manifest.get("kind"))
        if kind != (API_VERSION, KIND):
            raise JobInvalid([f"must be a {KIND} of {API_VERSION}, not {kind[1]} of {kind[0]}"])
        metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
            raise JobInvalid(["metadata.name: is missing"])
        problems: List[str] = []
        values = cls._values(spec, "spec.", problems, strict)
        if problems:
            raise JobInvalid(problems)
        return cls(cast(str, metadata["name"]),
                   **{name: metadata[name] for name in _METADATA if metadata.get(name)}, **values)


def _yaml() -> Any:
    return need("yaml", "PyYAML", "a job in YAML")
