"""Estimates pi with random darts on all processors of all machines. Contains no call of Lockstep.

    ray_pi.py [ROUNDS [SECONDS]]: ROUNDS tasks for each processor, of at least SECONDS each
"""

import collections
import random
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init()
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0


@ray.remote(num_cpus=1)
def throw(seed, darts=200_000):
    time.sleep(seconds)
    chance = random.Random(seed)
    hits = sum(chance.random() ** 2 + chance.random() ** 2 < 1 for _ in range(darts))
    return hits / darts, ray.get_runtime_context().get_node_id()


processors = {node["NodeID"]: int(node["Resources"]["CPU"]) for node in ray.nodes()}
tasks = []
for node, count in processors.items():
    here = throw.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    tasks += [here.remote(len(tasks) + place) for place in range(rounds * count)]
results = ray.get(tasks)
done = collections.Counter(node for _, node in results)
print(f"{sum(processors.values())} processors of {len(processors)} nodes did "
      f"{sorted(done.values())} tasks")
print(f"pi is {4 * sum(share for share, _ in results) / len(results):.6f} or so", flush=True)
