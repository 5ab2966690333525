"""tf_sum.py FOLDER STEPS: each step is a sum over all workers, the first leaves a file. With
FAIL=RANK that one exits with 3 after ten steps, and the others outlive SIGTERM until they notice.
"""

import os
import pathlib
import signal
import sys

import tensorflow as tf

import lockstep

failing = os.environ.get("FAIL")
strategy = tf.distribute.MultiWorkerMirroredStrategy()
signal.signal(signal.SIGTERM, signal.SIG_DFL if failing is None else signal.SIG_IGN)
rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])


@tf.function
def total(mine):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: mine + 0), axis=None)


for step in range(1, steps + 1):
    everyone = int(total(tf.constant(rank + step)))
    assert everyone == sum(range(world)) + world * step, everyone
    lockstep.report(step=step, total_steps=steps)
    if step == 1:
        (folder / f"rank-{rank}").write_text(f"worker {rank} of {world}")
    if step == 10 and failing == str(rank) and lockstep.restarts() == 0:
        os._exit(3)
