// Jobs, Services, EndpointSlices, Nodes, and what Kueue has.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/decode/decode.h"
#include "operator/kube/decode/decode_fields.h"

namespace lockstep::kube::decode {
namespace {

using simdjson::SUCCESS;

// `json` without `size` bytes from `begin`, where a field stands, and without one of the commas
// beside it. Skipping does not validate, so in broken text a field may end anywhere.
std::string Without(std::string_view json, size_t begin, size_t size) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t end = begin + size;
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

// The same for several fields, from the last to the first.
std::string Without(std::string_view json, std::vector<std::string_view> fields) {
  std::ranges::sort(fields, std::ranges::greater(),
                    [](std::string_view each) { return each.data(); });
  std::string rest(json);
  for (const std::string_view field : fields) {
    rest = Without(rest, static_cast<size_t>(field.data() - json.data()), field.size());
  }
  return rest;
}

// Where `"key": {...}` stands in the text; nothing if the value is no object.
error_code ReadPlace(ondemand::raw_json_string key, ondemand::value value,
                     std::string_view& place) {
  ondemand::object object;
  if (auto error = value.get_object().get(object)) return OtherType(error) ? SUCCESS : error;
  std::string_view json;
  if (auto error = object.raw_json().get(json)) return error;
  const size_t last = json.rfind('}');
  if (last == std::string_view::npos) return simdjson::TAPE_ERROR;
  const char* begin = key.raw() - 1;  // its opening quote
  place = {begin, static_cast<size_t>(json.data() + last + 1 - begin)};
  return SUCCESS;
}

error_code ReadJobStatus(ondemand::value value, JobView& job) {
  int64_t epoch = 0;
  std::string_view state;
  const error_code error =
      ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
        if (Is(key, "epoch")) return Read(field, epoch);
        return Is(key, "state") ? ReadText(field, state) : SUCCESS;
      });
  job.begun = epoch > 0 && state != "Succeeded" && state != "Failed";
  return error;
}

// The templates of a Workload's pods, of which Kueue alone makes use.
error_code ReadTemplates(ondemand::value value, std::vector<std::string_view>& templates) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (!Is(key, "podSets")) return SUCCESS;
    return ReadArray(field, [&](ondemand::value set) {
      return ReadObject(set, [&](ondemand::raw_json_string name, ondemand::value of) {
        if (!Is(name, "template")) return SUCCESS;
        std::string_view place;
        const error_code error = ReadPlace(name, of, place);
        if (!place.empty()) templates.push_back(place);
        return error;
      });
    });
  });
}

void AddSign(std::string_view name, std::string_view of, char between,
             std::vector<std::string>& signs) {
  if (name.empty() || signs.size() >= kMostSigns || name.size() + of.size() > kMaxText) return;
  signs.push_back(std::string(name).append(1, between).append(of));
}

error_code ReadTaint(ondemand::value value, NodeView& node) {
  std::string_view taint;
  std::string_view effect;
  const error_code error =
      ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
        if (Is(key, "key")) return ReadText(field, taint);
        return Is(key, "effect") ? ReadText(field, effect) : SUCCESS;
      });
  if (taint == "node.kubernetes.io/unreachable") node.unreachable = true;
  if (taint == "node.kubernetes.io/out-of-service") node.out_of_service = true;
  AddSign(taint, effect, ':', node.taints);
  return error;
}

error_code ReadNodeCondition(ondemand::value value, NodeView& node) {
  Condition condition;
  const error_code error = ReadCondition(value, condition);
  if (condition.type == "Ready") {
    node.ready = condition.is_true;
  } else if (condition.is_true || condition.is_false) {
    AddSign(condition.type, condition.is_true ? "True" : "False", '=', node.conditions);
  }
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

// Its metadata, and all of it as text, less what `read_field` adds to the places to leave out:
// read_field(raw_json_string key, ondemand::value, std::vector<std::string_view>& left_out).
template <typename T, typename ReadField>
error_code ReadWhole(ondemand::object object, std::string_view json, T& view, Extras& extras,
                     ReadField read_field) {
  std::vector<std::string_view> left_out;
  const error_code error =
      ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
        if (!Is(key, "metadata")) return read_field(key, value, left_out);
        const error_code meta = ReadMeta(value, view.meta, extras);
        if (!extras.managed_fields.empty()) left_out.push_back(extras.managed_fields);
        return meta;
      });
  if (error) return error;
  view.json = Without(json, std::move(left_out));
  return SUCCESS;
}

}  // namespace

error_code ReadView(ondemand::object object, std::string_view json, JobView& job) {
  Extras extras;
  const auto status = [&](ondemand::raw_json_string key, ondemand::value value, auto&) {
    return Is(key, "status") ? ReadJobStatus(value, job) : SUCCESS;
  };
  if (auto error = ReadWhole(object, json, job, extras, status)) return error;
  const size_t size = job.json.size();
  if (size > kMaxJobText && !job.begun) {
    Refuse(job, "the TrainingJob has " + std::to_string(size >> 10) + " KiB, at most " +
                    std::to_string(kMaxJobText >> 10) +
                    " KiB are allowed: move data to a ConfigMap or a volume");
  }
  return SUCCESS;
}

error_code ReadView(ondemand::object object, std::string_view json, WorkloadView& workload) {
  Extras extras;
  const auto spec = [](ondemand::raw_json_string key, ondemand::value value,
                       std::vector<std::string_view>& left_out) {
    return Is(key, "spec") ? ReadTemplates(value, left_out) : SUCCESS;
  };
  const error_code error = ReadWhole(object, json, workload, extras, spec);
  workload.job = extras.job;
  return error == SUCCESS && workload.json.size() > kMaxQueueText ? simdjson::CAPACITY : error;
}

error_code ReadView(ondemand::object object, std::string_view json, FlavorView& flavor) {
  Extras extras;
  const auto nothing = [](ondemand::raw_json_string, ondemand::value, auto&) { return SUCCESS; };
  const error_code error = ReadWhole(object, json, flavor, extras, nothing);
  return error == SUCCESS && flavor.json.size() > kMaxQueueText ? simdjson::CAPACITY : error;
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
      const error_code error = ReadMeta(value, node.meta, extras);
      if (extras.suspect.data() != nullptr) node.suspect = Kept(extras.suspect);
      return error;
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
