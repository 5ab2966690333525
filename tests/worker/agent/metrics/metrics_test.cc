// All that an agent can show: its parts' metrics on one page.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/base/loop_test_base.h"
#include "tests/worker/agent/metrics/measured_gang.h"
#include "tests/worker/agent/metrics/page.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/logs/log_pump.h"
#include "worker/agent/logs/output_watch.h"
#include "worker/agent/metrics/gang_metrics.h"
#include "worker/agent/metrics/machine_metrics.h"
#include "worker/agent/parked/parked_ranks.h"
#include "worker/agent/ranks/rank_metrics.h"

namespace lockstep::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public LoopTest {
 protected:
  MetricsTest() {
    AddProcess(&tree_, getpid(), 1, 100);
    tree_.File("proc/self/cgroup", "0::/\n")
        .File("proc/self/mounts", "tmpfs /dev/shm tmpfs rw 0 0\n")
        .File("dev/shm/file", "")
        .File("sys/fs/cgroup/memory.current", "10\n")
        .File("sys/fs/cgroup/memory.max", "20\n")
        .File("sys/fs/cgroup/memory.events", "oom 4\noom_kill 3\n")
        .File("sys/fs/cgroup/cpu.stat", "throttled_usec 2500000\n")
        .File("proc/net/dev", "eth0: 7 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n")
        .File("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1\n")
        .File("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "2\n");
    views_[0].binding.placement.emplace();
    gang_.OnSaid(core::CommitReply{.id = 1, .granted = true, .number = 1, .reason = ""});
    for (const int64_t step : {9, 10}) {
      now_ += seconds(1);
      ranks_.OnReport({24,
                       step,
                       100,
                       1.25,
                       4000,
                       {{"gradient_norm", 0.5},
                        {"validation_loss", 1.5},
                        {"validation_perplexity", 4.5},
                        {"scaling_efficiency", 0.875}}});
    }
    worker_ = std::move(*FileWorker::Create(loop()));
    files_ = std::make_unique<LogFiles>(worker_.get(), LogStoreOptions{.path = tree_.root()},
                                        [](const std::string&) {});
    logs_ = std::make_unique<LogPump>(loop(), LogPumpOptions{}, &console_, files_.get());
    listener_ = std::move(*GangListener::Listen(loop(), *MakeEndpoint("127.0.0.1", 0), &tls_, {},
                                                {}, [](const std::string&) {}));
  }

  Page Full() {
    return ReadPage(
        Expose({&machine_, &ranks_, logs_.get(), &output_, listener_.get(), &gang_, &parked_},
               {{"trainingjob", "gpt"}, {"machine", "3"}}));
  }

  ParkedRanks parked_{loop(), nullptr, nullptr, {}, [](const std::string&) {}};
  topology::FixtureTree tree_;
  MachineStatsReader stats_{tree_.root()};
  Time now_ = seconds(100);
  core::Member member_{core::MemberConfig{}};
  MachineMetrics machine_{&member_, tree_.root()};
  std::vector<RankView> views_ = {{.rank = 24, .pid = getpid(), .bound = true, .binding = {}}};
  RankMetrics ranks_{[this] { return views_; }, [this] { return now_; }, stats_};
  core::Coordinator coordinator_{ToBeMeasured(1), now_};
  GangMetrics gang_{&coordinator_, [this] { return now_; }};
  Console console_{loop(), STDOUT_FILENO};
  std::unique_ptr<FileWorker> worker_;
  std::unique_ptr<LogFiles> files_;
  std::unique_ptr<LogPump> logs_;
  OutputWatch output_{loop(), nullptr, [](uint32_t, const core::OutputProgress&) {}};
  TlsPskContext tls_ = std::move(*TlsPskContext::Server(Key{}, "job"));
  std::unique_ptr<GangListener> listener_;
};

std::string Row(const std::string& name, const std::string& type, const std::string& labels,
                const std::string& help) {
  return "| `" + name + "` | " + type + " | " + labels + " | " + help + " |";
}

TEST_F(MetricsTest, TheDocumentationListsExactlyWhatCanBeShown) {
  std::set<std::string> documented;
  std::ifstream file("docs/reference/metrics.md");  // ctest runs it in the root
  for (std::string line; std::getline(file, line) && line != "## The operator";) {
    if (line.starts_with("| `lockstep_")) documented.insert(line);
  }
  const Page page = Full();
  std::map<std::string, std::string> labels;
  for (const Page::Series& series : page.series) {
    std::string names;
    for (const Label& label : series.labels) {
      if (std::set<std::string>{"trainingjob", "machine", "le"}.contains(label.name)) continue;
      if (!names.empty()) names += ", ";
      names += label.name;
    }
    labels[series.family] = names;
  }
  std::set<std::string> shown;
  for (const auto& [name, family] : page.families) {
    const std::string type = family.type == "summary" ? "sum and count" : family.type;
    shown.insert(Row(name, type, labels[name], family.help));
  }
  EXPECT_EQ(documented, shown) << "the rows of docs/reference/metrics.md, and what they should be";
}

TEST_F(MetricsTest, EverySampleNamesJobAndMachineAndNoLabelThatAScrapeRenames) {
  const std::set<std::string> renamed = {"job", "instance",  "namespace",
                                         "pod", "container", "node"};
  for (const auto& [name, labels] : Full().series) {
    EXPECT_EQ(labels[0], (Label{"trainingjob", "gpt"})) << name;
    EXPECT_EQ(labels[1], (Label{"machine", "3"})) << name;
    std::set<std::string> names;
    for (const Label& label : labels) {
      EXPECT_FALSE(renamed.contains(label.name)) << name << " has label " << label.name;
      EXPECT_TRUE(names.insert(label.name).second) << name << " has twice " << label.name;
    }
    EXPECT_FALSE(names.contains("le") && names.contains("rank")) << "a histogram a rank: " << name;
  }
}

TEST_F(MetricsTest, CountersEndInTotalAndUnitsAreBaseUnits) {
  for (const auto& [name, family] : Full().families) {
    EXPECT_TRUE(name.starts_with("lockstep_")) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == "counter") << name;
    for (const char* unit :
         {"milli", "micro", "nano", "_ms", "kilo", "mega", "percent", "minutes"}) {
      EXPECT_THAT(name, Not(HasSubstr(unit)));
    }
  }
}

TEST_F(MetricsTest, ExactlyOnePhaseOfMachineAndGangIsOne) {
  double machine = 0;
  double gang = 0;
  for (const auto& [series, value] : Full().samples) {
    if (series.starts_with("lockstep_machine_phase")) machine += value;
    if (series.starts_with("lockstep_gang_phase")) gang += value;
  }
  EXPECT_EQ(machine, 1);
  EXPECT_EQ(gang, 1);
}

TEST_F(MetricsTest, AContainerThatTellsNothingHasNoValuesRatherThanZeros) {
  const topology::FixtureTree nothing;
  const MachineMetrics machine(&member_, nothing.root());
  for (const auto& [name, family] : PageOf(machine).families) {
    EXPECT_THAT(name, Not(testing::ContainsRegex("memory|cpu")));
  }
  const LogPump without_files(loop(), {}, &console_, nullptr);
  EXPECT_TRUE(
      std::isnan(PageOf(without_files).At(R"(lockstep_log_dropped_bytes_total{sink="files"})")));
}

}  // namespace
}  // namespace lockstep::agent
