"""Trains a small model with TensorFlow's ParameterServerStrategy. The chief hands out steps,
workers do them, and servers hold the variables.

    lockstep run examples/tensorflow-ps.yaml

TF_CONFIG, which Lockstep sets, names the task of each process. If a worker dies, Lockstep restarts
only this worker, and another worker does its step. If the server dies, the whole gang restarts from
the last checkpoint.
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    args = parser.parse_args()

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    # A step occupies a thread of its worker's pool while it waits for other processes. The default
    # is one thread for each core. A bound process may have one core, and its steps would deadlock.
    threads = max(len(os.sched_getaffinity(0)), cluster.cluster_spec().num_tasks("worker") + 1)
    if cluster.task_type in ("worker", "ps"):
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)
        server = tf.distribute.Server(cluster.cluster_spec(), job_name=cluster.task_type,
                                      task_index=cluster.task_id, protocol="grpc", config=config)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print(f"{cluster.task_type} {cluster.task_id} serves", flush=True)
        server.join()  # until Lockstep stops it, after the chief has ended
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    coordinate(cluster, args)


def coordinate(cluster, args) -> None:
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    shapes = [(32, 64), (64,), (64, 1), (1,)]
    with strategy.scope():
        weights = [tf.Variable(0.1 * tf.random.stateless_normal(shape, seed=(0, i)))
                   for i, shape in enumerate(shapes)]
        done = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step():
        inputs = tf.random.normal((64, 32))
        targets = tf.reduce_sum(tf.sin(inputs), axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ weights[0] + weights[1])
            loss = tf.reduce_mean(tf.square(hidden @ weights[2] + weights[3] - targets))
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(RATE * gradient)
        done.assign_add(1)
        return loss

    first = 0
    resume = lockstep.latest()
    if resume:
        with np.load(os.path.join(resume, "state.npz")) as state:
            first = int(state["step"])
            for i, weight in enumerate(weights):
                weight.assign(state[f"weight{i}"])
            done.assign(first)
    print(f"training from step {first}" + (f" of {resume}" if resume else ""), flush=True)

    losses = []
    for number in range(first + 1, args.steps + 1):
        losses.append(coordinator.schedule(step))
        time.sleep(args.seconds_per_step)
        if number % args.checkpoint_every == 0 or number == args.steps:
            coordinator.join()  # waits until the workers have done all steps
            loss = float(losses[-1].fetch())
            losses.clear()
            lockstep.report(step=number, total_steps=args.steps, loss=loss, tokens=64)
            if lockstep.checkpoint_dir():
                save(weights, number)
    # If a worker dies between a step and its answer, the step is done again.
    print(f"trained to step {args.steps} with {int(done)} updates", flush=True)


def save(weights, step: int) -> None:
    directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
    os.makedirs(directory)
    state = {f"weight{i}": weight.numpy() for i, weight in enumerate(weights)}
    np.savez(os.path.join(directory, "state.npz"), step=step, **state)
    lockstep.commit(directory)


if __name__ == "__main__":
    main()
