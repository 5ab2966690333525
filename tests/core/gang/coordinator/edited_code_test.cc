#include "core/gang/coordinator/edited_code.h"

#include <gtest/gtest.h>

namespace lockstep::core::edited_code_test {
namespace {

using Code = DesiredState::Code;

Failure Exit() {
  Failure failure;
  failure.cause = Cause::kProcessExit;
  return failure;
}

TEST(EditedCodeTest, EditCausesFailuresBeforeItsFirstStepWhileAUserEdits) {
  EditedCode code;
  EXPECT_FALSE(code.Caused(Exit(), "")) << "the job has no code of its own";
  code.Take(Code{"aaa", false});
  EXPECT_FALSE(code.Caused(Exit(), "aaa")) << "nobody edits it";
  code.Take(Code{"aaa", true});
  EXPECT_TRUE(code.Caused(Exit(), "aaa"));
  EXPECT_FALSE(code.Caused(Exit(), "old")) << "the generation had other code";
  Failure lost;
  lost.cause = Cause::kMachineLost;
  EXPECT_FALSE(code.Caused(lost, "aaa"));
  code.OnFirstStep("old");
  EXPECT_TRUE(code.Caused(Exit(), "aaa"));
  code.OnFirstStep("aaa");
  EXPECT_FALSE(code.Caused(Exit(), "aaa"));
  code.Take(Code{"bbb", true});
  EXPECT_TRUE(code.Caused(Exit(), "bbb")) << "no generation has done a step with the new code";
}

TEST(EditedCodeTest, HeldGangWaitsForOtherCodeOrForTheUserToLeave) {
  EditedCode code;
  EXPECT_FALSE(code.Take(Code{"aaa", true})) << "nothing waited";
  code.Hold("rank 0 exited with code 1");
  EXPECT_FALSE(code.Take(Code{"aaa", true})) << "the same code is as broken as before";
  EXPECT_TRUE(code.holds());
  EXPECT_TRUE(code.Take(Code{"bbb", true}));
  EXPECT_FALSE(code.holds());
  EXPECT_EQ(code.digest(), "bbb");
  code.Hold("rank 0 exited with code 1");
  EXPECT_TRUE(code.Take(Code{"bbb", false})) << "nobody edits any more";
  code.Hold("rank 0 exited with code 1");
  EXPECT_TRUE(code.Take(std::nullopt));
  EXPECT_EQ(code.digest(), "");
}

}  // namespace
}  // namespace lockstep::core::edited_code_test
