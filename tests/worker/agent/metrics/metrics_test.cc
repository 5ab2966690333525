#include "worker/agent/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "worker/agent/metrics/metrics_families.h"

namespace lockstep::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Labels = std::map<std::string, std::string>;

// A page of Prometheus' text format, read by the format's own rules: HELP, TYPE and then all
// samples of a family together; nothing twice.
struct Page {
  struct Family {
    std::string help;
    std::string type;
  };
  std::map<std::string, Family> families;
  std::map<std::string, double> samples;  // by the text before the value
  std::vector<std::pair<std::string, Labels>> series;

  double At(const std::string& series_name) const {
    const auto found = samples.find(series_name);
    return found == samples.end() ? std::nan("") : found->second;
  }
};

std::string FamilyOf(const std::string& sample, const Page& page) {
  if (page.families.contains(sample)) return sample;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (sample.ends_with(suffix)) {
      std::string family = sample.substr(0, sample.size() - suffix.size());
      if (page.families.contains(family)) return family;
    }
  }
  return "";
}

Page Parse(const std::string& text) {
  static const std::regex help("# HELP ([a-z_]+) (.+)");
  static const std::regex type("# TYPE ([a-z_]+) (counter|gauge|histogram|summary)");
  static const std::regex sample(R"re(([a-z_]+)\{(([a-z_]+="([^"\\]|\\.)*",?)*)\} (\S+))re");
  static const std::regex label(R"re(([a-z_]+)="((?:[^"\\]|\\.)*)")re");
  EXPECT_TRUE(text.ends_with("\n"));
  Page page;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      current = match[1];
      EXPECT_TRUE(page.families.try_emplace(current, Page::Family{match[2], ""}).second) << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], current) << "TYPE follows its HELP";
      page.families[current].type = match[2];
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(FamilyOf(match[1], page), current) << line;
      size_t used = 0;
      const std::string number = match[5];
      const double value = std::stod(number, &used);
      EXPECT_EQ(used, number.size()) << line;
      EXPECT_TRUE(page.samples.emplace(line.substr(0, line.rfind(' ')), value).second) << line;
      Labels labels;
      const std::string all = match[2];
      for (std::sregex_iterator it(all.begin(), all.end(), label), end; it != end; ++it) {
        EXPECT_TRUE(labels.emplace((*it)[1], (*it)[2]).second) << line;
      }
      page.series.emplace_back(match[1].str(), labels);
    } else {
      ADD_FAILURE() << "not the text format: " << line;
    }
  }
  return page;
}

// `name` with the labels every sample has, and `more`.
std::string Series(const std::string& name, const std::string& more = "") {
  return name + R"({trainingjob="gpt",machine="3")" + (more.empty() ? "" : "," + more) + "}";
}

Metrics::Identity Gpt() { return {.trainingjob = "gpt", .machine = 3, .version = "0.1.0"}; }

core::GenerationRecord Announced(uint32_t n, Time at) {
  core::GenerationRecord record;
  record.generation = {2, n};
  record.announced = at;
  return record;
}

void Spawned(core::GenerationRecord* record, Duration after) {
  record->spawned = *record->announced + after;
}

void Failed(core::GenerationRecord* record, core::Cause cause, Time died) {
  record->failure.cause = cause;
  record->died = died;
  record->stop_sent = died + milliseconds(2);
  record->all_stopped = *record->stop_sent + milliseconds(4);
  record->ended = record->all_stopped;
}

ProcessStats MakeProcess(uint64_t start_ticks, double cpu_seconds) {
  return {.start_ticks = start_ticks, .cpu_seconds = cpu_seconds, .resident_bytes = 4096};
}

RankSnapshot MakeRank(uint32_t rank) {
  RankSnapshot made;
  made.rank = rank;
  made.up = true;
  made.process = MakeProcess(100, 2.5);
  made.binding = core::Binding::kNode;
  made.progress = {rank, 10, 100, 1.25, 4000};
  made.progress_age = milliseconds(500);
  made.reported = {{"gradient_norm", 0.5}};
  return made;
}

// Everything that there can be.
MetricsSnapshot Full() {
  MetricsSnapshot snapshot;
  snapshot.generation = {2, 5};
  snapshot.phase = core::MemberPhase::kRunning;
  snapshot.counters.generations = 5;
  snapshot.counters.process_failures = 2;
  snapshot.log_lines = 7;
  snapshot.agent = MakeProcess(1, 1);
  snapshot.machine = {.memory_bytes = 10,
                      .memory_limit_bytes = 20,
                      .oom_events = 1,
                      .oom_kills = 1,
                      .cpu_throttled_seconds = 1.5,
                      .shared_memory_used_bytes = 5,
                      .shared_memory_size_bytes = 6};
  for (uint32_t rank = 24; rank < 32; ++rank) snapshot.ranks.push_back(MakeRank(rank));
  snapshot.gang.emplace();
  snapshot.gang->phase = core::CoordinatorPhase::kRunning;
  snapshot.gang->commits_granted = 3;
  snapshot.gang->commits_refused = 1;
  snapshot.gang->checkpoint_age = seconds(90);
  return snapshot;
}

std::string ScrapeFull() {
  Metrics metrics(Gpt());
  metrics.ObserveStep(24, milliseconds(120));
  metrics.ObserveHeartbeat(milliseconds(1));
  return metrics.Scrape(Full());
}

// ---- form ----

TEST(MetricsTest, EveryFamilyHasHelpATypeAndSamples) {
  const Page page = Parse(ScrapeFull());
  std::set<std::string> with_samples;
  for (const auto& [name, labels] : page.series) with_samples.insert(FamilyOf(name, page));
  for (const auto& [name, family] : page.families) {
    EXPECT_FALSE(family.help.empty()) << name;
    EXPECT_FALSE(family.type.empty()) << name;
    EXPECT_TRUE(with_samples.contains(name)) << name;
  }
}

TEST(MetricsTest, EverySampleNamesJobAndMachineAndNoLabelThatAScrapeRenames) {
  const std::set<std::string> allowed = {"trainingjob", "machine", "rank", "version", "phase",
                                         "mode",        "event",   "name", "cause",   "kind",
                                         "state",       "budget",  "sink", "result",  "le"};
  for (const auto& [name, labels] : Parse(ScrapeFull()).series) {
    EXPECT_EQ(labels.at("trainingjob"), "gpt") << name;
    EXPECT_EQ(labels.at("machine"), "3") << name;
    for (const auto& [label, value] : labels) {
      EXPECT_TRUE(allowed.contains(label)) << name << " has label " << label;
    }
  }
}

TEST(MetricsTest, CountersEndInTotalAndNothingElseDoes) {
  for (const auto& [name, family] : Parse(ScrapeFull()).families) {
    EXPECT_TRUE(name.starts_with("lockstep_")) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == "counter") << name;
  }
}

TEST(MetricsTest, UnitsAreBaseUnits) {
  for (const auto& [name, family] : Parse(ScrapeFull()).families) {
    for (const char* unit :
         {"milli", "micro", "nano", "_ms", "kilo", "mega", "percent", "minutes"}) {
      EXPECT_THAT(name, Not(HasSubstr(unit)));
    }
  }
}

TEST(MetricsTest, NoHistogramIsPerRank) {
  for (const auto& [name, labels] : Parse(ScrapeFull()).series) {
    EXPECT_FALSE(labels.contains("le") && labels.contains("rank")) << name;
  }
}

TEST(MetricsTest, AHistogramsBucketsGrowUpToItsCount) {
  Metrics metrics(Gpt());
  for (int i = 1; i <= 100; ++i) metrics.ObserveStep(24, milliseconds(i * i));
  const Page page = Parse(metrics.Scrape({}));
  std::map<double, double> buckets;
  for (const auto& [name, labels] : page.series) {
    if (name != "lockstep_step_seconds_bucket") continue;
    const double count = page.At(Series(name, "le=\"" + labels.at("le") + "\""));
    buckets[std::stod(labels.at("le"))] = count;
  }
  double before = 0;
  for (const auto& [bound, count] : buckets) {
    EXPECT_GE(count, before) << bound;
    before = count;
  }
  EXPECT_TRUE(std::isinf(buckets.rbegin()->first));
  EXPECT_EQ(before, 100);
  EXPECT_EQ(page.At(Series("lockstep_step_seconds_count")), 100);
}

TEST(MetricsTest, TheFullPageShowsEveryFamilyOfTheListAndNoOther) {
  const Page page = Parse(ScrapeFull());
  std::set<std::string> listed;
  for (const MetricDescription* description : kMetricFamilies) listed.insert(description->name);
  std::set<std::string> shown;
  for (const auto& [name, family] : page.families) shown.insert(name);
  EXPECT_EQ(shown, listed);
  EXPECT_EQ(listed.size(), kMetricFamilies.size()) << "a name stands twice in the list";
}

TEST(MetricsTest, LabelsAreThoseOfTheList) {
  const Page page = Parse(ScrapeFull());
  for (const auto& [name, labels] : page.series) {
    const std::string family = FamilyOf(name, page);
    for (const MetricDescription* description : kMetricFamilies) {
      if (description->name != family) continue;
      std::set<std::string> expected = {"trainingjob", "machine"};
      std::istringstream words(description->labels);
      for (std::string word; words >> word;) expected.insert(word);
      std::set<std::string> found;
      for (const auto& [label, value] : labels) {
        if (label != "le") found.insert(label);
      }
      EXPECT_EQ(found, expected) << name;
    }
  }
}

// ---- what is not known is not shown ----

TEST(MetricsTest, AMachineOtherThanZeroSaysNothingOfTheGang) {
  MetricsSnapshot snapshot = Full();
  snapshot.gang.reset();
  const std::string text = Metrics(Gpt()).Scrape(snapshot);
  for (const char* name : {"lockstep_restarts_total", "lockstep_goodput", "lockstep_recovery",
                           "lockstep_generations_total", "lockstep_heartbeat"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(MetricsTest, WhatIsNotKnownIsAbsentAndNotZero) {
  MetricsSnapshot snapshot;
  snapshot.ranks.emplace_back().rank = 24;
  snapshot.ranks[0].progress.loss = std::nan("");
  const std::string text = Metrics(Gpt()).Scrape(snapshot);
  for (const char* name :
       {"lockstep_memory", "lockstep_shared_memory", "throttled", "lockstep_rank_cpu",
        "lockstep_rank_resident", "lockstep_rank_step", "lockstep_rank_loss",
        "lockstep_rank_tokens", "lockstep_rank_progress_age", "lockstep_rank_binding"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
  EXPECT_EQ(Parse(text).At(Series("lockstep_rank_up", R"(rank="24")")), 0);
}

// ---- ranks ----

TEST(MetricsTest, ShowsWhatARankDoes) {
  const Page page = Parse(ScrapeFull());
  const std::string rank = R"(rank="24")";
  EXPECT_EQ(page.At(Series("lockstep_rank_up", rank)), 1);
  EXPECT_EQ(page.At(Series("lockstep_rank_step", rank)), 10);
  EXPECT_EQ(page.At(Series("lockstep_rank_total_steps", rank)), 100);
  EXPECT_EQ(page.At(Series("lockstep_rank_loss", rank)), 1.25);
  EXPECT_EQ(page.At(Series("lockstep_rank_tokens_per_second", rank)), 4000);
  EXPECT_EQ(page.At(Series("lockstep_rank_progress_age_seconds", rank)), 0.5);
  EXPECT_EQ(page.At(Series("lockstep_rank_cpu_seconds_total", rank)), 2.5);
  EXPECT_EQ(page.At(Series("lockstep_rank_resident_memory_bytes", rank)), 4096);
  EXPECT_EQ(page.At(Series("lockstep_rank_binding_info", rank + R"(,mode="Node")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_reported", rank + R"(,name="gradient_norm")")), 0.5);
  EXPECT_EQ(page.At(Series("lockstep_rank_step_seconds_count", rank)), 1);
  EXPECT_EQ(page.At(Series("lockstep_rank_step_seconds_sum", rank)), 0.12);
}

TEST(MetricsTest, CpuTimeOfARankGoesOnWhenItsProcessIsReplaced) {
  Metrics metrics(Gpt());
  MetricsSnapshot snapshot;
  snapshot.ranks = {MakeRank(24)};
  const std::string cpu = Series("lockstep_rank_cpu_seconds_total", R"(rank="24")");
  EXPECT_EQ(Parse(metrics.Scrape(snapshot)).At(cpu), 2.5);
  snapshot.ranks[0].process.reset();
  EXPECT_EQ(Parse(metrics.Scrape(snapshot)).At(cpu), 2.5) << "between two processes";
  snapshot.ranks[0].process = MakeProcess(200, 0.5);
  EXPECT_EQ(Parse(metrics.Scrape(snapshot)).At(cpu), 3);
}

TEST(MetricsTest, OnlyTheFirst64ReportedNamesAreShownAndTheyStay) {
  Metrics metrics(Gpt());
  MetricsSnapshot snapshot;
  snapshot.ranks = {MakeRank(24)};
  snapshot.ranks[0].reported = {{"zz_came_first", 1}};
  metrics.Scrape(snapshot);
  for (int i = 0; i < 100; ++i) snapshot.ranks[0].reported["name" + std::to_string(i)] = i;
  const Page page = Parse(metrics.Scrape(snapshot));
  int shown = 0;
  for (const auto& [name, labels] : page.series) shown += name == "lockstep_reported" ? 1 : 0;
  EXPECT_EQ(shown, 64);
  EXPECT_EQ(page.At(Series("lockstep_reported", R"(rank="24",name="zz_came_first")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_reported_left_out")), 37);
}

TEST(MetricsTest, ReportedNamesOfAnyTextKeepTheFormat) {
  MetricsSnapshot snapshot;
  snapshot.ranks = {MakeRank(24)};
  snapshot.ranks[0].reported = {
      {"a\"b", 1}, {"back\\slash", 2}, {"two\nlines", 3}, {"", 4}, {std::string(200, 'x'), 5}};
  const Page page = Parse(Metrics(Gpt()).Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_reported", R"(rank="24",name="a\"b")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_reported", R"(rank="24",name="two\nlines")")), 3);
  EXPECT_EQ(page.At(Series("lockstep_reported_left_out")), 1) << "the one that is too long";
}

TEST(MetricsTest, StepTimesOfMadeUpRanksDoNotGrowThePage) {
  Metrics metrics(Gpt());
  for (uint32_t rank = 0; rank < 10000; ++rank) metrics.ObserveStep(rank, seconds(1));
  EXPECT_LT(metrics.Scrape({}).size(), 64U * 1024);
}

// ---- the gang ----

TEST(MetricsTest, ExactlyOnePhaseOfMachineAndGangIsOne) {
  double machine = 0;
  double gang = 0;
  const Page page = Parse(ScrapeFull());
  for (const auto& [series, value] : page.samples) {
    if (series.starts_with("lockstep_machine_phase")) machine += value;
    if (series.starts_with("lockstep_gang_phase")) gang += value;
  }
  EXPECT_EQ(machine, 1);
  EXPECT_EQ(gang, 1);
  EXPECT_EQ(page.At(Series("lockstep_machine_phase", R"(phase="Running")")), 1);
}

TEST(MetricsTest, CountsCommitsAndShowsTheAgeOfTheLastOneOnceThereIsOne) {
  MetricsSnapshot snapshot = Full();
  Page page = Parse(Metrics(Gpt()).Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_commits_total", R"(result="granted")")), 3);
  EXPECT_EQ(page.At(Series("lockstep_commits_total", R"(result="refused")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_checkpoint_age_seconds")), 90);

  snapshot.gang->checkpoint_age.reset();
  EXPECT_THAT(Metrics(Gpt()).Scrape(snapshot), Not(HasSubstr("lockstep_checkpoint_age")));
}

TEST(MetricsTest, ARestartAndThePartsOfItsRecoveryCountOnce) {
  MetricsSnapshot snapshot = Full();
  auto& history = snapshot.gang->history;
  history = {Announced(1, seconds(1)), Announced(2, seconds(101))};
  Spawned(&history[0], milliseconds(5));
  Failed(&history[0], core::Cause::kProcessSignal, seconds(100));
  Spawned(&history[1], milliseconds(8));
  Metrics metrics(Gpt());
  metrics.ObserveHistory(history);
  metrics.Scrape(snapshot);
  Page page = Parse(metrics.Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_restarts_total", R"(cause="ProcessSignal")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_restarts_total", R"(cause="ProcessExit")")), 0);
  const auto sum = [&page](const std::string& phase) {
    return page.At(Series("lockstep_recovery_seconds_sum", "phase=\"" + phase + "\""));
  };
  const auto count = [&page](const std::string& phase) {
    return page.At(Series("lockstep_recovery_seconds_count", "phase=\"" + phase + "\""));
  };
  EXPECT_DOUBLE_EQ(sum("detect"), 0.002);
  EXPECT_DOUBLE_EQ(sum("stop"), 0.004);
  EXPECT_DOUBLE_EQ(sum("spawn"), 0.008);
  EXPECT_EQ(count("detect"), 1);
  EXPECT_EQ(count("first_step"), 0);

  history[1].first_step = *history[1].spawned + seconds(3);
  metrics.Scrape(snapshot);
  page = Parse(metrics.Scrape(snapshot));
  EXPECT_EQ(count("first_step"), 1);
  EXPECT_DOUBLE_EQ(sum("first_step"), 3);
  EXPECT_EQ(count("spawn"), 1);
}

TEST(MetricsTest, TheFirstGenerationAndTheLastFailureAreNoRestart) {
  MetricsSnapshot snapshot = Full();
  snapshot.gang->history = {Announced(1, seconds(1))};
  Spawned(&snapshot.gang->history[0], milliseconds(5));
  Failed(&snapshot.gang->history[0], core::Cause::kProcessExit, seconds(9));
  const Page page = Parse(Metrics(Gpt()).Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_restarts_total", R"(cause="ProcessExit")")), 0);
  EXPECT_EQ(page.At(Series("lockstep_recovery_seconds_count", R"(phase="spawn")")), 0);
}

TEST(MetricsTest, AStopOnRequestIsARestartButNoRecovery) {
  MetricsSnapshot snapshot = Full();
  snapshot.gang->history = {Announced(1, seconds(1)), Announced(2, seconds(900))};
  Failed(&snapshot.gang->history[0], core::Cause::kStopRequested, seconds(9));
  Spawned(&snapshot.gang->history[1], milliseconds(5));
  const Page page = Parse(Metrics(Gpt()).Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_restarts_total", R"(cause="StopRequested")")), 1);
  EXPECT_EQ(page.At(Series("lockstep_recovery_seconds_count", R"(phase="stop")")), 0);
}

TEST(MetricsTest, AFailureThatSeemsToLieAfterItsStopTookNoTime) {
  MetricsSnapshot snapshot = Full();
  snapshot.gang->history = {Announced(1, seconds(1)), Announced(2, seconds(101))};
  Failed(&snapshot.gang->history[0], core::Cause::kProcessExit, seconds(100));
  snapshot.gang->history[0].died = *snapshot.gang->history[0].died + seconds(5);
  const Page page = Parse(Metrics(Gpt()).Scrape(snapshot));
  EXPECT_EQ(page.At(Series("lockstep_recovery_seconds_sum", R"(phase="detect")")), 0);
}

TEST(MetricsTest, CountersNeverFallFromScrapeToScrape) {
  Metrics metrics(Gpt());
  MetricsSnapshot snapshot = Full();
  auto& history = snapshot.gang->history;
  std::map<std::string, double> before;
  for (uint32_t n = 1; n <= 200; ++n) {
    const Time now = seconds(n * 10);
    if (!history.empty()) Failed(&history.back(), core::Cause::kProcessExit, now - seconds(1));
    if (history.size() == core::kMaxHistory) history.erase(history.begin());
    history.push_back(Announced(n, now));
    Spawned(&history.back(), milliseconds(n));
    snapshot.counters.generations = n;
    snapshot.counters.process_failures = n - 1;
    if (n % 20 == 0) snapshot.counters.process_failures_base = n - 1;
    snapshot.log_lines = n;
    snapshot.log_bytes += n;
    snapshot.gang->goodput[n % kGoodputStates] += seconds(9);
    for (auto& rank : snapshot.ranks) {
      rank.process = MakeProcess(n, 1.0 / n);
      metrics.ObserveStep(rank.rank, milliseconds(n));
    }
    if (n % 7 == 0) snapshot.ranks[0].process.reset();

    const Page page = Parse(metrics.Scrape(snapshot));
    std::map<std::string, double> after;
    for (const auto& [series, value] : page.samples) {
      const std::string name = series.substr(0, series.find('{'));
      if (page.families.at(FamilyOf(name, page)).type != "gauge") after[series] = value;
    }
    for (const auto& [series, value] : before) {
      ASSERT_TRUE(after.contains(series)) << series << " is gone";
      ASSERT_GE(after[series], value) << series;
    }
    before = std::move(after);
  }
  EXPECT_EQ(before.at(Series("lockstep_restarts_total", R"(cause="ProcessExit")")), 199);
}

// ---- the documentation ----

std::string MarkdownTable() {
  static const std::map<prometheus::MetricType, std::string> kTypes = {
      {prometheus::MetricType::Counter, "counter"},
      {prometheus::MetricType::Gauge, "gauge"},
      {prometheus::MetricType::Summary, "sum and count"},
      {prometheus::MetricType::Histogram, "histogram"}};
  std::string table = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricDescription* metric : kMetricFamilies) {
    std::string labels = metric->labels;
    for (size_t at = 0; (at = labels.find(' ', at)) != std::string::npos; at += 2) {
      labels.replace(at, 1, ", ");
    }
    table += std::string("| `") + metric->name + "` | " + kTypes.at(metric->type) + " | " + labels +
             " | " + metric->help + " |\n";
  }
  return table;
}

TEST(MetricsTest, TheDocumentationListsWhatIsExposed) {
  const auto page =
      std::filesystem::current_path() / "docs/metrics.md";  // ctest runs it in the root
  std::ifstream file(page);
  ASSERT_TRUE(file) << page;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, HasSubstr(MarkdownTable()))
      << "put the table that was looked for in the place of the one in docs/metrics.md";
}

}  // namespace
}  // namespace lockstep::agent
