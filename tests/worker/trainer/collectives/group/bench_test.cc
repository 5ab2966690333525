#include "worker/trainer/collectives/group/bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {
namespace {

BenchOptions Small() {
  return {.begin = 8, .end = 8192, .factor = 4, .warmup = 1, .iterations = 3};
}

TEST(BenchTest, MeasuresEverySizeAndFindsNoWrongValue) {
  RunRanks(3, [](Communicator& all) {
    const Result<BenchReport> report = BenchAllReduce(all, Small());
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->passed);
    EXPECT_EQ(report->world, 3);
    ASSERT_EQ(report->rows.size(), 6u);  // 8, 32, ... 8192
    for (const BenchRow& row : report->rows) {
      EXPECT_EQ(row.wrong, 0u);
      EXPECT_GT(row.p50, 0);
      EXPECT_LE(row.p50, row.p99);
      EXPECT_LE(row.p99, row.max);
      EXPECT_DOUBLE_EQ(row.busbw, row.algbw * 4 / 3);
      EXPECT_EQ(row.bytes, row.count * 4);
    }
  });
}

TEST(BenchTest, ABusBandwidthThatNothingReachesFails) {
  RunRanks(2, [](Communicator& all) {
    BenchOptions options = Small();
    options.min_busbw = 1e6;
    const Result<BenchReport> report = BenchAllReduce(all, options);
    ASSERT_TRUE(report.ok());
    EXPECT_FALSE(report->passed);
    EXPECT_NE(ToTable(*report).find("FAILED"), std::string::npos);
  });
}

TEST(BenchTest, SizesThatCannotBeMeantAreRefused) {
  RunRanks(1, [](Communicator& all) {
    BenchOptions backwards = Small();
    backwards.end = 4;
    EXPECT_EQ(BenchAllReduce(all, backwards).error().kind, ErrorKind::kInvalid);
    BenchOptions endless = Small();
    endless.factor = 1;
    EXPECT_EQ(BenchAllReduce(all, endless).error().kind, ErrorKind::kInvalid);
    BenchOptions none = Small();
    none.iterations = 0;
    EXPECT_EQ(BenchAllReduce(all, none).error().kind, ErrorKind::kInvalid);
  });
}

// Flips one value of what comes back: the check must see it.
class LyingMemory final : public BenchMemory {
 public:
  Result<void*> Allocate(size_t bytes) override { return host_->Allocate(bytes); }
  Status Upload(void* to, const void* from, size_t bytes) override {
    return host_->Upload(to, from, bytes);
  }
  Status Download(void* to, const void* from, size_t bytes) override {
    Status done = host_->Download(to, from, bytes);
    if (bytes == 64 * sizeof(float)) static_cast<float*>(to)[7] += 1;
    return done;
  }

 private:
  std::unique_ptr<BenchMemory> host_ = MakeHostMemory();
};

TEST(BenchTest, AWrongValueIsCountedOnAllRanksAndFails) {
  RunRanks(2, [](Communicator& all) {
    LyingMemory memory;
    BenchOptions options{.begin = 256, .end = 256, .warmup = 0, .iterations = 3};
    options.memory = &memory;
    const Result<BenchReport> report = BenchAllReduce(all, options);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->rows[0].wrong, 2u);
    EXPECT_FALSE(report->passed);
  });
}

TEST(FitTest, FindsTheLineThatMadeTheTimes) {
  BenchReport report;
  for (const size_t bytes : {1000u, 100'000u, 10'000'000u}) {
    BenchRow row;
    row.bytes = bytes;
    row.p50 = 50 + static_cast<double>(bytes) / 2e3;  // 2 GB/s
    report.rows.push_back(row);
  }
  Fit(&report);
  EXPECT_NEAR(report.alpha, 50, 1e-6);
  EXPECT_NEAR(report.bandwidth, 2, 1e-6);
  for (const BenchRow& row : report.rows) EXPECT_NEAR(row.predicted, row.p50, 1e-6);
}

TEST(FitTest, OneSizeAloneIsAllLatency) {
  BenchReport report;
  report.rows.resize(1);
  report.rows[0].bytes = 8;
  report.rows[0].p50 = 30;
  Fit(&report);
  EXPECT_NEAR(report.alpha, 30, 1e-9);
  EXPECT_EQ(report.bandwidth, 0);
}

TEST(ReportTest, JsonIsOneObjectALineWithTheSummaryLast) {
  BenchReport report;
  report.backend = "Gloo over TCP on lo";
  report.rows.resize(2);
  std::istringstream lines(ToJsonLines(report));
  std::string line;
  std::vector<nlohmann::json> objects;
  while (std::getline(lines, line)) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0]["type"], "size");
  EXPECT_EQ(objects[2]["type"], "summary");
  EXPECT_EQ(objects[2]["backend"], "Gloo over TCP on lo");
}

}  // namespace
}  // namespace lockstep::collectives
