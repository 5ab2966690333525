"""Another operator, as far as this one sees of it: the Lease that says whose a namespace's jobs are."""

from api_client import ApiError
from kubelet_writer import now

LEASE = "lockstep-jobs"
HOLDER = "elsewhere/another"
LONG = 3600   # seconds: it is never over by itself
LOOKS = 3     # of the operator at the Lease, after which it has surely understood


class Claim:
    def __init__(self, world):
        self._world = world
        self.held = []  # [how many writes there had been, and how many at the end]

    async def take(self):
        """From whoever has it, and until that one has seen so."""
        spec = {"holderIdentity": HOLDER, "leaseDurationSeconds": LONG,
                "acquireTime": _micro(), "renewTime": _micro(), "leaseTransitions": 1}
        await self._write(spec)
        await self.until_looked_at()
        self.held.append([len(self._world.proxy.writes())])

    async def leave(self):
        self.held[-1].append(len(self._world.proxy.writes()))
        await self._write({"holderIdentity": "", "leaseDurationSeconds": 1})

    async def until_looked_at(self):
        before = len(self._world.proxy.calls)

        def looked():
            return sum(call.key.verb == "GET" and call.key.name == LEASE and call.status == 200
                       and call.answer.get("spec", {}).get("holderIdentity") == HOLDER
                       for call in self._world.proxy.calls[before:]) >= LOOKS

        await self._world.until(looked, "the operator to see whose the namespace is")

    async def _write(self, spec):
        folder = f"/apis/coordination.k8s.io/v1/namespaces/{self._world.namespace}/leases"
        body = {"metadata": {"name": LEASE}, "spec": spec}
        try:
            await self._world.api.call("POST", folder, body)
        except ApiError:  # it is there
            await self._world.api.patch(f"{folder}/{LEASE}", body)


def _micro():
    return now().replace("Z", ".000000Z")
