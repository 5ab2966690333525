#include "worker/agent/services/pmi.h"

#include <algorithm>
#include <charconv>

#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::agent {

namespace {

constexpr size_t kMaxTableName = 256;
constexpr size_t kMaxAbortText = 1024;

// name=value, name=value, ...; these names' values go to the line's end.
std::map<std::string_view, std::string_view> FieldsOf(std::string_view line) {
  std::map<std::string_view, std::string_view> fields;
  while (!line.empty()) {
    if (line.front() == ' ') {
      line.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(line.find(' '), line.size());
    const size_t equals = line.substr(0, end).find('=');
    if (equals != std::string_view::npos) {
      const std::string_view name = line.substr(0, equals);
      const bool rest = name == "value" || name == "message" || name == "error_msg";
      const size_t ends = rest ? line.size() : end;
      fields.emplace(name, line.substr(equals + 1, ends - equals - 1));
      if (rest) break;
    }
    line.remove_prefix(end);
  }
  return fields;
}

std::string_view ValueOf(const std::map<std::string_view, std::string_view>& fields,
                         std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : found->second;
}

template <typename Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

Pmi::Pmi(Shape shape)
    : shape_(std::move(shape)),
      most_(core::MostTableBytes(shape_.machines, shape_.processes)),
      ranks_(shape_.processes) {
  // Which ranks share a machine: blocks of P from machine 0 on.
  table_["PMI_process_mapping"] = "(vector,(0," + std::to_string(shape_.machines) + "," +
                                  std::to_string(shape_.processes) + "))";
}

Result<Pmi::Effects> Pmi::OnLine(ClientId client, std::string_view line) {
  const Fields fields = FieldsOf(line);
  const std::string_view command = ValueOf(fields, "cmd");
  const auto known = ranks_of_.find(client);
  if (known == ranks_of_.end()) {
    if (command != "initack") return Error::Denied("it did not name its rank first");
    return Prove(client, fields);
  }
  Rank& rank = ranks_[known->second];
  Effects effects;
  const auto answer = [&](std::string text) {
    effects.answers.emplace_back(client, std::move(text) + "\n");
  };
  if (command == "init") {
    const bool version1 = ValueOf(fields, "pmi_version") == "1";
    rank.begun = version1;
    answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=" +
           std::string(version1 ? "0" : "-1"));
  } else if (command == "get_maxes") {
    answer("cmd=maxes kvsname_max=" + std::to_string(kMaxTableName) +
           " keylen_max=" + std::to_string(core::kMaxTableKey) +
           " vallen_max=" + std::to_string(core::kMaxTableValue));
  } else if (command == "get_appnum") {
    answer("cmd=appnum appnum=0");
  } else if (command == "get_my_kvsname") {
    answer("cmd=my_kvsname kvsname=" + shape_.name);
  } else if (command == "get_universe_size") {
    answer("cmd=universe_size size=" + std::to_string(shape_.machines * shape_.processes));
  } else if (command == "put") {
    answer(Put(rank, fields));
  } else if (command == "get") {
    answer(Get(fields));
  } else if (command == "barrier_in") {
    if (rank.waits) return Error::Invalid("it already waits in a barrier");
    EnterBarrier(rank, &effects);
  } else if (command == "finalize") {
    rank.finalized = true;
    answer("cmd=finalize_ack rc=0");
  } else if (command == "abort") {
    std::string_view text = ValueOf(fields, "message");
    if (text.empty()) text = ValueOf(fields, "error_msg");
    effects.abort = MpiAbort{known->second, NumberIn<int>(ValueOf(fields, "exitcode")).value_or(1),
                             std::string(text.substr(0, kMaxAbortText))};
  } else if (IsName(command)) {
    answer("cmd=" + std::string(command) + "_result rc=-1 msg=not_supported");
  } else if (line == "endcmd") {  // ends mcmd=spawn and its lines
    answer("cmd=spawn_result rc=-1 msg=not_supported");
  } else if (!ValueOf(fields, "mcmd").empty() || command.empty()) {
    return effects;  // a line of such a request
  } else {
    return Error::Invalid("it does not speak PMI-1");
  }
  return effects;
}

Result<Pmi::Effects> Pmi::Prove(ClientId client, const Fields& fields) {
  const auto id = NumberIn<uint32_t>(ValueOf(fields, "pmiid"));
  const auto found = id ? std::ranges::find(shape_.ids, *id) : shape_.ids.end();
  if (found == shape_.ids.end()) {
    return Error::Denied("its PMI_ID is not a rank of this generation");
  }
  const auto local_rank = static_cast<uint32_t>(found - shape_.ids.begin());
  Rank& rank = ranks_[local_rank];
  if (rank.client != 0) {
    return Error::Denied(
        "another process was already that rank: run one MPI program for each rank");
  }
  rank.client = client;
  ranks_of_[client] = local_rank;
  const uint32_t number = shape_.machine * shape_.processes + local_rank;
  Effects effects;
  effects.answers.emplace_back(
      client,
      "cmd=initack rc=0\ncmd=set size=" + std::to_string(shape_.machines * shape_.processes) +
          "\ncmd=set rank=" + std::to_string(number) + "\ncmd=set debug=0\n");
  return effects;
}

bool Pmi::NamesTable(const Fields& fields) const {
  return ValueOf(fields, "kvsname") == shape_.name;
}

std::string Pmi::Put(Rank& rank, const Fields& fields) {
  const std::string_view key = ValueOf(fields, "key");
  const std::string_view value = ValueOf(fields, "value");
  const auto refusal = [](std::string_view why) {
    return "cmd=put_result rc=-1 msg=" + std::string(why);
  };
  if (!NamesTable(fields)) return refusal("no_such_kvs");
  if (key.empty() || key.size() > core::kMaxTableKey || value.size() > core::kMaxTableValue) {
    return refusal("too_long");
  }
  core::TableEntry entry{std::string(key), std::string(value)};
  const size_t size = core::TableBytes(entry);
  if (rank.put + size > most_) return refusal("no_space");
  rank.put += size;
  table_.insert_or_assign(entry.key, entry.value);
  new_.push_back(std::move(entry));
  return "cmd=put_result rc=0 msg=success";
}

std::string Pmi::Get(const Fields& fields) const {
  const auto found = table_.find(std::string(ValueOf(fields, "key")));
  if (!NamesTable(fields) || found == table_.end()) {
    return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
  }
  return "cmd=get_result rc=0 msg=success value=" + found->second;
}

void Pmi::EnterBarrier(Rank& rank, Effects* effects) {
  rank.waits = true;
  if (++waiting_ == shape_.processes) effects->fence = std::exchange(new_, {});
}

Pmi::Effects Pmi::OnFence(const std::vector<core::TableEntry>& entries, bool last) {
  for (const core::TableEntry& entry : entries) table_.insert_or_assign(entry.key, entry.value);
  Effects effects;
  if (!last || waiting_ < shape_.processes) return effects;
  waiting_ = 0;
  for (Rank& rank : ranks_) {
    rank.waits = false;
    effects.answers.emplace_back(rank.client, "cmd=barrier_out\n");
  }
  return effects;
}

}  // namespace lockstep::agent
