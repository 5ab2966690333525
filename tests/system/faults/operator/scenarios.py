"""What users, kubelets and machines do to one job; each is played with every fault in turn."""


async def create(world):
    await world.submit(machines=3)
    await world.until_ready("gpt-0", "gpt-1", "gpt-2")


async def application_restart(world):
    """The user's processes need more memory than their container has."""
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    await world.kubelet.terminate("gpt-1", 137, "OOMKilled")
    await world.until_ready("gpt-0", "gpt-1-r2")


async def machine_loss(world):
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    await world.kubelet.terminate("gpt-0", 137)
    await world.until_ready("gpt-0-r2", "gpt-1")


async def scale(world):
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    await world.change(numMachines=3)
    await world.until_ready("gpt-0-r2", "gpt-1-r2", "gpt-2-r2")
    await world.change(numMachines=1)
    await world.until_ready("gpt-0-r3")


async def suspend_and_resume(world):
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    await world.change(suspend=True)
    await world.until(lambda: world.status().get("state") == "Suspended" and not world.running(),
                      "the job to be suspended")
    await world.change(suspend=False)
    await world.until_ready("gpt-0-r2", "gpt-1-r2")


async def delete(world):
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    await world.delete()
    await world.until_gone()


async def finish_with_ttl(world):
    await world.submit(machines=2, ttlSecondsAfterFinished=1)
    await world.until_ready("gpt-0", "gpt-1")
    await world.succeed(["gpt-0", "gpt-1"])
    await world.until_gone()


async def made_again(world):
    """Deleted and submitted anew under the same name, before the old one's pods are gone."""
    await world.submit(machines=2)
    await world.until_ready("gpt-0", "gpt-1")
    before = world.job()["metadata"]["uid"]
    await world.delete()
    await world.submit(machines=2)
    await world.until(lambda: world.job().get("metadata", {}).get("uid") not in (None, before),
                      "the new job")
    await world.until_ready("gpt-0", "gpt-1")


async def quota(world):
    """There is room for one more pod, beside what is there; then for all."""
    await world.allow_pods(2)
    await world.submit(machines=2)
    await world.until(lambda: "quota" in world.status().get("reason", ""), "word of the quota")
    await world.allow_pods(10)
    await world.until_ready("gpt-0", "gpt-1")


async def queue(world):
    """Admitted, pushed out, admitted again, suspended."""
    await world.submit_queued(machines=2)
    await world.queue.admit()
    await world.until_ready("gpt-0", "gpt-1")
    await world.queue.until_told("PodsReady", "True")
    await world.queue.evict()
    await world.queue.until_released()
    await world.until(lambda: world.status().get("state") == "Queued", "the job to be queued")
    await world.queue.admit()
    await world.until_ready("gpt-0-r2", "gpt-1-r2")
    await world.queue.until_told("PodsReady", "True")
    await world.change(suspend=True)
    await world.until(lambda: world.status().get("state") == "Suspended" and not world.running(),
                      "the job to be suspended")
    await world.queue.until_gone()


async def slices(world):
    """Of an elastic gang a machine finds no node: its quota goes back, and is asked for again."""
    await world.submit(machines=2, labels={"kueue.x-k8s.io/queue-name": "lq"},
                       annotations={"kueue.x-k8s.io/elastic-job": "true"},
                       elastic={"minMachines": 1, "shrinkAfter": "10s", "growAfter": "2s"})
    await world.queue.admit()
    await world.until_ready("gpt-0", "gpt-1")
    await world.queue.until_told("PodsReady", "True")
    await world.kubelet.hold({1})
    await world.kubelet.terminate("gpt-1", 137)
    await world.queue.until_asked(1)
    await world.kubelet.hold(())
    await world.queue.admit()
    await world.until_ready("gpt-0", "gpt-1-r5")


async def queue_elsewhere(world):
    """On a worker cluster of MultiKueue's, whose Workload becomes the job's."""
    await world.queue.make("made-there", job="gpt", count=2)
    await world.submit_queued(machines=2, prebuilt_workload_name="made-there")
    await world.queue.until_owned()
    await world.queue.admit()
    await world.until_ready("gpt-0", "gpt-1")
    await world.queue.until_told("PodsReady", "True")


async def gang(world):
    """With a PodGroup: a machine is lost, the job is suspended and goes on."""
    await _gang(world, "Coscheduling")


async def gang_of_kubernetes(world):
    """The same with Kubernetes' own."""
    await _gang(world, "Kubernetes")


async def _gang(world, scheduler):
    async def heed(name):
        if scheduler == "Kubernetes":
            await world.heed_group(name)

    await world.submit(machines=2, scheduling={"gang": scheduler})
    await world.until_ready("gpt-0", "gpt-1")
    await heed("gpt-e1")
    await world.kubelet.terminate("gpt-1", 137)
    await world.until_ready("gpt-0", "gpt-1-r2")
    await world.change(suspend=True)
    await world.until(lambda: world.status().get("state") == "Suspended" and not world.running()
                      and "podGroup" not in world.status(), "the job and its group to be gone")
    await world.change(suspend=False)
    await world.until_ready("gpt-0-r3", "gpt-1-r3")
    await heed("gpt-e3")


async def claim(world):
    """The namespace is another operator's at first, and again while the job runs."""
    await world.claim.take()
    await world.submit(machines=2)
    await world.claim.until_looked_at()
    await world.claim.leave()
    await world.until_ready("gpt-0", "gpt-1")
    await world.claim.take()
    await world.kubelet.terminate("gpt-1", 137)
    await world.claim.until_looked_at()
    await world.claim.leave()
    await world.until_ready("gpt-0", "gpt-1-r2")


ALL = {each.__name__: each for each in (create, application_restart, machine_loss, scale,
                                        suspend_and_resume, delete, finish_with_ttl, made_again,
                                        quota, queue, slices, queue_elsewhere,
                                        gang, gang_of_kubernetes, claim)}
