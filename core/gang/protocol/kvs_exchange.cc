#include "core/gang/protocol/kvs_exchange.h"

#include <algorithm>
#include <iterator>

namespace lockstep::core {

namespace {

constexpr size_t kMostPart = size_t{16} << 10;  // bytes
constexpr size_t kMostEntries = 512;            // of one part; a message's list takes 1,024

}  // namespace

size_t TableBytes(const TableEntry& entry) { return entry.key.size() + entry.value.size() + 64; }

size_t MostTableBytes(uint32_t machines, uint32_t processes) {
  constexpr size_t kAll = size_t{32} << 20;
  constexpr size_t kOfMachine = size_t{1} << 20;
  const size_t world = std::max<size_t>(size_t{machines} * processes, 1);
  const size_t share = std::clamp(kAll / world, size_t{4} << 10, size_t{256} << 10);
  return std::min(share, kOfMachine / std::max(processes, 1U));
}

std::vector<std::vector<TableEntry>> InParts(std::vector<TableEntry> entries) {
  std::vector<std::vector<TableEntry>> parts(1);
  size_t bytes = 0;
  for (TableEntry& entry : entries) {
    const size_t size = TableBytes(entry);
    const bool full = bytes + size > kMostPart || parts.back().size() == kMostEntries;
    if (full && !parts.back().empty()) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += size;
    parts.back().push_back(std::move(entry));
  }
  return parts;
}

KvsExchange::KvsExchange(uint32_t machines, uint32_t processes)
    : most_(processes * MostTableBytes(machines, processes)), gathered_(machines) {}

void KvsExchange::Begin(Generation generation) {
  generation_ = generation;
  done_ = whole_ = 0;
  table_.clear();
  for (Gathered& machine : gathered_) machine = {};
}

std::optional<Fence> KvsExchange::Part(uint32_t part) const {
  if (part >= table_.size()) return std::nullopt;
  return Fence{generation_, done_, part, part + 1 == table_.size(), table_[part]};
}

std::optional<Fence> KvsExchange::OnMore(const FenceMore& more) const {
  if (more.generation != generation_ || more.number != done_) return std::nullopt;
  return Part(more.part);
}

Result<KvsExchange::Answers> KvsExchange::OnFence(uint32_t machine, const Fence& fence) {
  Answers answers;
  if (fence.generation != generation_) return answers;
  if (fence.number == done_ && fence.last) {  // it was not told that it is whole
    if (std::optional<Fence> first = Part(0)) answers.emplace_back(machine, *std::move(first));
    return answers;
  }
  if (fence.number != done_ + 1) return answers;
  Gathered& gathered = gathered_[machine];
  if (fence.part == 0) {
    whole_ -= gathered.whole ? 1 : 0;
    gathered = {};
  }
  if (fence.part != gathered.parts || gathered.whole) return answers;
  ++gathered.parts;
  for (const TableEntry& entry : fence.entries) gathered.bytes += TableBytes(entry);
  if (gathered.bytes > most_) {
    return Error::Invalid("FENCE: more than the " + std::to_string(most_) +
                          " bytes that a machine may put in a fence");
  }
  std::ranges::copy(fence.entries, std::back_inserter(gathered.entries));
  if (!fence.last) return answers;
  gathered.whole = true;
  if (++whole_ < gathered_.size()) return answers;
  return Complete();
}

KvsExchange::Answers KvsExchange::Complete() {
  std::vector<TableEntry> all;
  for (Gathered& machine : gathered_) {
    std::ranges::move(machine.entries, std::back_inserter(all));
    machine = {};
  }
  table_ = InParts(std::move(all));
  whole_ = 0;
  ++done_;
  Answers answers;
  for (uint32_t machine = 0; machine < gathered_.size(); ++machine) {
    answers.emplace_back(machine, *Part(0));
  }
  return answers;
}

}  // namespace lockstep::core
