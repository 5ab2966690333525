"""A fake of NVIDIA's DCGM exporter, for machines without GPUs: its exposition text, with made
up values, for pods that are named to it.

    with DcgmExporter(lambda half: [("ml", f"gpt-{half}")]) as exporter:
        exporter.scrape_configs()
"""

import contextlib
import http.server
import math
import threading
import time

GPUS_PER_POD = 2
# Name, help and value of a GPU at a time: `busy` swings between 0 and 1.
METRICS = [
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda busy: 88 + 11 * busy),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda busy: 61000 + 900 * busy),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda busy: 480 + 190 * busy),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda busy: 55 + 9 * busy),
    ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", lambda busy: 0),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
     "Ratio of cycles the tensor (HMMA) pipe is active (in %).", lambda busy: 0.38 + 0.1 * busy),
]


class DcgmExporter:
    def __init__(self, pods):
        """`pods(half)`: (namespace, name) of each pod that uses GPUs, for half 0 and 1."""
        self._pods = pods

    def scrape_configs(self):
        """It twice, as found in clusters: honorLabels keeps namespace and pod as the exporter says
        them; without, Prometheus gives these to the exporter's own pod and renames the others."""
        host, port = self._server.server_address
        for half, honor in enumerate((True, False)):
            yield {"job_name": f"dcgm-exporter-{half}", "honor_labels": honor,
                   "metrics_path": f"/{half}", "static_configs": [{
                       "targets": [f"{host}:{port}"],
                       "labels": {"namespace": "gpu-operator", "pod": f"dcgm-exporter-{half}"}}]}

    def __enter__(self):
        exporter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = exporter._page(int(self.path[1:])).encode()
                with contextlib.suppress(ConnectionError):  # the scraper's patience has ended
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain; version=0.0.4")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _page(self, half):
        pods, lines = sorted(self._pods(half)), []
        for name, text, value in METRICS:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            for place, (namespace, pod) in enumerate(pods):
                for gpu in range(GPUS_PER_POD):
                    busy = 0.5 + 0.5 * math.sin(time.time() / 20 + 2 * place + gpu)
                    lines.append(
                        f'{name}{{gpu="{gpu}",UUID="GPU-{half}-{place}-{gpu}",'
                        f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",'
                        f'Hostname="node-{half}-{place}",container="worker",'
                        f'namespace="{namespace}",pod="{pod}"}} {value(busy):.4g}')
        return "\n".join(lines) + "\n"
