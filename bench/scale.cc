// scale [MEMBERS [RUNS]]: one coordinator and MEMBERS (1,000) real protocol members over TLS on
// loopback: how long until they agree on a generation, what the coordinator's process costs, and
// whether heartbeats keep their time while as many strangers knock. The peer is the same sockets
// with nothing on them, in the same run.
#include "bench/scale.h"

#include <algorithm>
#include <string>
#include <vector>

#include "bench/benchmarks.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kQuietPings = 6;
constexpr Duration kStorm = seconds(5);
constexpr size_t kStartBytes = 160;  // of a START on the wire

struct Samples {
  std::vector<double> joined, after_hello, agreed, total;
  std::vector<double> echo_connect, echo_broadcast;
  std::vector<double> idle_mb, peak_mb, cpu_to_running, cpu_a_round;
  std::vector<double> late_quiet, late_storm, delivery_quiet, delivery_storm;
  double storm_rate = 0;
  uint64_t strangers = 0;
  uint64_t reconnected = 0;
  uint64_t generations = 0;
  double interval_ms = 0;
};

void RunEcho(uint32_t members, Samples* samples) {
  const Helper server = Helper::Start([&](const Line& line) { EchoServerRole(line, members); });
  const auto port = server.Hear().at("port").get<uint16_t>();
  const Helper client =
      Helper::Start([&](const Line& line) { EchoClientRole(line, port, members); });
  samples->echo_connect.push_back(client.Hear().at("connectMs").get<double>());
  samples->echo_broadcast.push_back(server.Ask({{"broadcast", kStartBytes}}).get<double>());
}

void RunGang(uint32_t members, Samples* samples) {
  const Json usage = {{"ask", "usage"}};
  const Helper coordinator =
      Helper::Start([&](const Line& line) { CoordinatorRole(line, members); });
  const auto port = coordinator.Hear().at("port").get<uint16_t>();
  const double born_cpu = coordinator.Ask(usage).at("cpuMs").get<double>();

  const Helper gang = Helper::Start([&](const Line& line) { MembersRole(line, port, members); });
  const Json joined = gang.Hear();
  const Json running = coordinator.Hear();
  const auto ms = [](const Json& from, const char* a, const Json& to, const char* b) {
    return Milliseconds(Duration(to.at(b).get<int64_t>() - from.at(a).get<int64_t>()));
  };
  samples->joined.push_back(ms(joined, "began", joined, "lastHello"));
  samples->after_hello.push_back(ms(joined, "lastHello", running, "spawned"));
  samples->agreed.push_back(ms(running, "announced", running, "spawned"));
  samples->total.push_back(ms(joined, "began", running, "spawned"));
  const double running_cpu = coordinator.Ask(usage).at("cpuMs").get<double>();
  samples->cpu_to_running.push_back(running_cpu - born_cpu);

  const Json quiet = gang.Ask({{"pings", kQuietPings}});
  const Json idle = coordinator.Ask(usage);
  samples->cpu_a_round.push_back((idle.at("cpuMs").get<double>() - running_cpu) / kQuietPings);
  samples->idle_mb.push_back(idle.at("rssMB").get<double>());

  const Helper strangers =
      Helper::Start([&](const Line& line) { StrangersRole(line, port, members, members, kStorm); });
  const Json knocked = strangers.Hear();
  const Json storm = gang.Ask({{"pings", 1}});
  const Json after = coordinator.Ask(usage);
  samples->peak_mb.push_back(after.at("peakMB").get<double>());
  samples->interval_ms = quiet.at("intervalMs").get<double>();
  samples->late_quiet.push_back(quiet.at("late").at("max").get<double>());
  samples->late_storm.push_back(storm.at("late").at("max").get<double>());
  samples->delivery_quiet.push_back(quiet.at("delivery").at("p99").get<double>());
  samples->delivery_storm.push_back(storm.at("delivery").at("p99").get<double>());
  samples->strangers += knocked.at("connections").get<uint64_t>();
  samples->storm_rate =
      knocked.at("connections").get<double>() / knocked.at("seconds").get<double>();
  samples->reconnected += storm.at("reconnected").get<uint64_t>();
  samples->generations = std::max(samples->generations, after.at("generations").get<uint64_t>());
}

Json Against(const std::vector<double>& ours, const std::vector<double>& floor) {
  return {{"p50", Round(Quantile(floor, 0.5))},
          {"ratio", Round(Quantile(ours, 0.5) / Quantile(floor, 0.5))}};
}

void PrintAll(uint32_t members, const Samples& s) {
  const auto line = [&](const char* figure, const char* unit, const std::vector<double>& values) {
    Json json = {{"benchmark", "scale"}, {"figure", figure}, {"members", members}, {"unit", unit}};
    json.update(Spread(values));
    return json;
  };
  Json joined = line("joined", "ms", s.joined);
  joined["tcpEchoFloor"] = Against(s.joined, s.echo_connect);
  joined["msAMember"] = Round(Quantile(s.joined, 0.5) / members);
  Print(joined);
  Json agreed = line("agreed", "ms", s.agreed);
  agreed["limit"] = 1000;
  agreed["tcpBroadcastFloor"] = Against(s.agreed, s.echo_broadcast);
  Print(agreed);
  Json after_hello = line("lastHelloToRunning", "ms", s.after_hello);
  after_hello["limit"] = 1000;
  Print(after_hello);
  Json total = line("firstConnectToRunning", "ms", s.total);
  total["coordinatorCpuMs"] = Round(Quantile(s.cpu_to_running, 0.5));
  Print(total);
  Json idle = line("memoryRunning", "MB", s.idle_mb);
  idle["limit"] = 100;
  Print(idle);
  Json peak = line("memoryPeak", "MB", s.peak_mb);
  peak["limit"] = 100;
  peak["during"] = std::to_string(members) + " more connect at once, again and again";
  Print(peak);
  Json quiet = line("heartbeatLate", "ms", s.late_quiet);
  quiet["interval"] = s.interval_ms;
  quiet["deliveryP99"] = Round(Quantile(s.delivery_quiet, 1));
  quiet["coordinatorCpuMsARound"] = Round(Quantile(s.cpu_a_round, 0.5));
  Print(quiet);
  Json storm = line("heartbeatLateInStorm", "ms", s.late_storm);
  storm["limit"] = s.interval_ms;
  storm["deliveryP99"] = Round(Quantile(s.delivery_storm, 1));
  storm["strangers"] = s.strangers;
  storm["strangersASecond"] = Round(s.storm_rate);
  storm["membersReconnected"] = s.reconnected;
  storm["generations"] = s.generations;
  Print(storm);
}

}  // namespace

int RunScale(const std::vector<std::string>& arguments) {
  const auto members = arguments.empty() ? 1000U : static_cast<uint32_t>(std::stoul(arguments[0]));
  const int runs = arguments.size() < 2 ? 5 : std::stoi(arguments[1]);
  AllowFiles(size_t{members} * 2 + 256);
  Samples samples;
  for (int i = 0; i < runs; ++i) {
    RunEcho(members, &samples);
    RunGang(members, &samples);
  }
  PrintAll(members, samples);
  return 0;
}

}  // namespace lockstep::bench
