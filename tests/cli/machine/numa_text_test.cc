#include "cli/machine/numa_text.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

numa::Row MakeRow(numa::Kind kind, int cpu_node, std::vector<numa::MemoryNode> memory,
                  double figure) {
  numa::Row row;
  row.setting.kind = kind;
  row.setting.cpu_node = cpu_node;
  row.setting.work.cpus = {0, 1};
  row.setting.work.memory = std::move(memory);
  const numa::Summary summary{
      .count = 20, .median = figure, .low = figure, .high = figure, .deviation = figure / 50};
  if (kind == numa::Kind::kLatency) {
    row.setting.work.task = numa::Task::kChase;
    row.nanoseconds = summary;
  } else {
    row.bytes_per_second.fill(summary);
  }
  row.placed = 1;
  row.counts.errors[0] = ENOENT;
  return row;
}

numa::Report TwoNodes() {
  numa::Report report;
  report.nodes = {0, 1};
  report.size = {.bytes = 256 << 20, .cache_bytes = 64 << 20, .follows_rule = true};
  report.rows = {MakeRow(numa::Kind::kBaseline, -1, {}, 90e9),
                 MakeRow(numa::Kind::kLocal, 0, {{0, 0}}, 100e9),
                 MakeRow(numa::Kind::kRemote, 0, {{1, 2}}, 60e9),
                 MakeRow(numa::Kind::kInterleaved, 0, {{0, 0}, {1, 2}}, 80e9),
                 MakeRow(numa::Kind::kLatency, 0, {{0, 0}}, 90),
                 MakeRow(numa::Kind::kLatency, 0, {{1, 2}}, 140)};
  report.rows[2].of_local = numa::Summary{.count = 20, .median = 0.6};
  report.numastat = {{0, {{"numa_hit", 12}}}};
  return report;
}

TEST(NumaTextTest, TheTableShowsEverySettingWithItsShareOfLocal) {
  const std::string text = NumaTable(TwoNodes());
  EXPECT_THAT(text, HasSubstr("2 NUMA nodes.\nArrays of 256 MiB, four times"));
  EXPECT_THAT(text,
              HasSubstr("remote       0        1            2 threads  60000   60000   60000   "
                        "60000   60000-60000    2.0 %  0.60      100 %"));
  EXPECT_THAT(text, HasSubstr("interleaved  0        0,1"));
  EXPECT_THAT(text, HasSubstr("90.0 (90.0-90.0)"));
  EXPECT_THAT(text, HasSubstr("140.0 (140.0-140.0)"));
  EXPECT_THAT(text, HasSubstr("no node-loads (ENOENT)"));
  EXPECT_THAT(text, HasSubstr("numa_hit 12"));
}

TEST(NumaTextTest, OneNodeIsSaidToHaveNothingToCompare) {
  numa::Report report = TwoNodes();
  report.nodes = {0};
  EXPECT_THAT(NumaTable(report), HasSubstr("1 NUMA node: there is nothing to compare"));
  EXPECT_THAT(NumaHeatMap(report), HasSubstr("nothing to compare"));
  EXPECT_EQ(NumaJson(report, {})["comparable"], false);
}

TEST(NumaTextTest, ArraysThatFitIntoCachesAreNotPassedOffAsMemory) {
  numa::Report report = TwoNodes();
  report.size.follows_rule = false;
  EXPECT_THAT(NumaTable(report), HasSubstr("LESS than four times the last-level caches (64 MiB)"));
  report.size.cache_bytes = 0;
  EXPECT_THAT(NumaTable(report), HasSubstr("STREAM's rule cannot be checked"));
}

TEST(NumaTextTest, AQuotaThatHoldsWorkersBackIsSaid) {
  numa::Report report = TwoNodes();
  EXPECT_THAT(NumaTable(report), Not(HasSubstr("quota")));
  EXPECT_TRUE(NumaJson(report, {})["cpuQuota"].is_null());
  report.cpu_quota = 4.5;
  EXPECT_THAT(NumaTable(report), HasSubstr("The CPU quota (4.5 CPUs) allows at most 4 workers"));
  EXPECT_EQ(NumaJson(report, {})["cpuQuota"], 4.5);
  report.cpu_quota = 0.5;
  EXPECT_THAT(NumaTable(report), HasSubstr("(0.5 CPUs) allows 1 worker, and not all the time"));
}

TEST(NumaTextTest, ARefusedPolicyAndASettingThatFailedAreSaid) {
  numa::Report report = TwoNodes();
  report.rows[1].mbind_errno = EPERM;
  report.rows[2].failed = "worker 1: sched_setaffinity: Invalid argument";
  const std::string text = NumaTable(report);
  EXPECT_THAT(text, HasSubstr("mbind is refused here (EPERM)"));
  EXPECT_THAT(text, HasSubstr("not measured: worker 1: sched_setaffinity"));
  const OrderedJson json = NumaJson(report, {});
  EXPECT_EQ(json["settings"][1]["placedBy"], "first touch");
  EXPECT_EQ(json["settings"][1]["mbind"], "EPERM");
  EXPECT_FALSE(json["settings"][2].contains("bytesPerSecond"));
  EXPECT_THAT(NumaPrometheus(report), Not(HasSubstr("setting=\"remote\"")));
}

TEST(NumaTextTest, JsonSaysWhatIsCountedAndWhatIsMoved) {
  const OrderedJson json = NumaJson(TwoNodes(), {{"SMT", "on", "/a"}, {"seccomp mode", "", "/b"}});
  EXPECT_EQ(json["bytesAnElement"]["triad"]["counted"], 24);
  EXPECT_EQ(json["bytesAnElement"]["triad"]["moved"], 32);
  EXPECT_EQ(json["settings"][2]["ofLocal"]["median"], 0.6);
  EXPECT_EQ(json["settings"][0]["counters"]["node-loads"], "ENOENT");
  EXPECT_EQ(json["settings"][0]["counters"]["page-faults"], 0);
  EXPECT_EQ(json["machine"]["SMT"]["value"], "on");
  EXPECT_TRUE(json["machine"]["seccomp mode"]["value"].is_null());
  EXPECT_EQ(json["gpuCopies"]["measured"], false);
}

TEST(NumaTextTest, PrometheusGetsOneSampleOfEverySettingAndKernel) {
  const std::string text = NumaPrometheus(TwoNodes());
  EXPECT_THAT(text, HasSubstr("# TYPE lockstep_numa_bench_bandwidth_bytes_per_second gauge\n"));
  EXPECT_THAT(text, HasSubstr("{setting=\"remote\",cpu_node=\"0\",memory_nodes=\"1\",workers=\"2\","
                              "of=\"threads\",kernel=\"triad\"} 60000000000\n"));
  EXPECT_THAT(text,
              HasSubstr("lockstep_numa_bench_latency_seconds{setting=\"latency\",cpu_node=\"0\","
                        "memory_nodes=\"0\",workers=\"2\",of=\"threads\"} 0.000000090000\n"));
}

TEST(NumaTextTest, WorkingSetsAndMessagesHaveTablesOfTheirOwn) {
  numa::Report report = TwoNodes();
  numa::Row stream = MakeRow(numa::Kind::kSizes, 0, {{0, 0}}, 30e9);
  numa::Row chase = stream;
  chase.setting.work.task = numa::Task::kChase;
  chase.setting.work.bytes = 64 << 10;
  chase.nanoseconds = {.count = 20, .median = 4, .low = 3.9, .high = 4.1, .deviation = 0.1};
  numa::Row messages = MakeRow(numa::Kind::kMessages, 0, {{1, 2}}, 0);
  messages.setting.work.task = numa::Task::kMessages;
  messages.nanoseconds = {.count = 20, .median = 110, .low = 100, .high = 120, .deviation = 11};
  messages.message_bytes_per_second = {.count = 20, .median = 7e9, .low = 6e9, .high = 8e9};
  report.rows.insert(report.rows.end(), {stream, chase, messages});
  const std::string text = NumaTable(report);
  EXPECT_THAT(text, HasSubstr("64 KiB       30000  30000-30000  2.0 %  4.0      3.9-4.1  2.5 %"));
  EXPECT_THAT(text, HasSubstr("0     1   110      100-120  10.0 %  7000  6000-8000  0.0 %"));
  const OrderedJson json = NumaJson(report, {});
  EXPECT_EQ(json["settings"][8]["toNode"], 1);
  EXPECT_EQ(json["settings"][8]["bytesPerSecond"]["messages"]["median"], 7e9);
  EXPECT_EQ(json["settings"][7]["nanoseconds"]["deviation"], 0.1);
  const std::string samples = NumaPrometheus(report);
  EXPECT_THAT(samples, HasSubstr("message_latency_seconds{from_node=\"0\",to_node=\"1\"} "
                                 "0.000000110000\n"));
  EXPECT_THAT(samples, Not(HasSubstr("setting=\"sizes\"")));
  messages.failed = "worker 1: sched_setaffinity: Invalid argument";
  report.rows = {messages};
  EXPECT_THAT(NumaTable(report), HasSubstr("not measured: worker 1"));
}

TEST(NumaTextTest, TheHeatMapIsTheDarkerTheLargerTheFigure) {
  const std::string svg = NumaHeatMap(TwoNodes());
  EXPECT_THAT(svg, AllOf(HasSubstr(">100.0<"), HasSubstr(">60.0<"), HasSubstr(">140.0<")));
  EXPECT_THAT(svg, HasSubstr("fill=\"#2b7ac4\""));  // the largest of each square
  EXPECT_THAT(svg, HasSubstr("fill=\"#eeeeee\""));  // node 1's CPUs were not measured
}

}  // namespace
}  // namespace lockstep::cli
