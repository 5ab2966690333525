"""Rules about the pod template: what is Lockstep's own there, and what stands elsewhere."""

from crd.names import OWN_LABEL_PREFIX, OWN_LABELS, OWN_NAME_PREFIX, listed
from crd.schema import rule
from crd.shortcuts import NO_PROGRAM, variable_rules


def of_metadata():
    owned = [rule(f"!has(self.{name})", f"remove it: Lockstep sets the pods' {name}", f".{name}")
             for name in ["name", "generateName", "namespace", "ownerReferences", "finalizers"]]
    return owned + [rule(
        f"!has(self.labels) || self.labels.all(key, !key.startsWith('{OWN_LABEL_PREFIX}') && "
        f"!(key in {listed(OWN_LABELS)}))",
        "holds a label that Lockstep sets itself; remove it", ".labels")]


def of_pod():
    """Of the template's spec. What the worker container says is judged as if the spec did."""
    def own_names(of):
        return rule(f"!has(self.{of}) || self.{of}.all(each, "
                    f"!each.name.startsWith('{OWN_NAME_PREFIX}'))",
                    f"holds a name that begins with {OWN_NAME_PREFIX}; Lockstep reserves such names",
                    f".{of}")

    def own_mounts(of):
        return rule(f"!has(self.{of}) || self.{of}.all(each, !has(each.volumeMounts) || "
                    f"each.volumeMounts.all(mount, !mount.name.startsWith('{OWN_NAME_PREFIX}')))",
                    f"mounts a volume whose name begins with {OWN_NAME_PREFIX}; Lockstep reserves "
                    f"such names; mount one of spec.template.spec.volumes", f".{of}")
    return [
        rule("!has(self.restartPolicy) || self.restartPolicy == 'Never'",
             "must be Never: Lockstep restarts processes itself, by spec.failurePolicy",
             ".restartPolicy"),
        rule("!has(self.containers) || self.containers.all(each, !has(each.restartPolicy))",
             "has a restartPolicy; remove it: Lockstep restarts processes itself, by "
             "spec.failurePolicy", ".containers"),
        rule("!has(self.hostname)", "remove it: Lockstep sets the pods' hostname", ".hostname"),
        rule("!has(self.subdomain)", "remove it: Lockstep sets the pods' subdomain", ".subdomain"),
        rule("!has(self.terminationGracePeriodSeconds)", "write it as spec.gracePeriod",
             ".terminationGracePeriodSeconds"),
        rule("!has(self.activeDeadlineSeconds)", "write it as spec.activeDeadlineSeconds",
             ".activeDeadlineSeconds"),
        own_names("containers"), own_names("initContainers"), own_names("volumes"),
        own_mounts("containers"), own_mounts("initContainers"),
    ]


def of_container():
    worker = "self.name != 'worker' || "
    has_command = f"{worker}!has(self.command) || self.command.size() == 0 || "
    rules = [
        rule(f"{worker}!has(self.resources) || "
             "(!has(self.resources.limits) && !has(self.resources.requests))",
             "has limits or requests in its worker container; write them as "
             "spec.resourcesPerProcess and spec.resourcesPerMachine", ".resources"),
        rule(f"{has_command}self.command[0] != ''",
             NO_PROGRAM, ".command"),
    ]
    rules += [rule(f"{worker}!has(self.env) || self.env.all(each, {expression})", message, ".env")
              for expression, message, _ in variable_rules("each")]
    return rules
