#include "core/gang/coordinator/folder_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::folder_writer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Generation kNow{1, 2};
const CheckpointId kCommit{kNow, 3};

class FolderWriterTest : public testing::Test {
 protected:
  FolderWriterTest() {
    folder_.OnGenerationFile(kNow, {});
    folder_.Begin(now_, {});
    for (uint32_t machine = 0; machine < 2; ++machine) {
      parts_.Hold(machine, {{kCommit, machine, "step-7"}});
    }
  }

  Persisted Done(uint32_t machine, const std::string& error = "") {
    return {kCommit, error, kCommit, {machine}};
  }
  // Whether the checkpoint was to get its final name since this was asked.
  bool TakesItsName() {
    bool does = false;
    for (const CoordinatorAction& action : parts_.outbox.Take()) {
      does |= std::holds_alternative<FinishPersisting>(action);
    }
    return does;
  }

  Time now_ = seconds(100);
  Parts parts_{2};
  MemoryCopies copies_{false, parts_.roster, parts_.outbox};
  FolderWriter folder_{
      {.folder = "/ckpt", .every = seconds(60)}, parts_.roster, copies_, parts_.outbox};
};

TEST_F(FolderWriterTest, GivesTheNameOnceEveryMachineHasWritten) {
  EXPECT_EQ(folder_.NextWake(true), now_ + seconds(60));
  EXPECT_EQ(folder_.NextWake(false), kNever);
  folder_.WriteNowAndThen(now_ + seconds(60));
  const auto sent = parts_.Sent<Persist>();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_THAT(sent[1].second.machines, ElementsAre(1U));
  EXPECT_EQ(folder_.writing(), "step-7");
  folder_.OnPersisted(0, Done(0));
  EXPECT_FALSE(TakesItsName());
  folder_.OnPersisted(1, Done(1));
  EXPECT_TRUE(TakesItsName());
  folder_.OnNamed(kCommit, "");
  EXPECT_EQ(folder_.in_folder(), kCommit);
  EXPECT_EQ(folder_.writing(), "");
}

TEST_F(FolderWriterTest, WritesThePartOfAMachineThatIsGoneWhereItsCopyIs) {
  parts_.Hold(0, {{kCommit, 0, "step-7"}, {kCommit, 1, "step-7"}});
  parts_.roster[1].lost = true;
  EXPECT_TRUE(folder_.WriteLast(now_, kNow));
  const auto sent = parts_.Sent<Persist>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].first, 0U);
  EXPECT_THAT(sent[0].second.machines, ElementsAre(0U, 1U));
}

TEST_F(FolderWriterTest, TriesThreeTimesAndSaysThenWhatIsUnwritten) {
  folder_.OnGranted(now_, {kCommit, 0, "step-7"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(folder_.WriteLast(now_, kNow)) << i;
    folder_.OnPersisted(1, Done(1, "no space left"));
  }
  EXPECT_FALSE(folder_.WriteLast(now_, kNow));
  EXPECT_EQ(folder_.unwritten(),
            "checkpoint step-7 in memory was not written to /ckpt: machine 1: no space left");
  folder_.Begin(now_, kCommit);
  EXPECT_THAT(folder_.unwritten(), IsEmpty());
}

TEST_F(FolderWriterTest, WaitsForWhatWasGrantedUntilMachinesHaveHadTheirTime) {
  const CheckpointId later{kNow, 4};
  folder_.OnGranted(now_, {later, 0, "step-8"});
  EXPECT_TRUE(folder_.WriteLast(now_, kNow));
  EXPECT_THAT(parts_.Sent<Persist>(), IsEmpty());
  EXPECT_TRUE(folder_.WriteLast(now_ + seconds(31), kNow));
  EXPECT_THAT(parts_.Sent<Persist>(), SizeIs(2)) << "the newest that is held";
}

TEST_F(FolderWriterTest, GivesUpOnAWriterThatLeftAndOnOneThatTakesTooLong) {
  EXPECT_TRUE(folder_.WriteLast(now_, kNow));
  EXPECT_EQ(folder_.NextWake(false), now_ + kPersistPatience);
  parts_.roster[1].leaving = true;
  folder_.CheckWriters(now_);
  EXPECT_EQ(folder_.writing(), "");
  parts_.roster[1].leaving = false;
  EXPECT_TRUE(folder_.WriteLast(now_, kNow));
  folder_.CheckWriters(now_ + kPersistPatience);
  EXPECT_EQ(folder_.writing(), "");
}

TEST_F(FolderWriterTest, AsksAMachineAgainThatConnectedAgain) {
  EXPECT_TRUE(folder_.WriteLast(now_, kNow));
  EXPECT_THAT(parts_.Sent<Persist>(), SizeIs(2));
  folder_.AskAgain(parts_.roster[1]);
  EXPECT_THAT(parts_.Sent<Persist>(), SizeIs(1));
  folder_.OnPersisted(1, Done(1));
  folder_.AskAgain(parts_.roster[1]);
  EXPECT_THAT(parts_.Sent<Persist>(), IsEmpty());
}

TEST_F(FolderWriterTest, WritesNothingWithoutAFolderOrBeforeAGenerationHasItsFile) {
  FolderWriter nowhere{{}, parts_.roster, copies_, parts_.outbox};
  EXPECT_FALSE(nowhere.WriteLast(now_, kNow));
  FolderWriter fresh{{.folder = "/ckpt"}, parts_.roster, copies_, parts_.outbox};
  EXPECT_FALSE(fresh.WriteLast(now_, kNow));
  EXPECT_THAT(fresh.unwritten(), HasSubstr("machine 0 was replaced"));
}

}  // namespace
}  // namespace lockstep::core::folder_writer_test
