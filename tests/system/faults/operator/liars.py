"""Jobs whose machine 0 answers the operator with anything, beside jobs that are in a hurry.

The agents of a job are its owner's: what one of them says must cost no other job anything, and its
own must say what is wrong with it.
"""

import asyncio
import base64
import contextlib
import subprocess

import kubelet_writer
from tls import binary
from world import World

LIARS = 6
ROUNDS = 15
AGENT_PORT = 7070
WATCHED = 10.0      # seconds in which a liar's writes are counted
MOST_WRITES = 2.0   # a second, of one liar's status
BRIEF = 0.05        # seconds: what an API server's own moods come to


async def play(testbed):
    """The violations."""
    async with World(testbed, []) as world, contextlib.AsyncExitStack() as stack:
        world.kubelet.network = 127  # there they listen
        world.kubelet.started = kubelet_writer.now  # their silence is to be judged
        alone = await latencies(world, "alone")
        for index in range(LIARS):
            stack.enter_context(await lie(world, f"liar-{index}", "wild" if index % 2 else
                                          "unreadable"))
        beside = []
        for turn in range(3):  # what else the computer has to do passes; what liars cost does not
            beside.append(await latencies(world, f"beside-{turn}"))
            if beside[-1] <= 2 * alone + BRIEF:
                break
        beside = min(beside)
        asked = asyncio.get_running_loop().time()
        before = len(world.proxy.calls)
        for index in range(0, LIARS, 2):
            name = f"liar-{index}"
            await world.until(lambda name=name: "not like an agent" in
                              world.status(name).get("reason", ""), f"the reason of {name}")
        await asyncio.sleep(max(WATCHED - (asyncio.get_running_loop().time() - asked), 0.0))
        took = asyncio.get_running_loop().time() - asked
        print(f"alone {alone * 1e3:.0f} ms, beside {LIARS} liars {beside * 1e3:.0f} ms", flush=True)
        return [
            *([f"{beside:.3f} s beside liars, {alone:.3f} s without"]
              if beside > 2 * alone + BRIEF else []),
            *(f"{name}: {count} writes of status in {took:.0f} s"
              for name, count in writes(world.proxy.calls[before:]).items()
              if count > MOST_WRITES * took),
            *(f"an operator ended by itself: {code}"
              for operator in world.operators for code in operator.deaths),
        ]


async def latencies(world, name):
    """The time from a job's submission to its being ready, as its status says: of a quarter of the
    jobs no longer than that. (Medians also tell what else the computer had to do.)"""
    seconds = []
    for index in range(ROUNDS):
        job = f"{name}-{index}"
        started = asyncio.get_running_loop().time()
        await world.submit(machines=1, name=job)
        await world.until(lambda job=job: world.status(job).get("ready") == "1/1", f"{job} to run")
        seconds.append(asyncio.get_running_loop().time() - started)
        await world.delete(job)
        await world.until(lambda job=job: f"{job}-0" not in world.kubelet.pods, f"{job} to go")
    return sorted(seconds)[len(seconds) // 4]


async def lie(world, name, kind):
    """A job, and what stands where its agent should."""
    await world.submit(machines=1, name=name)
    await world.until(lambda: f"{name}-0" in world.running(), f"{name} to run")
    secrets = (await world.api.call("GET", world.path("secrets")))["items"]
    [key] = [base64.b64decode(each["data"]["gang"]) for each in secrets
             if each["metadata"]["name"].startswith(f"{name}-key-")]
    address = world.kubelet.pods[f"{name}-0"]["status"]["podIP"]
    return agent(f"{address}:{AGENT_PORT}", world.job(name)["metadata"]["uid"], kind, key)


@contextlib.contextmanager
def agent(address, uid, kind, key):
    process = subprocess.Popen([binary("lockstep-lying-agent"), address, uid, kind],
                               stdin=subprocess.PIPE)
    try:
        process.stdin.write(key)
        process.stdin.close()
        yield
        assert process.poll() is None, f"the agent that lies ended with {process.returncode}"
    finally:
        process.kill()
        process.wait()


def writes(calls):
    count = {}
    for call in calls:
        if call.is_write and call.key.resource == "trainingjobs/status":
            count[call.key.name] = count.get(call.key.name, 0) + 1
    return count
