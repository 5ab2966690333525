#include "cli/run/output/progress_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr WallTime kNow{hours(1)};

core::GangProgress At(int64_t step, double loss) {
  core::GangProgress progress;
  progress.step = step;
  progress.loss = loss;
  progress.figures = {{"accuracy", 0.5}};
  return progress;
}

class ProgressEventsTest : public testing::Test {
 protected:
  ProgressEventsTest() {
    std::string pattern = ::testing::TempDir() + "progress-events-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~ProgressEventsTest() override { fs::remove_all(root_); }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder())) {
      std::ifstream file(entry.path(), std::ios::binary);
      files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return files;
  }
  std::string folder() const { return root_ + "/events"; }
  static std::string Record(int64_t step, double loss) {
    const std::vector<events::Scalar> scalars = {{"loss", loss}, {"accuracy", 0.5}};
    return events::ScalarsRecord(3600, step, scalars);
  }

  std::string root_;
};

TEST_F(ProgressEventsTest, HoldsWhatIsNewOnce) {
  ProgressEvents written(folder());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(written.Update(kNow, {1, 1}, At(10, 2.5)), "");
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(9, 3)), "") << "a rank that reports late";
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(11, 2.25)), "");
  const std::vector<std::string> files = Files();
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_TRUE(files[0].ends_with(Record(10, 2.5) + Record(11, 2.25)));
}

TEST_F(ProgressEventsTest, BeginsAFileWithEachGenerationForStepsThatAreDoneAgain) {
  ProgressEvents written(folder());
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(30, 2.5)), "");
  EXPECT_EQ(written.Update(kNow, {1, 2}, At(21, 2.75)), "");
  EXPECT_THAT(Files(), SizeIs(2));
}

TEST_F(ProgressEventsTest, HasTheLastProgressOfTheJobsStatus) {
  ProgressEvents written(folder());
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(10, 2.5)), "");
  core::JobProgress last;
  last.step = 12;
  last.metrics = {{"loss", "2"}, {"accuracy", "0.5"}, {"note", "n/a"}};
  EXPECT_EQ(written.Finish(kNow, last), "");
  EXPECT_EQ(written.Finish(kNow, last), "");
  EXPECT_TRUE(Files().at(0).ends_with(Record(10, 2.5) + Record(12, 2)));
}

TEST_F(ProgressEventsTest, MakesNothingWithoutAFolderOrAStep) {
  ProgressEvents none("");
  EXPECT_EQ(none.Update(kNow, {1, 1}, At(10, 2.5)), "");
  ProgressEvents silent(folder());
  EXPECT_EQ(silent.Update(kNow, {1, 1}, At(0, 2.5)), "");
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ProgressEventsTest, SaysOnceThatAFileCannotBeWrittenAndTriesAgain) {
  std::ofstream(folder()) << "";
  ProgressEvents written(folder());
  EXPECT_THAT(written.Update(kNow, {1, 1}, At(10, 2.5)), HasSubstr("no TensorBoard events: "));
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(11, 2.5)), "");
  fs::remove(folder());
  EXPECT_EQ(written.Update(kNow, {1, 1}, At(12, 2.5)), "");
  EXPECT_THAT(Files(), SizeIs(1));
}

}  // namespace
}  // namespace lockstep::cli
