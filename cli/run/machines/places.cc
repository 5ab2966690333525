#include "cli/run/machines/places.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/net/route.h"
#include "base/process/process.h"
#include "base/version.h"
#include "cli/programs/ask.h"
#include "cli/run/machines/address.h"
#include "core/model/names.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr Duration kPatience = seconds(60);
constexpr size_t kMostAtOnce = 32;

// One sentence of a node that gave no use.
std::string WhyNot(Reach by, const Answer& answer, const Error& unreadable) {
  if (answer.late && answer.words.empty()) return "no answer in 60 s";
  if (answer.words.empty()) return "lockstep-agent --facts: " + unreadable.message;
  const std::string advice = AdviceOn(by, answer.words);
  return core::OneLine(answer.words) + (advice.empty() ? "" : "; " + advice);
}

}  // namespace

Result<std::vector<Place>> PlacesHere(uint32_t machines) {
  const auto random = [] {
    uint16_t bits = 0;
    const bool got = getrandom(&bits, sizeof bits, 0) == static_cast<ssize_t>(sizeof bits);
    return got ? bits : static_cast<uint16_t>(getpid());
  };
  const Result<AddressBlock> addresses = ChooseBlock(machines, random, GangPortsFree);
  if (!addresses.ok()) return addresses.error();
  std::vector<Place> places(machines);
  for (uint32_t i = 0; i < machines; ++i) {
    places[i].address = addresses->Machine(i);
    places[i].gang_port = core::kGangPort;
    places[i].metrics_port = core::kMetricsPort;
  }
  return places;
}

Result<std::vector<Place>> PlacesFrom(
    const Nodes& nodes, const std::vector<core::AgentFacts>& facts,
    const std::function<Result<std::string>(const std::string& address)>& own_towards) {
  const auto other = std::ranges::find_if(
      facts, [](const core::AgentFacts& each) { return !IsLoopback(each.address); });
  std::vector<Place> places;
  std::set<std::pair<std::string, uint16_t>> taken;  // names may lead to one computer
  for (size_t i = 0; i < facts.size(); ++i) {
    Place place;
    place.node = nodes.names[i];
    place.by = nodes.by;
    place.address = facts[i].address;
    if (IsLoopback(place.address) && other != facts.end()) {
      Result<std::string> own = own_towards(other->address);
      if (!own.ok()) return own.error();
      place.address = std::move(*own);
    }
    const auto free = std::ranges::find_if(facts[i].ports, [&](uint16_t port) {
      return port != 0 && taken.emplace(place.address, port).second;
    });
    if (free == facts[i].ports.end()) {
      return Error::Unavailable("node " + place.node + " has no free port");
    }
    place.gang_port = *free;
    places.push_back(std::move(place));
  }
  return places;
}

Result<std::vector<Place>> PlacesOn(const Nodes& nodes, const std::string& agent) {
  std::vector<Question> questions;
  for (const std::string& node : nodes.names) {
    questions.push_back({"node " + node, CommandOn(nodes.by, node, agent, {"--facts"})});
  }
  AskOptions options;
  options.patience = kPatience;
  options.at_once = kMostAtOnce;
  options.env = ClientEnvironment(OwnEnvironment());
  std::vector<core::AgentFacts> facts(questions.size());
  std::string troubles;
  const auto complain = [&](size_t index, const std::string& why) {
    troubles += (troubles.empty() ? "" : "\n") + questions[index].who + ": " + why;
  };
  const Status asked = AskAll(questions, options, [&](size_t index, const Result<Answer>& answer) {
    if (!answer.ok()) return complain(index, answer.error().message);
    Result<core::AgentFacts> each = core::ParseAgentFacts(answer->text);
    if (!each.ok()) return complain(index, WhyNot(nodes.by, *answer, each.error()));
    if (each->version != kVersion) {
      return complain(
          index, "its lockstep-agent is of version " + each->version + ", and this is " + kVersion);
    }
    facts[index] = std::move(*each);
  });
  if (!asked.ok()) return asked.error();
  if (!troubles.empty()) return Error::Unavailable(troubles);
  return PlacesFrom(nodes, facts, OwnAddressTowards);
}

}  // namespace lockstep::cli
