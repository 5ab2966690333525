#include "operator/policy/advice.h"

#include <algorithm>
#include <array>
#include <initializer_list>

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

}  // namespace

std::string AdviceOnScheduling(std::string_view message) {
  const std::string_view sign =
      Find({{{"ReadWriteOncePod"},
             "its claim is ReadWriteOncePod, which one pod alone can use: several machines need a "
             "ReadWriteMany claim"},
            {{"volume node affinity conflict", "match PersistentVolume's node affinity"},
             "its volume can be had on other nodes alone: machines on several nodes need a "
             "ReadWriteMany "
             "claim"},
            {{"unbound immediate PersistentVolumeClaims", "available persistent volumes to bind"},
             "its volume claim is not bound: `kubectl describe pvc` says why"}},
           message);
  if (!sign.empty()) return std::string(sign);
  if (message.find("persistentvolumeclaim \"") != std::string_view::npos) {
    return "make that claim, or correct spec.checkpoint.claim";
  }
  if (const std::string_view resource = LackingResource(message); !resource.empty()) {
    // What a device plugin offers bears the name of a domain.
    const bool device = resource.find('/') != std::string_view::npos;
    return "no node has as much " + std::string(resource) + " free: ask for less in " +
           (device ? "spec.resourcesPerProcess, or look whether its device plugin runs"
                   : "spec.resourcesPerProcess, or add nodes");
  }
  return std::string(
      Find({{{"untolerated taint"}, "tolerate the taint in spec.template, or add nodes without it"},
            {{"topology spread constraints"},
             "spec.placement asks for more nodes than fit: add nodes, or set onePerNode: None"},
            {{"node affinity/selector"}, "no node bears the labels that spec.template asks for"}},
           message));
}

bool IsImageTrouble(std::string_view reason) {
  static constexpr auto kReasons = std::to_array<std::string_view>(
      {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"});
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

std::string AdviceOnContainer(std::string_view reason, std::string_view message) {
  if (reason == "InvalidImageName") return "that is no name of an image: correct it";
  if (reason == "ErrImageNeverPull") return "put the image on the node, or let it be pulled";
  if (IsImageTrouble(reason)) {
    return std::string(Find(
        {{{"no such host", "connection refused", "i/o timeout", "no route to host",
           "network is unreachable", "Client.Timeout", "deadline exceeded", "x509"},
          "its registry cannot be reached: check the registry in its name, and the node's way to "
          "it"},
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
            {{"not found", "couldn't find key"}, "make it, or correct the job's env or envFrom"}},
           message));
}

std::string AdviceOnRefusal(std::string_view message) {
  return std::string(
      Find({{{"violates PodSecurity"},
             "set what is missing in spec.template, or let the namespace allow more"},
            {{"exceeded quota"}, "ask for less, or raise the quota"},
            {{"failed quota"}, "the quota wants spec.resourcesPerProcess to say this"},
            {{"usage per"}, "the namespace's LimitRange bounds spec.resourcesPerProcess"},
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
