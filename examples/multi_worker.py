"""Trains a small model with TensorFlow's MultiWorkerMirroredStrategy and resumes from its
checkpoint after a failure.

    lockstep run examples/tensorflow.yaml

The strategy reads TF_CONFIG, which Lockstep sets. Only three calls concern Lockstep: latest() names
the checkpoint to resume from, commit() makes a checkpoint complete, and report() reports progress.
"""

import argparse
import os
import signal
import sys
import time

import numpy as np
import tensorflow as tf

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402

RATE = 0.01


def batch(step: int, rank: int):
    """The data of one step. It depends only on step and rank."""
    inputs = tf.random.stateless_normal((64, 32), seed=(step, rank))
    return inputs, tf.reduce_sum(tf.sin(inputs), axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="file for the trained weights, from rank 0")
    args = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # The strategy catches SIGTERM for PreemptionCheckpointHandler. Without this line a suspend
    # would take all of gracePeriod.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    rank = strategy.cluster_resolver.task_id
    shapes = [(32, 64), (64,), (64, 1), (1,)]
    with strategy.scope():
        # Each replica subtracts the mean of all replicas' updates.
        weights = [
            tf.Variable(0.1 * tf.random.stateless_normal(shape, seed=(0, i)),
                        aggregation=tf.VariableAggregation.MEAN)
            for i, shape in enumerate(shapes)
        ]

    def replica(inputs, targets):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ weights[0] + weights[1])
            loss = tf.reduce_mean(tf.square(hidden @ weights[2] + weights[3] - targets))
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(RATE * gradient)
        return loss

    @tf.function
    def train(inputs, targets):
        losses = strategy.run(replica, args=(inputs, targets))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    first = 0
    resume = lockstep.latest()
    if resume:
        with np.load(os.path.join(resume, "state.npz")) as state:
            first = int(state["step"])
            for i, weight in enumerate(weights):
                weight.assign(state[f"weight{i}"])
    if rank == 0:
        print(f"training from step {first}" + (f" of {resume}" if resume else ""), flush=True)

    for step in range(first + 1, args.steps + 1):
        loss = train(*batch(step, rank))
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.numpy(), tokens=64)
        if rank == 0 and step % args.checkpoint_every == 0 and lockstep.checkpoint_dir():
            save(weights, step)

    if rank == 0:
        print(f"trained to step {args.steps}", flush=True)
        if args.weights:
            np.savez(args.weights, *[weight.numpy() for weight in weights])


def save(weights, step: int) -> None:
    directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
    os.makedirs(directory)
    state = {f"weight{i}": weight.numpy() for i, weight in enumerate(weights)}
    np.savez(os.path.join(directory, "state.npz"), step=step, **state)
    lockstep.commit(directory)


if __name__ == "__main__":
    main()
