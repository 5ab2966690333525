"""Everything that tells why a test on the cluster failed, as one text."""

from e2e_install import SYSTEM

LINES = 80  # of each log


def report(stack, namespace):
    """Of one namespace: jobs, pods, events and agents' logs; and the operators' logs."""
    def ask(*arguments):
        done = stack.kubectl("--request-timeout=10s", *arguments, check=False)
        return f"$ kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}\n"

    def logs(space):
        names = stack.kubectl("-n", space, "get", "pods", "-o", "name", check=False).stdout.split()
        return [ask("-n", space, "logs", name, "--all-containers", "--prefix", f"--tail={LINES}",
                    *options)
                for name in names for options in ([], ["--previous"])]

    return "".join([
        ask("-n", namespace, "get", "tj", "-o", "yaml"),
        ask("-n", namespace, "get", "pods", "-o", "wide"),
        ask("-n", namespace, "get", "events", "--sort-by=.lastTimestamp"),
        ask("get", "nodes", "-o", "wide"),
        *logs(namespace),
        ask("-n", SYSTEM, "get", "pods,leases", "-o", "wide"),
        *logs(SYSTEM),
    ])
