"""What must hold of a run, whatever was broken in it. Each returns the violations it sees."""

import collections
import difflib
import json
import re

from world import DECOYS, JOB

MADE_FOR_A_JOB = ("pods", "services", "secrets", "endpointslices", "workloads", "podgroups")
MASTER_KEY = "lockstep-master-key"
MAY_WRITE = {
    "POST": {"pods", "services", "secrets", "endpointslices", "workloads", "podgroups", "events",
             "leases"},
    "PATCH": {"trainingjobs/status", "workloads", "workloads/status", "services", "events", "leases"},
    "PUT": {"trainingjobs/status", "endpointslices", "leases"},
    "DELETE": {"pods", "trainingjobs", "workloads", "podgroups"},
}
MEMORY_GROWTH, THREAD_GROWTH, DESCRIPTOR_GROWTH = 8 << 20, 4, 16

_MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b10\.96\.\d+\.\d+"), "SERVICE-IP"),
    (re.compile(r"\b(127|239)\.\d+\.\d+\.\d+"), "POD-IP"),
    # What an operator has not seen itself it cannot know, and then it says no.
    (re.compile(r'predecessorDead\\":(true|false)'), "PREDECESSOR"),
]


def end_state(objects, uids, namespace):
    """The objects as text, one for each, without what differs from run to run."""
    return {f"{resource} {_unnamed_key(name)}": _masked(item, uids, namespace)
            for (resource, name), item in objects.items()
            if not name.startswith(("default-token", MASTER_KEY, "kube-root-ca"))}


def _masked(item, uids, namespace):
    metadata = item["metadata"]
    for volatile in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        metadata.pop(volatile, None)
    if metadata.get("annotations", {}).pop("touched", None) and not metadata["annotations"]:
        metadata.pop("annotations")
    conditions = item.get("status", {}).get("conditions", [])
    # Whether a conflict was seen before it was resolved is a matter of who came first.
    conditions[:] = [each for each in conditions if (each["type"], each["status"]) not in (
        ("NameConflict", "False"), ("Stalled", "False"))]
    conditions.sort(key=lambda each: each["type"])  # a map to Kubernetes, in no order
    if "podSets" in item.get("spec", {}):
        for each in conditions:  # told before a Workload was resized, or after
            each.pop("observedGeneration", None)
    item.get("status", {}).pop("ledger", None)  # how long everything took
    # Which nodes to avoid, a preference, is told from what is still there of earlier attempts.
    item.get("spec", {}).pop("affinity", None)
    if "addressType" in item:
        metadata.pop("generation", None)  # how often it was written
        for endpoint in item["endpoints"] or []:
            endpoint["targetRef"].pop("uid")
    if "data" in item:
        item["data"] = sorted(item["data"])  # a key follows from the UID
    text = json.dumps(item, indent=1, sort_keys=True)
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    for uid in uids:
        text = text.replace(uid, "UID")
    return _unnamed_key(text).replace(namespace, "NAMESPACE")


def _unnamed_key(text):
    """Names follow from the job's UID: the Secret's by the key, and the Workloads'."""
    text = re.sub(r"-key-[0-9a-f]{16}\b", "-key-KEY", text)
    return re.sub(r"\b(trainingjob-\w+)-[0-9a-f]{8}\b", r"\1-JOB", text)


def differences(reference, found):
    lines = []
    for key in sorted(reference.keys() | found.keys()):
        if key not in found:
            lines.append(f"end state: {key} is missing")
        elif key not in reference:
            lines.append(f"end state: {key} is there and should not be")
        elif reference[key] != found[key]:
            lines.append(f"end state: {key} differs: {_changed(reference[key], found[key])[:1200]}")
    return lines


def _changed(was, now):
    """What a unified diff shows, in one line: moved lines, too, with what stands around them."""
    shown = list(difflib.unified_diff(was.splitlines(), now.splitlines(), n=3, lineterm=""))[2:]
    return " ".join(line[0].strip() + line[1:].strip() for line in shown)


def creations(writes):
    return collections.Counter(
        str(call.key) for call in writes
        if call.committed and call.key.verb == "POST" and call.key.resource in MADE_FOR_A_JOB)


def deletions(writes):
    """Objects, not calls: to delete once more what is on its way out does nothing."""
    deleted = {(str(call.key), call.body.get("preconditions", {}).get("uid"))
               for call in writes if call.committed and call.key.verb == "DELETE"}
    return collections.Counter(key for key, _ in deleted)


def as_often_as(reference, found, what):
    return [f"{what}: {key} {found[key]} times instead of {reference[key]}"
            for key in sorted(reference.keys() | found.keys()) if found[key] != reference[key]]


def nothing_foreign_written(writes, uids):
    violations = []
    decoys = {body["metadata"]["name"] for body in DECOYS.values()}
    made = set()
    for call in writes:
        key = call.key
        if key.resource not in MAY_WRITE.get(key.verb, ()):
            violations.append(f"an operator has no business with: {key}")
        if key.name in decoys:
            violations.append(f"somebody else's object is written: {key}")
        if not call.committed or key.name == MASTER_KEY:
            continue
        if key.verb == "POST" and key.resource in MADE_FOR_A_JOB:
            owners = call.body["metadata"].get("ownerReferences", [])
            if [(each["uid"] in uids, each.get("controller")) for each in owners] != [(True, True)]:
                violations.append(f"{key} is not owned by the job: {owners}")
            made.add((key.resource, key.name))
        if key.verb == "DELETE" and key.resource == "pods":
            if not call.body.get("preconditions", {}).get("uid"):
                violations.append(f"{key} has no UID precondition")
            if (key.resource, key.name) not in made:
                violations.append(f"{key}, which the operator had not made")
    return violations


def epoch_before_pods(writes):
    """No pod is made by an epoch that is not on record, and no machine's attempt goes back."""
    violations, epoch, attempts = [], 0, {}
    for call in writes:
        if not call.committed:
            continue
        if call.key.resource == "trainingjobs/status" and call.key.name == JOB:
            epoch = max(epoch, call.answer.get("status", {}).get("epoch", 0))
        elif (call.key.verb, call.key.resource) == ("POST", "pods"):
            labels = call.body["metadata"]["labels"]
            machine, attempt = (int(labels[f"lockstep.dev/{each}"])
                                for each in ("machine", "attempt"))
            owner = call.body["metadata"]["ownerReferences"][0]["uid"]
            if attempt > epoch:
                violations.append(f"{call.key}: attempt {attempt} while the epoch is {epoch}")
            if attempt < attempts.get((owner, machine), 0):
                violations.append(f"{call.key}: attempt {attempt} after a higher one")
            attempts[owner, machine] = attempt
    return violations


def group_before_pods(writes):
    """No pod is made in a PodGroup that is not there."""
    violations, groups = [], set()
    for call in writes:
        if not call.committed:
            continue
        if call.key.resource == "podgroups":
            (groups.add if call.key.verb == "POST" else groups.discard)(call.key.name)
        elif (call.key.verb, call.key.resource) == ("POST", "pods"):
            group = (call.body["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group")
                     or call.body["spec"].get("schedulingGroup", {}).get("podGroupName"))
            if group and group not in groups:
                violations.append(f"{call.key} in {group}, which is not there")
    return violations


def pods_only_while_admitted(writes, admitted_at):
    """admitted_at: how many writes there had been, of each admission. A turn ends by its release,
    of which there is one."""
    violations, admitted = [], False
    for index, call in enumerate(writes):
        admitted |= index in admitted_at
        if not call.committed:
            continue
        if (call.key.verb, call.key.resource) == ("POST", "pods") and not admitted:
            violations.append(f"{call.key}, which nobody has admitted")
        if call.key.resource == "workloads/status" and "patch" in call.body:
            if not admitted:
                violations.append(f"{call.key}: released twice")
            admitted = False
    return violations


def nothing_while_anothers(writes, held):
    """held: how many writes there had been when a claim of another operator was understood, and
    when it ended."""
    return [f"{call.key}, while the namespace is another's" for since, until in held
            for call in writes[since:until]
            if call.key.resource not in ("leases", "events") and call.key.name != MASTER_KEY]


def few_writes(reference, found, faults):
    """Faults cost writes, hot loops thousands. How often a Lease is renewed a clock decides."""
    before, now = (sum(call.key.resource != "leases" for call in writes)
                   for writes in (reference, found))
    allowed = 2 * before + 10 + 10 * faults
    return [f"{now} writes where {allowed} are plenty"] if now > allowed else []


def no_growth(reference, usage):
    bounds = {"memory": MEMORY_GROWTH, "threads": THREAD_GROWTH, "descriptors": DESCRIPTOR_GROWTH}
    return [f"{name} grew from {reference[name]} to {usage[name]}"
            for name, bound in bounds.items() if usage[name] > reference[name] + bound]
