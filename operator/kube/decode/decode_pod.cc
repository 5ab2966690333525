#include "core/model/names.h"
#include "operator/kube/decode/decode_fields.h"

namespace lockstep::kube::decode {
namespace {

using simdjson::SUCCESS;

PodPhase PhaseOf(std::string_view text) {
  if (text == "Pending") return PodPhase::kPending;
  if (text == "Running") return PodPhase::kRunning;
  if (text == "Succeeded") return PodPhase::kSucceeded;
  if (text == "Failed") return PodPhase::kFailed;
  return PodPhase::kUnknown;
}

error_code ReadPodCondition(ondemand::value value, PodView& pod) {
  Condition condition;
  if (auto error = ReadCondition(value, condition)) return error;
  if (condition.type == "PodScheduled") {
    pod.scheduled = condition.is_true;
    if (condition.is_false) {
      pod.schedule_reason = Kept(condition.reason);
      pod.schedule_message = Kept(condition.message);
    }
  } else if (condition.type == "Ready") {
    pod.ready = condition.is_true;
  } else if (condition.type == "PodReadyToStartContainers") {
    pod.unprepared = condition.is_false;
  } else if (condition.type == "DisruptionTarget" && condition.is_true) {
    pod.disruption = Kept(condition.reason);
  }
  return SUCCESS;
}

error_code ReadStateFields(ondemand::value value, ContainerState& state) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (Is(key, "reason")) return Read(field, state.reason);
    if (Is(key, "message")) return Read(field, state.message);
    if (Is(key, "exitCode")) return Read(field, state.exit_code);
    if (Is(key, "signal")) return Read(field, state.signal);
    if (Is(key, "startedAt")) return Read(field, state.started);
    if (Is(key, "finishedAt")) return Read(field, state.finished);
    return SUCCESS;
  });
}

// {"running": {...}} or one of the other two.
error_code ReadState(ondemand::value value, ContainerState& state) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value fields) {
    auto kind = ContainerState::Kind::kNone;
    if (Is(key, "waiting")) kind = ContainerState::Kind::kWaiting;
    if (Is(key, "running")) kind = ContainerState::Kind::kRunning;
    if (Is(key, "terminated")) kind = ContainerState::Kind::kTerminated;
    ondemand::json_type type{};
    if (auto error = fields.type().get(type)) return error;
    if (kind == ContainerState::Kind::kNone || type != ondemand::json_type::object) return SUCCESS;
    state = ContainerState{};
    state.kind = kind;
    return ReadStateFields(fields, state);
  });
}

struct ContainerStatus {
  std::string_view name;
  ContainerState state;
};

error_code ReadContainer(ondemand::value value, ContainerStatus& container) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (Is(key, "name")) return ReadText(field, container.name);
    if (Is(key, "state")) return ReadState(field, container.state);
    return SUCCESS;
  });
}

error_code ReadContainers(ondemand::value value, PodView& pod) {
  return ReadArray(value, [&](ondemand::value element) {
    ContainerStatus container;
    const error_code error = ReadContainer(element, container);
    if (container.name == "worker") pod.worker = std::move(container.state);
    return error;
  });
}

error_code ReadInitContainers(ondemand::value value, PodView& pod) {
  return ReadArray(value, [&](ondemand::value element) {
    ContainerStatus container;
    if (auto error = ReadContainer(element, container)) return error;
    ContainerState& state = container.state;
    const bool waits = state.kind == ContainerState::Kind::kWaiting;
    const bool failed = state.kind == ContainerState::Kind::kTerminated && state.exit_code != 0;
    if (pod.init.kind == ContainerState::Kind::kNone && (waits || failed)) {
      pod.init_name = container.name;
      pod.init = std::move(state);
    }
    return SUCCESS;
  });
}

error_code ReadGate(ondemand::value value, PodView& pod) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (!Is(key, "name")) return SUCCESS;
    std::string_view name;
    const error_code error = ReadText(field, name);
    pod.taken |= name == "kueue.x-k8s.io/admission";
    return error;
  });
}

error_code ReadPodStatus(ondemand::value value, PodView& pod) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (Is(key, "phase")) {
      std::string_view phase;
      const error_code error = ReadText(field, phase);
      pod.phase = PhaseOf(phase);
      return error;
    }
    if (Is(key, "podIP")) return Read(field, pod.pod_ip);
    if (Is(key, "hostIP")) return Read(field, pod.host_ip);
    if (Is(key, "reason")) return Read(field, pod.reason);
    if (Is(key, "message")) return Read(field, pod.message);
    if (Is(key, "containerStatuses")) return ReadContainers(field, pod);
    if (Is(key, "initContainerStatuses")) return ReadInitContainers(field, pod);
    if (Is(key, "conditions")) {
      return ReadArray(field, [&](ondemand::value c) { return ReadPodCondition(c, pod); });
    }
    return SUCCESS;
  });
}

}  // namespace

error_code ReadView(ondemand::object object, std::string_view /*json*/, PodView& pod) {
  return ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (Is(key, "metadata")) {
      Extras extras;
      const error_code error = ReadMeta(value, pod.meta, extras);
      pod.job = extras.job;
      if (extras.job.ends_with(core::kSpareSuffix)) {
        pod.job.resize(pod.job.size() - core::kSpareSuffix.size());
        pod.spare = ParseNumber<int32_t>(extras.spare).value_or(-1);
      }
      pod.machine = ParseNumber<int32_t>(extras.machine).value_or(-1);
      pod.attempt = ParseNumber<uint32_t>(extras.attempt).value_or(0);
      return error;
    }
    if (Is(key, "spec")) {
      return ReadObject(value, [&](ondemand::raw_json_string name, ondemand::value field) {
        if (Is(name, "schedulingGates")) {
          return ReadArray(field, [&](ondemand::value gate) { return ReadGate(gate, pod); });
        }
        return Is(name, "nodeName") ? Read(field, pod.node) : SUCCESS;
      });
    }
    if (Is(key, "status")) return ReadPodStatus(value, pod);
    return SUCCESS;
  });
}

}  // namespace lockstep::kube::decode
