// The logs of testdata: short outputs in the styles of training programs, with what is to be found
// in each (expected.tsv), and outputs of other programs, in which nothing is to be found. Those
// named real_* are what the libraries printed; the others are written in the style of a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/scan/line_cutter.h"
#include "core/scan/progress_scanner.h"

namespace lockstep::core::corpus_test {
namespace {

const char* const kData = "tests/core/scan/testdata/";

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::filesystem::path> Logs(const std::string& folder) {
  std::vector<std::filesystem::path> logs;
  for (const auto& entry : std::filesystem::directory_iterator(kData + folder)) {
    logs.push_back(entry.path());
  }
  std::ranges::sort(logs);
  return logs;
}

// "step total epoch loss", with - for what is not found.
std::string Found(const ProgressScanner& scanner) {
  if (!scanner.progress()) return "-\t-\t-\t-";
  const OutputProgress& progress = *scanner.progress();
  std::string text = std::to_string(progress.step) + "\t" + std::to_string(progress.total) + "\t" +
                     (progress.epoch ? std::to_string(*progress.epoch) : "-") + "\t";
  if (!progress.figures.loss) return text + "-";
  std::ostringstream loss;
  loss << *progress.figures.loss;
  return text + loss.str();
}

ProgressScanner Scanned(const std::string& output, size_t piece) {
  ProgressScanner scanner;
  LineCutter cutter(Duration::zero());
  for (size_t at = 0; at < output.size(); at += piece) {
    const std::string_view bytes = std::string_view(output).substr(at, piece);
    for (const std::string& line : cutter.Feed(bytes, seconds(1))) scanner.Scan(line);
  }
  for (const std::string& line : cutter.Finish()) scanner.Scan(line);
  return scanner;
}

TEST(CorpusTest, FindsTheProgressOfEachTrainingLog) {
  std::ifstream expected(std::string(kData) + "expected.tsv");
  std::string row;
  size_t rows = 0;
  while (std::getline(expected, row)) {
    if (row.starts_with('#')) continue;
    ++rows;
    const size_t tab = row.find('\t');
    const std::string name = row.substr(0, tab);
    const std::string output = Slurp(std::string(kData) + "training/" + name + ".log");
    const std::string found = Found(Scanned(output, output.size()));
    // Losses are compared as numbers.
    const std::string want = row.substr(tab + 1);
    EXPECT_EQ(found.substr(0, found.rfind('\t')), want.substr(0, want.rfind('\t'))) << name;
    const std::string loss = found.substr(found.rfind('\t') + 1);
    const std::string want_loss = want.substr(want.rfind('\t') + 1);
    if (loss == "-" || want_loss == "-" || want_loss == "nan") {
      EXPECT_EQ(loss, want_loss) << name;
    } else {
      EXPECT_NEAR(std::stod(loss), std::stod(want_loss), 1e-3) << name;
    }
  }
  EXPECT_EQ(rows, Logs("training").size());
}

TEST(CorpusTest, FindsNothingInTheOutputOfOtherPrograms) {
  const std::vector<std::filesystem::path> logs = Logs("other");
  EXPECT_GT(logs.size(), 60u);
  for (const auto& log : logs) {
    const std::string output = Slurp(log);
    EXPECT_EQ(Found(Scanned(output, output.size())), "-\t-\t-\t-") << log;
  }
}

TEST(CorpusTest, FindsTheSameHoweverTheOutputIsCutIntoPieces) {
  for (const auto& log : Logs("training")) {
    const std::string output = Slurp(log);
    // A bar that is cut in the middle shows no state that it did not have at the end.
    EXPECT_EQ(Found(Scanned(output, 4096)), Found(Scanned(output, output.size()))) << log;
  }
}

TEST(CorpusTest, NeverGoesBackInALogOfOneRun) {
  for (const auto& log : Logs("training")) {
    ProgressScanner scanner;
    LineCutter cutter(Duration::zero());
    int64_t last = 0;
    std::string series;
    for (const std::string& line : cutter.Feed(Slurp(log), seconds(1))) {
      scanner.Scan(line);
      if (!scanner.progress()) continue;
      if (scanner.progress()->series == series) {
        EXPECT_GE(scanner.progress()->step, last) << log << ": " << line;
      }
      last = scanner.progress()->step;
      series = scanner.progress()->series;
    }
  }
}

}  // namespace
}  // namespace lockstep::core::corpus_test
