"""Rights, as roles grant them and as the API server's audit log shows them asked for."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Right:
    namespace: str  # "": all, and what is in none
    group: str
    resource: str  # "pods", "trainingjobs/status"
    name: str  # "": any
    verb: str

    def allows(self, request):
        return (self.namespace in ("", request.namespace) and self.name in ("", request.name)
                and (self.group, self.resource, self.verb)
                == (request.group, request.resource, request.verb))


def granted(objects):
    """The rights in Roles and ClusterRoles."""
    for role in objects:
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        for verb in rule["verbs"]:
                            yield Right(role["metadata"].get("namespace", ""), group, resource,
                                        name, verb)


@dataclasses.dataclass(frozen=True)
class Request(Right):
    """What somebody asked for."""

    code: int


def requested(log, user):
    """By `user`, as the audit log has it; what is made has no name yet."""
    found = set()
    for line in log.read_text().splitlines():
        if f'"{user}"' not in line:
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the server is writing it
        about = event.get("objectRef")
        if about is None or event["user"]["username"] != user:
            continue
        sub = about.get("subresource")
        found.add(Request(about.get("namespace", ""), about.get("apiGroup", ""),
                          about["resource"] + (f"/{sub}" if sub else ""),
                          "" if event["verb"] == "create" else about.get("name", ""),
                          event["verb"], event.get("responseStatus", {}).get("code", 0)))
    return found
