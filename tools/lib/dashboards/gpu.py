"""GPU panels for the pods of one job. Their data comes from NVIDIA's DCGM exporter. If the exporter
has none for a machine, the panels show what its ranks report, as the built-in trainer does.

The exporter names the pod that uses a GPU. If Prometheus scrapes it with `honorLabels: true`, that
name is in `namespace` and `pod`. Otherwise Prometheus puts the exporter's own pod there and moves
the name to `exported_namespace` and `exported_pod`. The queries take both.
"""

from dashboards.grafana import Query, Row, timeseries


def gpus(where):
    def panel(title, description, unit, metric, scale="", reported=None, **options):
        query = _of_the_job(metric, where) + scale
        if reported:
            query = f"({query}) or on (machine) {_of_the_ranks(reported, where)}"
        return timeseries(title, description, unit, Query(query, _LEGEND), **options)

    return Row("GPUs (from NVIDIA's DCGM exporter, or the built-in trainer)", [
        panel("GPU utilization", "Share of time in which any kernel ran. It is also high while "
              "ranks wait in a collective: compare with tensor cores.", "percentunit",
              "DCGM_FI_DEV_GPU_UTIL",
              " / 100", "gpu_utilization", max=1),
        panel("Tensor cores active", "Share of cycles in which tensor cores worked. It shows the "
              "work for training.", "percentunit", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", max=1),
        panel("GPU memory", "Memory in use on each GPU.", "bytes", "DCGM_FI_DEV_FB_USED",
              " * 1024 * 1024", "gpu_memory_bytes"),
        panel("Power", "Power draw of each GPU. A GPU that draws less than the others waits for "
              "them or is throttled.", "watt", "DCGM_FI_DEV_POWER_USAGE",
              reported="gpu_power_watts"),
        panel("Temperature", "Temperature of each GPU chip.", "celsius", "DCGM_FI_DEV_GPU_TEMP",
              reported="gpu_temperature_celsius"),
        panel("Last XID error", "Number of each GPU's last driver error; 0: none. "
              "NVIDIA's table of XID errors explains the numbers.", "none",
              "DCGM_FI_DEV_XID_ERRORS", reported="gpu_xid"),
    ], collapsed=True)


_LEGEND = "machine {{machine}}, GPU {{gpu}}"


def _of_the_job(metric, where):
    """The metric of GPUs that pods of the job use, with the label `machine`."""
    pod = f'label_replace({metric}, "pod", "$1", "exported_pod", "(.+)")'
    both = f'label_replace({pod}, "namespace", "$1", "exported_namespace", "(.+)")'
    machines = f"max by (namespace, pod, machine) (lockstep_build_info{{{where}}})"
    return f"max by (machine, gpu) ({both} * on (namespace, pod) group_left (machine) {machines})"


def _of_the_ranks(name, where):
    """What ranks report about their GPUs under this name, with the same labels."""
    of_each = f'max by (machine, rank) (lockstep_reported{{name="{name}",{where}}})'
    labelled = f'label_replace({of_each}, "gpu", "of rank $1", "rank", "(.+)")'
    return f"max by (machine, gpu) ({labelled})"
