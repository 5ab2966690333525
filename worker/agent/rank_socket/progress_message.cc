#include "worker/agent/rank_socket/progress_message.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/text/json.h"

namespace lockstep::agent {

namespace {

// An integer in [0, limit], also when it was written as 10.0.
Result<int64_t> Count(const Json& json, const char* name, int64_t limit) {
  if (!json.contains(name)) return int64_t{0};
  const Json& value = json[name];
  double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0) || number > static_cast<double>(limit) || number != std::floor(number)) {
    return Error::Invalid(std::string(name) + " must be a whole number from 0 to " +
                          std::to_string(limit));
  }
  return value.is_number_integer() ? value.get<int64_t>() : static_cast<int64_t>(number);
}

bool IsComponent(const std::string& name) {
  return !name.empty() && name.size() <= 200 && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

// JSON has no such numbers, so programs send them as texts.
std::optional<double> NotFinite(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return infinity;
  if (text == "-Infinity") return -infinity;
  return std::nullopt;
}

ProgressReport ReadReport(const Json& json, uint32_t rank, int64_t step, int64_t total_steps) {
  ProgressReport report;
  report.rank = rank;
  report.step = step;
  report.total_steps = total_steps;
  report.loss = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : json.items()) {
    if (const auto broken = NotFinite(value); broken && report.broken.size() < kMaxMetrics) {
      if (name.size() <= 64) report.broken[name] = *broken;
      continue;
    }
    if (!value.is_number()) continue;
    double number = value.get<double>();
    if (!std::isfinite(number)) continue;
    if (name == "loss") {
      report.loss = number;
    } else if (name == "tokens") {
      report.tokens = std::max(number, 0.0);
    } else if (name != "rank" && name != "step" && name != "total_steps" && name != "id" &&
               report.metrics.size() < kMaxMetrics && name.size() <= 64) {
      report.metrics[name] = number;
    }
  }
  return report;
}

bool IsText(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_string();
}

std::string Line(const Json& json) { return DumpJson(json) + "\n"; }

}  // namespace

Result<ProgressMessage> ParseProgressMessage(std::string_view line) {
  if (line.size() >= kMaxProgressLine) return Error::TooLarge("a line over 64 KiB");
  Json json = ParseJson(line);
  if (!json.is_object()) return Error::Invalid("not a JSON object on one line");
  constexpr int64_t kMaxSteps = int64_t{1} << 53;
  Result<int64_t> rank = Count(json, "rank", std::numeric_limits<uint32_t>::max());
  Result<int64_t> id = Count(json, "id", kMaxSteps);
  Result<int64_t> step = Count(json, "step", kMaxSteps);
  Result<int64_t> total = Count(json, "total_steps", kMaxSteps);
  for (const Result<int64_t>* number : {&rank, &id, &step, &total}) {
    if (!number->ok()) return number->error();
  }
  auto rank_value = static_cast<uint32_t>(*rank);
  auto id_value = static_cast<uint64_t>(*id);
  if (json.contains("commit")) {
    const Json& name = json["commit"];
    if (!name.is_string() || !IsComponent(name.get<std::string>())) {
      return Error::Invalid("commit must be a directory's name, without a slash");
    }
    if (json.contains("generation") && !IsText(json, "generation")) {
      return Error::Invalid("generation must be a text");
    }
    const bool memory = json.value("memory", Json(false)) == Json(true);
    return ProgressMessage(CommitQuestion{rank_value, id_value, name.get<std::string>(), memory,
                                          json.value("generation", std::string())});
  }
  for (const char* word : {"rejoin", "left"}) {
    if (!json.contains(word)) continue;
    if (!IsText(json, word)) return Error::Invalid(std::string(word) + " must name a generation");
    const std::string generation = json[word];
    if (std::string_view(word) == "left") {
      return ProgressMessage(LeftQuestion{rank_value, id_value, generation});
    }
    return ProgressMessage(RejoinQuestion{rank_value, id_value, generation});
  }
  if (json.contains("run")) {
    if (!IsText(json, "run") || !IsText(json, "host") || !IsText(json, "generation")) {
      return Error::Invalid("run, host and generation must be texts");
    }
    return ProgressMessage(RunQuestion{id_value, json["run"], json["host"], json["generation"]});
  }
  if (IsText(json, "place") && IsText(json, "generation")) {
    return ProgressMessage(PlaceReport{rank_value, json["generation"], json["place"]});
  }
  if (IsText(json, "done")) {
    Result<int64_t> pid = Count(json, "pid", std::numeric_limits<int32_t>::max());
    if (!pid.ok()) return pid.error();
    return ProgressMessage(DoneReport{rank_value, id_value, json["done"], *pid});
  }
  if (IsText(json, "editor_left")) {
    return ProgressMessage(EditorLeft{id_value, json["editor_left"]});
  }
  if (IsText(json, "code")) {
    CodeQuestion code;
    code.id = id_value;
    code.digest = json["code"];
    code.watched = json.value("watched", Json(false)) == Json(true);
    for (const auto& [name, value] :
         {std::pair("incoming", &code.incoming), std::pair("replaces", &code.replaces),
          std::pair("by", &code.by), std::pair("words", &code.words)}) {
      if (!IsText(json, name)) return Error::Invalid(std::string(name) + " must be a text");
      *value = json[name];
    }
    if (!IsComponent(code.incoming)) return Error::Invalid("incoming must be a folder's name");
    return ProgressMessage(std::move(code));
  }
  if (json.value("gang", Json(false)) == Json(true)) {
    Result<int64_t> after = Count(json, "after", kMaxSteps);
    if (!after.ok()) return after.error();
    return ProgressMessage(GangQuestion{id_value, static_cast<uint64_t>(*after)});
  }
  if (json.contains("evidence")) return ProgressMessage(EvidenceQuestion{id_value});
  if (json.contains("latest")) return ProgressMessage(LatestQuestion{rank_value, id_value});
  return ProgressMessage(ReadReport(json, rank_value, *step, *total));
}

std::string CommitAnswer(uint64_t id, const std::string& final_path) {
  return Line({{"id", id}, {"ok", true}, {"final", final_path}});
}

std::string CommitRefusal(uint64_t id, const std::string& reason) {
  return Line({{"id", id}, {"ok", false}, {"reason", reason}});
}

std::string LatestAnswer(uint64_t id, const std::string& path) {
  return Line({{"id", id}, {"latest", path.empty() ? Json(nullptr) : Json(path)}});
}

std::string EvidenceAnswer(uint64_t id, const Result<std::string>& file) {
  return file.ok() ? Line({{"id", id}, {"evidence", *file}})
                   : Line({{"id", id}, {"reason", file.error().message}});
}

std::string GangAnswer(uint64_t id, uint64_t version, const Result<std::string>& file) {
  return file.ok() ? Line({{"id", id}, {"version", version}, {"file", *file}})
                   : Line({{"id", id}, {"reason", file.error().message}});
}

std::string RunAnswer(uint64_t id, uint32_t exit_code, const std::string& problem) {
  return Line({{"id", id}, {"exitCode", exit_code}, {"problem", problem}});
}

std::string EndedAnswer(uint64_t id, const std::string& generation) {
  return Line({{"id", id}, {"ended", generation}});
}

std::string NextAnswer(uint64_t id, const std::string& generation, const Json& changes) {
  return Line({{"id", id}, {"generation", generation}, {"environment", changes}});
}

std::string DoneAnswer(uint64_t id) { return Line({{"id", id}, {"ok", true}}); }

std::string CodeAnswer(uint64_t id, const Status& taken) {
  if (taken.ok()) return Line({{"id", id}, {"ok", true}});
  const ErrorKind kind = taken.error().kind;
  return Line({{"id", id},
               {"missing", kind == ErrorKind::kNotFound},
               {"later", kind == ErrorKind::kUnavailable},
               {"reason", taken.error().message}});
}

std::string RejoinRefusal(uint64_t id, const std::string& reason) {
  return Line({{"id", id}, {"reason", reason}});
}

}  // namespace lockstep::agent
