#include "cli/job/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/parse.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

PlanView MakeView(int machines, int processes) {
  PlanView view;
  view.job.metadata.name = "gpt";
  view.job.spec.num_machines = machines;
  view.job.spec.processes_per_machine = processes;
  view.job.spec.command = {"python", "train.py", "two words"};
  view.plan = core::MakePlan(view.job);
  view.recommendation = core::Recommend(view.job, 2, 0);
  view.computer = "2 cores, no GPU";
  topology::BindingPlan binding;
  binding.ranks.resize(static_cast<size_t>(processes));
  binding.ranks[0].cpus = {0, 1, 2};
  binding.ranks[0].numa_node = 0;
  view.bindings.assign(static_cast<size_t>(machines), binding);
  return view;
}

TEST(PlanTextTest, TheTableShowsEveryRankAndTheEqualCommands) {
  std::string text = PlanTable(MakeView(2, 2));
  EXPECT_THAT(text, HasSubstr("2 machines x 2 processes = world size 4"));
  EXPECT_THAT(text, HasSubstr("1        3     1      RANK=3"));
  EXPECT_THAT(text, HasSubstr("CPUs 0-2, NUMA node 0"));
  EXPECT_THAT(text, HasSubstr("torchrun"));
  EXPECT_THAT(text, Not(HasSubstr("accelerate launch"))) << "for several processes on CPUs";
  EXPECT_THAT(text, HasSubstr("'two words'"));
  EXPECT_THAT(text, HasSubstr("hint: 4 processes share 2 cores"));
}

TEST(PlanTextTest, ALargeJobIsCutInTheTableButWholeInJson) {
  PlanView view = MakeView(20, 1);
  std::string text = PlanTable(view);
  EXPECT_THAT(text, HasSubstr("and 4 machines more"));
  EXPECT_THAT(text, Not(HasSubstr("RANK=16 ")));
  EXPECT_EQ(PlanJson(view)["machines"].size(), 20u);
}

TEST(PlanTextTest, ShowsTheMeshOfATrainerWhoseRanksShareTheLayers) {
  PlanView view = MakeView(2, 2);
  view.job.spec.command.clear();
  view.job.spec.trainer.emplace();
  EXPECT_THAT(PlanTable(view), Not(HasSubstr("Mesh")));
  EXPECT_FALSE(PlanJson(view).contains("mesh"));
  view.job.spec.trainer->parallel.pipeline = 2;
  EXPECT_THAT(PlanTable(view),
              HasSubstr("Mesh: 2 pipelines of 2 stages: rank = pipeline x 2 + stage\n"));
  EXPECT_EQ(PlanJson(view)["mesh"], OrderedJson({{"pipelines", 2}, {"stages", 2}, {"tensor", 1}}));
  view.job.spec.trainer->parallel = {1, 4, 4};
  EXPECT_THAT(PlanTable(view),
              HasSubstr("Mesh: 1 pipelines of 1 stages of 4 ranks: rank = (pipeline x 1 + stage) x "
                        "4 + part\n"));
  EXPECT_EQ(PlanJson(view)["mesh"], OrderedJson({{"pipelines", 1}, {"stages", 1}, {"tensor", 4}}));
}

TEST(PlanTextTest, ShowsTheObjectStoreOfTheCheckpoints) {
  PlanView view = MakeView(2, 2);
  EXPECT_THAT(PlanTable(view), Not(HasSubstr("Checkpoints")));
  core::Checkpoint& checkpoint = view.job.spec.checkpoint;
  checkpoint.url = "s3://bucket/gpt";
  EXPECT_THAT(
      PlanTable(view),
      HasSubstr("Checkpoints: from memory to s3://bucket/gpt every 10m; the newest 3 stay\n"));
  checkpoint.persist_every = Duration::zero();
  checkpoint.keep_every = hours(24);
  EXPECT_THAT(PlanTable(view), HasSubstr("s3://bucket/gpt at the job's end; the newest 3 stay, and "
                                         "of older ones one in each 24h\n"));
  checkpoint.upload_bandwidth = *Quantity::Parse("200Mi");
  EXPECT_THAT(PlanTable(view),
              HasSubstr("in each 24h; a machine uploads at most 200Mi bytes a second\n"));
}

TEST(PlanTextTest, ShowsWhatTensorFlowIsTold) {
  PlanView view = MakeView(2, 2);
  view.job.spec.framework = core::Framework::kTensorFlow;
  view.plan = core::MakePlan(view.job);
  EXPECT_THAT(PlanTable(view),
              HasSubstr(R"(TF_CONFIG={"cluster": {"worker": [<IP:PORT of each rank>]}, "task": )"
                        R"({"type": "worker", "index": <rank>}})"));
}

TEST(PlanTextTest, JsonNamesWhatEachProcessGets) {
  auto json = PlanJson(MakeView(2, 2));
  EXPECT_EQ(json["worldSize"], 4);
  const auto& process = json["machines"][1]["processes"][0];
  EXPECT_EQ(process["rank"], 2);
  EXPECT_EQ(process["environment"]["RANK"], "2");
  EXPECT_EQ(process["binding"]["cpus"], "0-2");
  EXPECT_EQ(json["rules"][0]["action"], "Fail");
}

TEST(PlanTextTest, YamlKeepsTextAsText) {
  std::string yaml = ToYaml({{"a", "1"}, {"b", 2}, {"c", {true, nullptr, "x: y"}}});
  EXPECT_EQ(yaml, "a: \"1\"\nb: 2\nc:\n- true\n- null\n- \"x: y\"\n");
}

TEST(PlanTextTest, AHintSaysAllOfAShapeInOneLine) {
  const std::string hint = HintText(MakeView(2, 2).recommendation);
  EXPECT_THAT(hint, AllOf(StartsWith("hint: 4 processes share 2 cores"),
                          HasSubstr(". And one machine with 2 processes does the same"),
                          Not(HasSubstr("\n"))));
  EXPECT_EQ(HintText(MakeView(1, 2).recommendation), "");
}

TEST(PlanTextTest, TheRecommendationNamesTheFlags) {
  EXPECT_THAT(RecommendationText(MakeView(2, 2)), HasSubstr("-m 1 -p 2"));
}

TEST(DescribeTest, ARuleIsToldByWhatItMatches) {
  EXPECT_EQ(Describe({{2, 126}, {}, "", core::FailureAction::kFail}), "exit code 2, 126");
  EXPECT_EQ(Describe({{}, {7}, "ECC", core::FailureAction::kReplaceMachine}),
            "SIGBUS and stderr matches ECC");
  EXPECT_EQ(Describe({}), "any failure");
}

}  // namespace
}  // namespace lockstep::cli
