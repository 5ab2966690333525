// Jobs, Services, EndpointSlices, Nodes, and what Kueue has.
#include "operator/kube/decode/decode_fields.h"

namespace lockstep::kube::decode {
namespace {

using simdjson::SUCCESS;

// `json` without the field that stands at `field`, and without one of the commas beside it.
// Skipping does not validate, so in broken text a field may end anywhere.
std::string Without(std::string_view json, std::string_view field) {
  constexpr std::string_view kSpace = " \t\r\n";
  auto begin = static_cast<size_t>(field.data() - json.data());
  size_t end = begin + field.size();
  if (end >= json.size()) return std::string(json);
  const size_t next = json.find_first_not_of(kSpace, end);
  const size_t last = json.find_last_not_of(kSpace, begin - 1);
  if (next != std::string_view::npos && json[next] == ',') {
    end = next + 1;
  } else if (last != std::string_view::npos && json[last] == ',') {
    begin = last;
  }
  std::string rest;
  rest.reserve(json.size() - (end - begin));
  rest.append(json.substr(0, begin)).append(json.substr(end));
  return rest;
}

error_code ReadTaint(ondemand::value value, NodeView& node) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (!Is(key, "key")) return SUCCESS;
    std::string_view taint;
    const error_code error = ReadText(field, taint);
    if (taint == "node.kubernetes.io/unreachable") node.unreachable = true;
    if (taint == "node.kubernetes.io/out-of-service") node.out_of_service = true;
    return error;
  });
}

error_code ReadNodeCondition(ondemand::value value, NodeView& node) {
  Condition condition;
  const error_code error = ReadCondition(value, condition);
  if (condition.type == "Ready") node.ready = condition.is_true;
  return error;
}

// What is no quantity is passed over.
error_code ReadAllocatable(ondemand::value value, NodeView& node) {
  ondemand::object object;
  if (auto error = value.get_object().get(object)) return OtherType(error) ? SUCCESS : error;
  for (auto result : object) {
    ondemand::field field;
    if (auto error = std::move(result).get(field)) return error;
    std::string_view name;
    std::string_view text;
    if (auto error = field.unescaped_key().get(name)) return error;
    if (auto error = ReadText(field.value(), text)) return error;
    const Result<Quantity> amount = Quantity::Parse(text);
    if (amount.ok() && node.allocatable.size() < kMostResources) {
      node.allocatable[std::string(name)] = *amount;
    }
  }
  return SUCCESS;
}

error_code ReadSelector(ondemand::value value, ServiceView& service) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    service.selects = true;
    if (!Is(key, "lockstep.dev/attempt")) return SUCCESS;
    std::string_view text;
    const error_code error = ReadText(field, text);
    if (text.data() != nullptr) service.selector_attempt = ParseNumber<uint32_t>(text).value_or(0);
    return error;
  });
}

// What stands of one endpoint; texts are good until the parser's next.
error_code ReadEndpoint(ondemand::value value, Fingerprint& print) {
  std::string_view uid;
  std::string_view address;
  const error_code error =
      ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
        if (Is(key, "targetRef")) {
          return ReadObject(field, [&](ondemand::raw_json_string name, ondemand::value of) {
            return Is(name, "uid") ? ReadText(of, uid) : SUCCESS;
          });
        }
        if (!Is(key, "addresses")) return SUCCESS;
        return ReadArray(field, [&](ondemand::value each) {
          return address.data() == nullptr ? ReadText(each, address) : SUCCESS;
        });
      });
  print.Add(uid).Add(address);
  return error;
}

// Its metadata, and all of it as text.
template <typename T>
error_code ReadWhole(ondemand::object object, std::string_view json, T& view, Extras& extras) {
  const error_code error =
      ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
        return Is(key, "metadata") ? ReadMeta(value, view.meta, extras) : SUCCESS;
      });
  if (error) return error;
  view.json = extras.managed_fields.empty() ? json : Without(json, extras.managed_fields);
  return SUCCESS;
}

}  // namespace

error_code ReadView(ondemand::object object, std::string_view json, JobView& job) {
  Extras extras;
  return ReadWhole(object, json, job, extras);
}

error_code ReadView(ondemand::object object, std::string_view json, WorkloadView& workload) {
  Extras extras;
  const error_code error = ReadWhole(object, json, workload, extras);
  workload.job = extras.job;
  return error;
}

error_code ReadView(ondemand::object object, std::string_view json, FlavorView& flavor) {
  Extras extras;
  return ReadWhole(object, json, flavor, extras);
}

error_code ReadView(ondemand::object object, std::string_view /*json*/, ClaimView& claim) {
  return ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (Is(key, "metadata")) {
      Extras extras;
      return ReadMeta(value, claim.meta, extras);
    }
    if (!Is(key, "spec")) return SUCCESS;
    return ReadObject(value, [&](ondemand::raw_json_string name, ondemand::value field) {
      if (Is(name, "holderIdentity")) return Read(field, claim.holder);
      if (Is(name, "leaseDurationSeconds")) return Read(field, claim.seconds);
      return SUCCESS;
    });
  });
}

error_code ReadView(ondemand::object object, std::string_view /*json*/, ServiceView& service) {
  return ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (Is(key, "metadata")) {
      Extras extras;
      const error_code error = ReadMeta(value, service.meta, extras);
      service.job = extras.job;
      return error;
    }
    if (!Is(key, "spec")) return SUCCESS;
    return ReadObject(value, [&](ondemand::raw_json_string name, ondemand::value field) {
      if (Is(name, "clusterIP")) return Read(field, service.cluster_ip);
      if (Is(name, "selector")) return ReadSelector(field, service);
      return SUCCESS;
    });
  });
}

error_code ReadView(ondemand::object object, std::string_view /*json*/, SliceView& slice) {
  return ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (Is(key, "metadata")) {
      Extras extras;
      const error_code error = ReadMeta(value, slice.meta, extras);
      slice.job = extras.job;
      return error;
    }
    if (!Is(key, "endpoints")) return SUCCESS;
    Fingerprint print;
    const error_code error =
        ReadArray(value, [&](ondemand::value each) { return ReadEndpoint(each, print); });
    slice.endpoints = print.value();
    return error;
  });
}

error_code ReadView(ondemand::object object, std::string_view /*json*/, NodeView& node) {
  return ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (Is(key, "metadata")) {
      Extras extras;
      return ReadMeta(value, node.meta, extras);
    }
    if (Is(key, "spec")) {
      return ReadObject(value, [&](ondemand::raw_json_string name, ondemand::value field) {
        if (Is(name, "unschedulable")) return Read(field, node.unschedulable);
        if (!Is(name, "taints")) return SUCCESS;
        return ReadArray(field, [&](ondemand::value taint) { return ReadTaint(taint, node); });
      });
    }
    if (!Is(key, "status")) return SUCCESS;
    return ReadObject(value, [&](ondemand::raw_json_string name, ondemand::value field) {
      if (Is(name, "allocatable")) return ReadAllocatable(field, node);
      if (!Is(name, "conditions")) return SUCCESS;
      return ReadArray(field, [&](ondemand::value c) { return ReadNodeCondition(c, node); });
    });
  });
}

}  // namespace lockstep::kube::decode
