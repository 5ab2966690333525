"""The chart's dashboards, asked of a Prometheus that scrapes pods on real nodes by its monitors."""

import time

from monitors import chart_objects, scrape_configs
from panels import check_panels
from prometheus import Prometheus
from waiting import wait_until

# No GPU, no CPU limit, no second NUMA node, no RDMA port, no rank that restarts alone, and no node that
# gangs had trouble with.
NOT_HERE = ("DCGM_", "lockstep_cpu_throttled_seconds_total", "lockstep_rank_numa_memory_bytes",
            'name="mfu"', "increase(lockstep_rank_restarts_total", "lockstep_machine_rdma_",
            "lockstep_operator_node_evidence_total")


def test_every_dashboard_panel_shows_data(site, tmp_path):
    objects = chart_objects(site.stack, "lockstep-system")
    with Prometheus(tmp_path / "prometheus",
                    scrape_configs(objects, site.stack.kubeconfig)) as prometheus:
        start = time.time()
        prometheus.wait("lockstep_operator_leader == 1")
        job = site.train(trainer={
            "steps": 1000000, "validationData": ["/usr/share/common-licenses/Apache-2.0"],
            "validateEvery": 50, "validationSamples": 8, "measureScaling": True},
            resourcesPerProcess={"memory": "512Mi"})
        job.wait_trained()
        # What happens before machine 0's first scrape would be in no rate.
        prometheus.wait(f'lockstep_checkpoint_age_seconds{{namespace="{site.namespace}"}}')
        job.kill(rank=2)

        def problems():
            return check_panels(prometheus.url, site.namespace, job.name, start, time.time(),
                                without=NOT_HERE)

        wait_until(lambda: not problems(), lambda: "\n".join(problems()), 240, 1)
        job.delete()
