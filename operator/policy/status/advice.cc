#include "operator/policy/status/advice.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "core/model/shortcuts.h"
#include "core/text/limited_text.h"

namespace lockstep::control {
namespace {

struct Sign {
  std::initializer_list<std::string_view> words;  // any of them
  std::string_view advice;
};

// The first that is found in the text.
std::string_view Find(std::initializer_list<Sign> signs, std::string_view text) {
  for (const Sign& sign : signs) {
    for (const std::string_view word : sign.words) {
      if (text.find(word) != std::string_view::npos) return sign.advice;
    }
  }
  return "";
}

// The field that gives a machine's worker container an amount of a resource.
std::string FieldOf(std::string_view resource) {
  if (resource == "cpu" || resource == "memory") {
    return "spec.resourcesPerProcess." + std::string(resource);
  }
  if (resource.ends_with("/gpu")) return "spec.resourcesPerProcess.gpu";
  return "spec.resourcesPerMachine." + std::string(resource);
}

// A pod that no node is large enough for waits for ever, though all were free.
std::string OfRoom(std::string_view resource, const std::optional<Quantity>& asked,
                   const std::map<std::string, Quantity>& largest) {
  const std::string name(resource);
  // Resources of device plugins have a domain in their name.
  const bool device = resource.find('/') != std::string_view::npos;
  const auto most = largest.find(name);
  const bool none = most == largest.end() || most->second == Quantity();
  if (device && !largest.empty() && none) {
    return "no node has " + name + ": check whether its device plugin runs, or add nodes";
  }
  if (asked && !none && *asked > most->second) {
    return "a machine asks for " + asked->ToString() + " " + name + " and the largest node has " +
           most->second.ToString() + ": add larger nodes, or lower " + FieldOf(resource);
  }
  const std::string lead = "no node has as much " + name + " free: lower ";
  if (device && largest.empty()) {
    return lead + FieldOf(resource) + ", or check whether its device plugin runs";
  }
  return lead + FieldOf(resource) + ", wait, or add nodes";
}

// The text between the first `before` and the next of `ends`; "": there is no `before`.
std::string_view Between(std::string_view text, std::string_view before, std::string_view ends) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + before.size());
  text = text.substr(0, text.find_first_of(ends));
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string ChartValueOf(std::string_view resource) {
  return "value agent.resources." + std::string(resource) + " of the operator's chart";
}

// "memory usage per Container is 100Mi, but request is 32Mi", which does not name the container.
struct Bound {
  std::string resource;
  std::string_view wanted;
  std::string_view asked;  // "": nothing
};

std::vector<Bound> BoundsOfContainers(std::string_view message) {
  constexpr std::string_view kUsage = " usage per Container is ";
  std::vector<Bound> bounds;
  for (size_t at = message.find(kUsage); at != std::string_view::npos;) {
    const size_t next = message.find(kUsage, at + 1);
    const std::string_view before = message.substr(0, at);
    const std::string_view clause = message.substr(at, next - at);
    std::string_view asked = Between(clause, "but request is ", ", ]");
    if (asked.empty()) asked = Between(clause, "but limit is ", ", ]");
    bounds.push_back({std::string(before.substr(before.find_last_of(' ') + 1)),
                      Between(clause, kUsage, ", ]"), asked});
    at = next;
  }
  return bounds;
}

std::string OfLimitRange(std::string_view message,
                         const std::map<std::string, std::string>& installer) {
  if (message.find("limit to request ratio per ") != std::string_view::npos) {
    return "the namespace's LimitRange requires a limit of container worker: set "
           "spec.resourcesPerProcess.memory, of cpu topology.policy: Required";
  }
  if (message.find(" usage per Pod is ") != std::string_view::npos) {
    return "the namespace's LimitRange bounds the pod: spec.resourcesPerProcess times "
           "processesPerMachine";
  }
  std::string advice;
  for (const Bound& bound : BoundsOfContainers(message)) {
    const auto own = installer.find(bound.resource);
    if (own != installer.end() && own->second == bound.asked) {
      return "that is init container lockstep-install: set " + ChartValueOf(bound.resource) +
             " to " + std::string(bound.wanted);
    }
    advice = "the namespace's LimitRange bounds container worker: set " + FieldOf(bound.resource);
    if (bound.asked.empty() && own == installer.end()) {
      advice += ", and for lockstep-install " + ChartValueOf(bound.resource);
    }
  }
  return advice;
}

// "failed quota: q: must specify limits.cpu for: worker; requests.memory for: a,b".
std::string OfMissingAmounts(std::string_view message) {
  if (message.find("failed quota") == std::string_view::npos) return "";
  constexpr std::string_view kSpecify = "must specify ";
  const size_t at = message.find(kSpecify);
  if (at == std::string_view::npos) return "";
  std::string_view resource = message.substr(at + kSpecify.size());
  resource = resource.substr(0, resource.find_first_of(" ,;"));
  const bool limit_of_cpu = resource == "limits.cpu";
  resource = resource.substr(resource.find('.') + 1);
  const std::string_view who = Between(message, " for: ", "; ");
  std::string advice = "the quota requires a request or limit of every container: set ";
  if (who.find(core::kInstallContainer) != std::string_view::npos) {
    advice += ChartValueOf(resource) + " for " + core::kInstallContainer;
    if (who == core::kInstallContainer) return advice;
    advice += ", and ";
  }
  // Requests of CPUs alone are no limits: those throttle.
  if (limit_of_cpu) return advice + "a default limit of cpu in a LimitRange of the namespace";
  return advice + FieldOf(resource);
}

}  // namespace

// "nvidia.com/gpu" of "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: ...".
std::string_view LackingResource(std::string_view message) {
  constexpr std::string_view kLead = "Insufficient ";
  const size_t at = message.find(kLead);
  if (at == std::string_view::npos) return "";
  std::string_view name = message.substr(at + kLead.size());
  name = name.substr(0, name.find_first_of(", "));
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

std::string AdviceOnScheduling(std::string_view message, const std::optional<Quantity>& asked,
                               const std::map<std::string, Quantity>& largest) {
  const std::string_view sign =
      Find({{{"ReadWriteOncePod"},
             "its claim is ReadWriteOncePod, which only one pod can use: several machines need a "
             "ReadWriteMany claim"},
            {{"volume node affinity conflict", "match PersistentVolume's node affinity"},
             "its volume is available on other nodes only: machines on several nodes need a "
             "ReadWriteMany "
             "claim"},
            {{"unbound immediate PersistentVolumeClaims", "available persistent volumes to bind"},
             "its volume claim is not bound: `kubectl describe pvc` shows why"}},
           message);
  if (!sign.empty()) return std::string(sign);
  if (message.find("persistentvolumeclaim \"") != std::string_view::npos) {
    return "make that claim, or correct spec.checkpoint.claim";
  }
  if (const std::string_view resource = LackingResource(message); !resource.empty()) {
    return OfRoom(resource, asked, largest);
  }
  return std::string(
      Find({{{"untolerated taint"}, "tolerate the taint in spec.template, or add nodes without it"},
            {{"topology spread constraints"},
             "spec.placement asks for more nodes than fit: add nodes, or set onePerNode: None"},
            {{"node affinity/selector"}, "no node has the labels that spec.template asks for"}},
           message));
}

bool IsImageTrouble(std::string_view reason) {
  static constexpr auto kReasons = std::to_array<std::string_view>(
      {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"});
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

std::string AdviceOnContainer(std::string_view reason, std::string_view message) {
  if (reason == "InvalidImageName") return "that is not an image name: correct it";
  if (reason == "ErrImageNeverPull") return "put the image on the node, or allow the pull";
  if (IsImageTrouble(reason)) {
    return std::string(
        Find({{{"no such host", "connection refused", "i/o timeout", "no route to host",
                "network is unreachable", "Client.Timeout", "deadline exceeded", "x509"},
               "its registry cannot be reached: check the registry in its name, and the node's "
               "route to it"},
              {{"401", "403", "unauthorized", "Unauthorized", "authorization failed",
                "authentication required", "access denied"},
               "its registry asks for credentials, or has no such image: name a Secret in "
               "spec.imagePullSecrets, or correct the name"},
              {{"not found", "manifest unknown", "does not exist"},
               "there is no such image: correct its name or tag"}},
             message));
  }
  return std::string(
      Find({{{"runAsNonRoot", "run as root"},
             "set runAsUser in the securityContext of spec.template, to a user of the image"},
            {{"not found", "couldn't find key"},
             "make it, or correct the job's env, envFrom or checkpoint.secret"}},
           message));
}

std::string AdviceOnRefusal(std::string_view message,
                            const std::map<std::string, std::string>& installer) {
  if (std::string advice = OfLimitRange(message, installer); !advice.empty()) return advice;
  if (std::string advice = OfMissingAmounts(message); !advice.empty()) return advice;
  return std::string(
      Find({{{"violates PodSecurity"},
             "set what is missing in spec.template, or let the namespace allow more"},
            {{"exceeded quota"}, "lower the requests, or raise the quota"},
            {{"cannot create resource \"podgroups\""},
             "the chart's gangScheduling must name spec.scheduling.gang"},
            {{"cannot create resource"}, "the operator's Role lacks this permission"},
            {{"no PriorityClass"}, "make it, or correct spec.priorityClassName"},
            {{"error looking up service account"}, "make it, or correct spec.template"},
            {{"being terminated"}, "the namespace is being deleted"}},
           message));
}

std::string Compose(std::string_view lead, std::string_view message, std::string_view advice,
                    size_t limit) {
  std::string text(lead);
  const size_t taken = lead.size() + advice.size() + 4;
  if (!message.empty() && taken + 3 <= limit) {
    text += ": " + core::FirstBytes(message, limit - taken);
  }
  if (!advice.empty()) text.append(message.empty() ? ": " : "; ").append(advice);
  return text;
}

}  // namespace lockstep::control
