"""The chart, and what Helm makes of it."""

import subprocess

import parts
import yaml
from paths import ROOT

CHART = ROOT / "helm/lockstep"
# Everything that is off by default, on.
ALL = {"watchNamespaces": [], "networkPolicy": {"enabled": True, "jobNamespaces": ["team-a"]},
       "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
       "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Training"}},
       "flowSchema": {"enabled": True, "ownShares": 20},
       "ui": {"enabled": True, "host": "lockstep.example.com"},
       "history": {"claim": "lockstep-pages"}}
NAMESPACED = {"watchNamespaces": ["team-a", "team-b"], "crds": {"install": False},
              "policy": {"install": False}, "userRoles": False}


def helm(*arguments, values=None):
    """The finished process."""
    program = parts.build("control-plane", print) / "helm"
    given = [] if values is None else ["--values", "-"]
    return subprocess.run([program, *arguments, *given], input=yaml.safe_dump(values or {}),
                          capture_output=True, text=True, timeout=300)


def render(values=None, namespace="lockstep-system", name="lockstep"):
    """The text that `helm install` would send."""
    done = helm("template", name, CHART, "--namespace", namespace, values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(text, *kinds):
    return [each for each in documents(text) if each["kind"] in kinds]
