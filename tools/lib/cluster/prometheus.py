"""A Prometheus of its own for a test, and what it answers.

    with Prometheus(folder, scrape_configs) as prometheus:
        prometheus.wait('lockstep_rank_up == 1')
        prometheus.range("sum(lockstep_rank_up)", start, end, step)
"""

import math
import pathlib
import subprocess
import sys

import parts
import requests
import yaml
from ports import free_port
from waiting import wait_until

RULES = pathlib.Path(__file__).resolve().parents[3] / "helm/lockstep/rules"
PATIENCE = 120.0  # seconds; far beyond what anything takes
# Seconds between scrapes. Grafana looks back at least four of them for a rate.
INTERVAL = 2


def program(name):
    """prometheus or promtool, built if need be."""
    say = lambda text: print(f"monitoring: {text}", file=sys.stderr, flush=True)
    return str(parts.build("monitoring", say) / name)


class Api:
    """What a Prometheus answers; it may be any that runs."""

    def __init__(self, url):
        self.url = url

    def instant(self, expr, at):
        """[(labels, value)]; RuntimeError with Prometheus' own words if it refuses."""
        found = self._get("query", query=expr, time=at)
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def range(self, expr, start, end, step):
        """[(labels, [(time, value)])], without what is NaN."""
        found = self._get("query_range", query=expr, start=start, end=end, step=step)["result"]
        return [(each["metric"], [(at, float(value)) for at, value in each["values"]
                                  if not math.isnan(float(value))]) for each in found]

    def label_values(self, metric, label, start, end):
        series = self._get("series", **{"match[]": metric, "start": start, "end": end})
        return sorted({each[label] for each in series if label in each})

    def rules(self):
        """Groups of rules with their state."""
        return self._get("rules")["groups"]

    def wait(self, expr, patience=PATIENCE):
        """Until a query has an answer, which it returns."""
        return wait_until(lambda: self.instant(expr, None), f"an answer to {expr}", patience, 0.2)

    def _get(self, path, **parameters):
        answer = requests.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=60).json()
        if answer["status"] != "success":
            raise RuntimeError(answer["error"])
        return answer["data"]


class Prometheus(Api):
    """One that runs in `folder` with the chart's rules, and is gone afterwards."""

    def __init__(self, folder, scrape_configs):
        port = free_port()
        super().__init__(f"http://127.0.0.1:{port}")
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {"global": {"scrape_interval": f"{INTERVAL}s",
                             "evaluation_interval": f"{INTERVAL}s"},
                  "rule_files": [f"{RULES}/*.yaml"], "scrape_configs": scrape_configs}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._log = folder / "prometheus.log"
        self._command = [program("prometheus"), f"--config.file={folder}/prometheus.yaml",
                         f"--storage.tsdb.path={folder}/data",
                         f"--web.listen-address=127.0.0.1:{port}"]

    def __enter__(self):
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)
        try:
            wait_until(self._ready, self.log, PATIENCE, 0.1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log(self):
        return self._log.read_text()[-3000:]

    def _ready(self):
        assert self._process.poll() is None, self.log()
        try:
            return requests.get(f"{self.url}/-/ready", timeout=10).ok
        except requests.ConnectionError:
            return False
