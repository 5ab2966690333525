"""PodMonitors and ServiceMonitors as scrape configurations of Prometheus itself, with the labels
that the Prometheus Operator gives to targets: so the chart's own objects are what tests scrape by.

Only what the chart may use: selectors, one port by name, relabelings, metricRelabelings.
"""

import pathlib
import re

import yaml

CHART = pathlib.Path(__file__).resolve().parents[3] / "helm/lockstep"


def chart_objects(cluster, namespace):
    """What the chart installs into this namespace where its Prometheus has an operator."""
    text = cluster.helm("template", "lockstep", CHART, "--namespace", namespace, "--set",
                        "monitoring.enabled=true")
    return [each for each in yaml.safe_load_all(text) if each]


def scrape_configs(objects, kubeconfig):
    """One for each endpoint of the monitors among these objects."""
    return [config for monitor in objects if monitor["kind"] in ("PodMonitor", "ServiceMonitor")
            for config in _of(monitor, str(kubeconfig))]


def _of(monitor, kubeconfig):
    is_pod = monitor["kind"] == "PodMonitor"
    name, namespace = monitor["metadata"]["name"], monitor["metadata"]["namespace"]
    spec = monitor["spec"]
    discovery = {"role": "pod" if is_pod else "endpointslice", "kubeconfig_file": kubeconfig}
    wanted = spec.get("namespaceSelector", {})
    if not wanted.get("any"):
        discovery["namespaces"] = {"names": wanted.get("matchNames", [namespace])}
    endpoints = spec["podMetricsEndpoints" if is_pod else "endpoints"]
    for index, endpoint in enumerate(endpoints):
        labels = _pod_labels(endpoint) if is_pod else _service_labels(endpoint)
        yield {
            "job_name": f"{monitor['kind']}/{namespace}/{name}/{index}",
            "kubernetes_sd_configs": [discovery],
            "metrics_path": endpoint.get("path", "/metrics"),
            "relabel_configs": [
                *_select("pod" if is_pod else "service", spec["selector"]), *labels,
                {"target_label": "endpoint", "replacement": endpoint["port"]},
                *map(_rule, endpoint.get("relabelings", []))],
            "metric_relabel_configs": [*map(_rule, endpoint.get("metricRelabelings", []))],
        }


def _select(what, selector):
    """Targets whose object's labels fit."""
    for label, value in selector.get("matchLabels", {}).items():
        yield _keep(f"{what}_label_{_plain(label)}", re.escape(value))
    for each in selector.get("matchExpressions", []):
        label = f"{what}_label{{}}_{_plain(each['key'])}"
        values = "|".join(map(re.escape, each.get("values", [])))
        source, regex, action = {
            "In": ("", values, "keep"), "NotIn": ("", values, "drop"),
            "Exists": ("present", "true", "keep"),
            "DoesNotExist": ("present", "true", "drop")}[each["operator"]]
        yield _keep(label.format(source), regex, action)


def _pod_labels(endpoint):
    yield _keep("pod_phase", "Failed|Succeeded", "drop")
    yield _keep("pod_container_port_name", endpoint["port"])
    for label, source in (("namespace", "namespace"), ("container", "pod_container_name"),
                          ("pod", "pod_name")):
        yield {"source_labels": [f"__meta_kubernetes_{source}"], "target_label": label}


def _service_labels(endpoint):
    yield _keep("endpointslice_port_name", endpoint["port"])
    yield {"source_labels": ["__meta_kubernetes_endpointslice_address_target_kind",
                             "__meta_kubernetes_endpointslice_address_target_name"],
           "regex": "Pod;(.*)", "target_label": "pod"}
    for label, source in (("namespace", "namespace"), ("service", "service_name"),
                          ("container", "pod_container_name")):
        yield {"source_labels": [f"__meta_kubernetes_{source}"], "target_label": label}


def _keep(source, regex, action="keep"):
    return {"source_labels": [f"__meta_kubernetes_{source}"], "regex": regex, "action": action}


def _plain(label):
    return re.sub(r"[^a-zA-Z0-9_]", "_", label)


def _rule(rule):
    """sourceLabels as source_labels, and so on."""
    return {re.sub("[A-Z]", lambda upper: "_" + upper[0].lower(), key): value
            for key, value in rule.items()}
