#include "cli/ui/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli::view_test {
namespace {

constexpr Time kBegan = hours(1);
constexpr Time kBorn = kBegan + milliseconds(100);

ViewJob Job(int machines = 2, int processes = 2) {
  ViewJob view;
  view.job.metadata.name = "gpt";
  view.job.metadata.uid = "uid";
  view.job.spec.num_machines = machines;
  view.job.spec.processes_per_machine = processes;
  view.job.spec.command = {"python", "train.py"};
  view.where = "here";
  return view;
}

core::GangStatus Gang(int64_t step, int ranks = 4) {
  core::GangStatus gang;
  gang.attempt = 1;
  gang.coordinator = true;
  gang.phase = core::CoordinatorPhase::kRunning;
  gang.generation = {1, 1};
  for (uint32_t i = 0; i < 2; ++i) {
    core::GangStatus::MachineStatus& machine = gang.machines.emplace_back();
    machine.index = i;
    machine.attempt = 1;
    machine.state = core::GangMachineState::kRunning;
  }
  for (int i = 0; i < ranks; ++i) {
    core::RankProgress rank;
    rank.rank = static_cast<uint32_t>(i);
    rank.step = step;
    rank.total_steps = 1000;
    gang.progress.push_back(rank);
  }
  return gang;
}

core::GenerationRecord Begun(uint32_t n, Duration at) {
  core::GenerationRecord record;
  record.generation = {1, n};
  record.announced = at;
  record.spawned = at + milliseconds(3);
  return record;
}

core::GenerationRecord Killed(core::GenerationRecord record, Duration at, int64_t last_step) {
  record.died = at;
  record.stop_sent = at + milliseconds(1);
  record.all_stopped = record.ended = at + milliseconds(3);
  record.last_step = last_step;
  record.failure.cause = core::Cause::kProcessSignal;
  record.failure.message = "rank 3 on machine 1 was killed by SIGKILL";
  return record;
}

class ViewTest : public ::testing::Test {
 protected:
  // What a page that has seen version `after` is sent.
  OrderedJson Sent(uint64_t after, Time now = kBegan + seconds(60)) {
    return ParseOrderedJson(view_.Json(after, now));
  }
  void Update(const core::GangStatus& gang, Duration at) {
    history_.Update(gang, kBorn);
    view_.Update(gang, kBegan + at, kBorn);
  }

  History history_;
  View view_{Job(), &history_, kBegan};
};

TEST_F(ViewTest, BeforeAnyAnswerItSaysWhatWasAskedFor) {
  const OrderedJson view = Sent(0, kBegan + milliseconds(1500));
  EXPECT_EQ(view["format"], 1);
  EXPECT_EQ(view["now"], 1.5);
  EXPECT_TRUE(view["heard"].is_null());
  EXPECT_EQ(view["live"], true);
  EXPECT_EQ(view["job"]["name"], "gpt");
  EXPECT_EQ(view["job"]["command"], OrderedJson::parse(R"(["python","train.py"])"));
  EXPECT_TRUE(view["gang"].is_null());
  EXPECT_EQ(view["generations"]["items"].size(), 0u);
  EXPECT_FALSE(view.contains("exitCode"));
  EXPECT_FALSE(view.contains("logs"));
}

TEST_F(ViewTest, APageThatHasSeenAVersionIsSentOnlyWhatChangedSince) {
  Update(Gang(1), seconds(1));
  Update(Gang(2), seconds(2));
  const OrderedJson first = Sent(0);
  const uint64_t seen = view_.version();
  EXPECT_EQ(Sent(seen).size(), 5u) << Sent(seen);  // the members that are always there
  view_.AddEvent(kBegan + seconds(2), "a");
  EXPECT_GT(view_.version(), seen);
  const OrderedJson second = Sent(seen);
  EXPECT_EQ(second["events"],
            OrderedJson::parse(R"({"from":0,"dropped":0,"items":[{"t":2.0,"text":"a"}]})"));
  for (const char* part : {"job", "gang", "machines", "ranks", "series", "generations"}) {
    EXPECT_TRUE(first.contains(part)) << part;
    EXPECT_FALSE(second.contains(part)) << part;
  }
  const uint64_t then = view_.version();
  Update(Gang(3), seconds(3));
  const OrderedJson third = Sent(then);
  EXPECT_EQ(third["ranks"]["step"], OrderedJson::parse("[3,3,3,3]"));
  EXPECT_EQ(third["series"]["from"], 2);
  EXPECT_FALSE(third.contains("machines"));
  EXPECT_FALSE(third.contains("events"));
}

TEST_F(ViewTest, AVersionThatNeverWasGetsAll) {
  view_.AddEvent(kBegan, "a");
  EXPECT_TRUE(Sent(view_.version() + 5).contains("job"));
}

TEST_F(ViewTest, RanksHaveTheirStepTimeAndWaitByTheDifferenceOfTwoAnswers) {
  core::GangStatus gang = Gang(10);
  Update(gang, seconds(10));
  EXPECT_FALSE(Sent(0)["ranks"].contains("stepSeconds"));
  for (core::RankProgress& rank : gang.progress) {
    rank.step = 20;
    rank.waits = 10;
    rank.waited = rank.rank == 2 ? 0.1 : 1;
    rank.loss = 2.5;
  }
  Update(gang, seconds(12));
  const OrderedJson ranks = Sent(0)["ranks"];
  EXPECT_EQ(ranks["by"], "rank");
  EXPECT_EQ(ranks["totalSteps"], 1000);
  EXPECT_EQ(ranks["stepSeconds"], OrderedJson::parse("[0.2,0.2,0.2,0.2]"));
  EXPECT_EQ(ranks["waitSeconds"], OrderedJson::parse("[0.1,0.1,0.01,0.1]"));
  EXPECT_EQ(ranks["loss"], OrderedJson::parse("[2.5,2.5,2.5,2.5]"));
  EXPECT_FALSE(ranks.contains("tokensPerSecond"));
}

TEST_F(ViewTest, AGangOfManyRanksIsShownByMachine) {
  core::GangStatus gang = Gang(10);
  gang.by_machine = {.machine = {0, 1},
                     .ranks = {2, 2},
                     .step = {10, 9},
                     .step_most = {10, 12},
                     .loss = {1, 2},
                     .loss_most = {1.5, 2.5},
                     .tokens_per_second = {100, 200},
                     .waits = {10, 10},
                     .waited = {1, 1},
                     .waited_most = {2, 2}};
  Update(gang, seconds(10));
  gang.by_machine.step = {20, 19};
  gang.by_machine.waits = {20, 20};
  gang.by_machine.waited = {1.5, 1.25};
  gang.by_machine.waited_most = {4, 3};
  Update(gang, seconds(12));
  const OrderedJson ranks = Sent(0)["ranks"];
  EXPECT_EQ(ranks["by"], "machine");
  EXPECT_EQ(ranks["machine"], OrderedJson::parse("[0,1]"));
  EXPECT_EQ(ranks["totalSteps"], 1000);
  EXPECT_EQ(ranks["stepMost"], OrderedJson::parse("[10,12]"));
  EXPECT_EQ(ranks["stepSeconds"], OrderedJson::parse("[0.2,0.2]"));
  EXPECT_EQ(ranks["waitSeconds"], OrderedJson::parse("[0.05,0.025]"));
  EXPECT_EQ(ranks["waitSecondsMost"], OrderedJson::parse("[0.2,0.1]"));
  const OrderedJson series = Sent(0)["series"];
  EXPECT_EQ(series["step"], OrderedJson::parse("[9,19]"));
  EXPECT_EQ(series["tokensPerSecond"], OrderedJson::parse("[300.0,300.0]"));
}

TEST_F(ViewTest, ALossThatIsNoNumberIsNull) {
  core::GangStatus gang = Gang(10);
  gang.progress[1].loss = 1.5;
  gang.progress[2].loss = std::numeric_limits<double>::infinity();
  Update(gang, seconds(10));
  EXPECT_EQ(Sent(0)["ranks"]["loss"], OrderedJson::parse("[null,1.5,null,null]"));
}

TEST_F(ViewTest, ACurveHasNoPointUntilAllRanksReport) {
  Update(Gang(10, 3), seconds(10));
  EXPECT_TRUE(Sent(0)["series"]["t"].empty());
  Update(Gang(11), seconds(11));
  EXPECT_EQ(Sent(0)["series"]["step"], OrderedJson::parse("[11]"));
  EXPECT_EQ(Sent(0)["series"]["t"], OrderedJson::parse("[11.0]"));
}

TEST_F(ViewTest, ACurveOfPrintedStepsNeedsNoRankThatPrintsNothing) {
  core::GangStatus gang = Gang(10, 1);
  gang.progress[0].source = core::StepSource::kOutput;
  Update(gang, seconds(10));
  EXPECT_EQ(Sent(0)["series"]["step"], OrderedJson::parse("[10]"));
}

TEST_F(ViewTest, ARestartIsCutIntoItsPartsOnTheClockOfTheRun) {
  core::GangStatus gang = Gang(10);
  gang.history = {Killed(Begun(1, seconds(1)), seconds(5), 40)};
  Update(gang, seconds(6));
  OrderedJson first = Sent(0)["generations"]["items"][0];
  EXPECT_EQ(first["announced"], 1.1);
  EXPECT_EQ(first["respawn"]["detect"], 0.001);
  EXPECT_TRUE(first["respawn"]["spawn"].is_null());
  const uint64_t seen = view_.version();
  core::GenerationRecord next = Begun(2, seconds(7));
  next.first_step = seconds(10);
  next.resumed_at = 31;
  next.last_step = 50;
  gang.history.push_back(next);
  Update(gang, seconds(20));
  const OrderedJson sent = Sent(seen, kBorn + seconds(29))["generations"];
  EXPECT_EQ(sent["from"], 0);
  const OrderedJson respawn = sent["items"][0]["respawn"];
  EXPECT_NEAR(respawn["wait"], 1.997, 1e-9);
  EXPECT_NEAR(respawn["spawn"], 0.003, 1e-9);
  EXPECT_NEAR(respawn["firstStep"], 2.997, 1e-9);
  EXPECT_EQ(respawn["redoneSteps"], 10);
  EXPECT_NEAR(respawn["redone"], 9.0, 1e-9);  // 9 of the 19 steps after its first one, of 19 s
  EXPECT_TRUE(sent["items"][1]["respawn"].is_null());
}

TEST_F(ViewTest, TheStatusOfTheJobIsSentWhenItChanges) {
  const uint64_t seen = view_.version();
  core::JobStatus status;
  status.state = core::JobState::kRunning;
  status.reason = "all ranks run";
  view_.SetStatus(status);
  EXPECT_EQ(Sent(seen)["status"]["state"], "Running");
  const uint64_t then = view_.version();
  view_.SetStatus(status);
  EXPECT_EQ(view_.version(), then);
}

TEST_F(ViewTest, LinesChangeNoVersionAndAreAskedForByThemselves) {
  const uint64_t seen = view_.version();
  view_.AddLine(kBegan + seconds(3), 2, StdStream::kErr, "</script><b>");
  EXPECT_EQ(view_.version(), seen);
  const OrderedJson log = ParseOrderedJson(view_.LogJson(2, 0));
  EXPECT_EQ(log["lines"][0]["m"], "</script><b>");
  EXPECT_EQ(log["lines"][0]["t"], 3.0);
}

TEST_F(ViewTest, AfterTheEndAllIsThereAndTimeStandsStill) {
  Update(Gang(1), seconds(1));
  view_.AddLine(kBegan + seconds(3), 2, StdStream::kOut, "done");
  view_.End(kBegan + seconds(4), 137, R"({"0":{"svg":""}})");
  const OrderedJson view = Sent(0, kBegan + hours(1));
  EXPECT_EQ(view["live"], false);
  EXPECT_EQ(view["now"], 4.0);
  EXPECT_EQ(view["exitCode"], 137);
  EXPECT_EQ(view["logs"]["2"][0]["m"], "done");
  EXPECT_TRUE(view["topology"].contains("0"));
}

TEST_F(ViewTest, EventsAndGenerationsKeepTheirNewestAndSayHowManyAreGone) {
  const size_t told = 2 * View::kMostEvents + 10;
  const std::string text(2 * View::kMostOfEvent, 'x');
  for (size_t i = 0; i < told; ++i) view_.AddEvent(kBegan, i + 1 == told ? "last" : text);
  const OrderedJson events = Sent(0)["events"];
  EXPECT_LT(events["items"].size(), View::kMostEvents);
  EXPECT_EQ(events["items"].back()["text"], "last");
  EXPECT_LE(events["items"].front()["text"].get<std::string>().size(), View::kMostOfEvent);
  EXPECT_EQ(events["dropped"].get<size_t>() + events["items"].size(), told);
  const auto all = static_cast<uint32_t>(View::kMostGenerations + 10);
  core::GangStatus gang = Gang(1);
  for (uint32_t n = 1; n <= all; ++n) {
    gang.history = {Killed(Begun(n, seconds(n)), seconds(n), 1)};
    history_.Update(gang, kBorn);
  }
  view_.LearnHistory();
  const OrderedJson generations = Sent(0)["generations"];
  EXPECT_EQ(generations["dropped"].get<size_t>() + generations["items"].size(), all);
  EXPECT_LE(generations["items"].size(), View::kMostGenerations);
  EXPECT_EQ(generations["items"].back()["generation"], "1-" + std::to_string(all));
}

TEST_F(ViewTest, TheStragglerIsNamedWithItsReason) {
  core::GangStatus gang = Gang(10);
  gang.straggler = core::Straggler{.machine = 1, .cost = 0.25, .steps = 30, .because = "hot"};
  Update(gang, seconds(10));
  EXPECT_EQ(Sent(0)["gang"]["straggler"],
            OrderedJson::parse(R"({"machine":1,"cost":0.25,"steps":30,"because":"hot"})"));
}

core::JobProgress Stored(int64_t step) {
  core::JobProgress progress;
  progress.step = step;
  progress.total_steps = 1000;
  progress.metrics = {{.name = "loss", .value = "2.5"}, {.name = "mfu", .value = "much"}};
  return progress;
}

TEST_F(ViewTest, TheStatusHasMachinesAndProgressWhileMachine0IsSilent) {
  view_.LearnMachines(R"({"state":["Running","Lost"]})");
  view_.LearnProgress(Stored(5), kBegan + seconds(10));
  OrderedJson view = Sent(0);
  EXPECT_EQ(view["machines"]["state"], OrderedJson({"Running", "Lost"}));
  EXPECT_EQ(view["series"]["step"], OrderedJson({5}));
  EXPECT_EQ(view["series"]["loss"], OrderedJson({2.5}));
  EXPECT_FALSE(view["series"].contains("mfu"));  // it is no number
  EXPECT_TRUE(view["heard"].is_null());

  Update(Gang(7), seconds(20));
  view_.LearnProgress(Stored(6), kBegan + seconds(21));
  view = Sent(0);
  EXPECT_EQ(view["machines"]["state"], OrderedJson({"Running", "Running"}));
  EXPECT_EQ(view["series"]["step"], OrderedJson({5, 7}));
  EXPECT_EQ(view["heard"], 20.0);
  const uint64_t known = view_.version();
  view_.Hear(kBegan + seconds(25));
  EXPECT_GT(view_.version(), known);
  EXPECT_EQ(Sent(known)["heard"], 25.0);

  view_.LoseGang();
  view = Sent(known);
  EXPECT_TRUE(view["gang"].is_null() && view["heard"].is_null());
  EXPECT_EQ(view["machines"]["state"], OrderedJson({"Running", "Lost"}));
  EXPECT_EQ(view["ranks"], OrderedJson::object());
}

TEST_F(ViewTest, NotesAndSilenceComeAndGo) {
  const uint64_t first = view_.version();
  view_.SetNotes({});
  EXPECT_EQ(view_.version(), first);
  view_.SetNotes({"pods: list is missing"});
  view_.SetSilent(kBegan + seconds(3));
  EXPECT_EQ(Sent(first)["notes"], OrderedJson({"pods: list is missing"}));
  EXPECT_EQ(Sent(first)["heard"], 3.0);
  const uint64_t second = view_.version();
  view_.SetNotes({});
  view_.SetSilent(std::nullopt);
  EXPECT_EQ(Sent(second)["notes"], OrderedJson::array());
  EXPECT_TRUE(Sent(second)["heard"].is_null());
}

TEST_F(ViewTest, APlaceInAQueueComesAndGoes) {
  const uint64_t first = view_.version();
  view_.SetQueue("null");
  EXPECT_EQ(view_.version(), first);
  view_.SetQueue(R"({"name":"lq","place":2})");
  EXPECT_EQ(Sent(first)["queue"]["place"], 2);
  const uint64_t second = view_.version();
  EXPECT_FALSE(Sent(second).contains("queue"));
  view_.SetQueue("null");
  EXPECT_TRUE(Sent(second)["queue"].is_null());
}

TEST(ViewVersionTest, AViewInPlaceOfAnotherIsSentWhole) {
  History history;
  View view(Job(), &history, kBegan, {}, 500);
  EXPECT_TRUE(ParseOrderedJson(view.Json(499, kBegan)).contains("job"));
}

}  // namespace
}  // namespace lockstep::cli::view_test
