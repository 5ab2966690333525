#include "core/status/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "core/text/problem.h"
#include "core/text/text.h"

namespace lockstep::core::status_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WallTime At(int64_t milli) { return WallTime(milliseconds(milli)); }

Condition Running(Condition::Value value, const std::string& reason) {
  return {.type = "Running", .status = value, .reason = reason, .message = "ranks run"};
}

// Every field set.
JobStatus Whole() {
  JobStatus status;
  status.state = JobState::kRestarting;
  status.reason = "machine 2 is lost";
  status.ready = "3/4";
  status.processes = 16;
  status.progress_text = "1200/5000 24% eta 1h10m";
  status.observed_generation = 3;
  SetCondition(status.conditions, Running(Condition::Value::kFalse, "MachineLost"), At(90'000));
  status.conditions[0].observed_generation = 3;
  status.epoch = 5;
  status.created_epoch = 4;
  status.attempts.Reset(4, 1);
  status.attempts.Set(2, 5);
  status.agent = {.image = "lockstep-agent@sha256:12", .plan_version = 1, .key_version = 2};
  status.verdict = JobVerdict{.generation = {2, 5}, .exit_code = 70, .cause = Cause::kProcessExit};
  status.counters = {.generations = 7,
                     .process_failures = 3,
                     .process_failures_base = 2,
                     .out_of_memory = 2,
                     .out_of_memory_base = 1,
                     .replacements = 9,
                     .replacements_base = 8,
                     .leases_expired = 4,
                     .stops = 6,
                     .alone = 7};
  status.machine_lost_after = seconds(15);
  status.gang_generation = {2, 5};
  status.replicas = 4;
  status.selector = "lockstep.dev/job=gpt";
  status.machines = {.desired = 4,
                     .ready = 3,
                     .by_state = {{MachineState::kRunning, 3}, {MachineState::kPending, 1}},
                     .spares = 1};
  status.machine_statuses = {{.index = 2,
                              .pod = "gpt-2-r5",
                              .node = "a",
                              .state = MachineState::kPending,
                              .replacements = 1,
                              .binding = "Node",
                              .usage = Usage{1500, 2048, 10, 20}}};
  status.restarts = {.total = 4, .application = 1, .infrastructure = 2, .stopped = 1};
  status.last_failure = LastFailure{.time = At(1'500),
                                    .epoch = 4,
                                    .generation = {2, 4},
                                    .node = "b",
                                    .failure = {.cause = Cause::kProcessSignal,
                                                .machine = 0,
                                                .rank = 0,
                                                .exit_code = -1,
                                                .signal = 9,
                                                .message = "rank 0 died",
                                                .stderr_tail = "line\nline"}};
  status.history = {{.generation = {2, 4},
                     .cause = Cause::kMachineLost,
                     .machine = 2,
                     .detected = At(1'500),
                     .respawned = At(1'512),
                     .first_step = At(2'000),
                     .lost_steps = 0,
                     .reason = "restarted on request of alice",
                     .code = "5f1e"}};
  status.ledger =
      Ledger{.since = At(0),
             .through = At(3'000),
             .elapsed_milliseconds = 3'000,
             .sums = {.activities = {{Activity::kProductive, 9'000}, {Activity::kStartUp, 3'000}},
                      .lost_to = {{Cause::kMachineLost, 3'000}}},
             .goodput = "75.0%",
             .furthest_step = 1200,
             .settled = {2, 4},
             .open = Ledger::Open{.since = At(1'500),
                                  .cause = Cause::kMachineLost,
                                  .generation = {2, 5},
                                  .last_step = 1200,
                                  .nodes_milliseconds = 2,
                                  .sums = {.activities = {{Activity::kStartUp, 3'000}},
                                           .lost_to = {{Cause::kMachineLost, 3'000}}}}};
  status.preflight =
      PreflightStatus{PreflightState::kPassed, "link 5 GB/s", {{1, 2, "link 0.1 GB/s", true}}};
  status.prestart = PrestartStatus{.ready = 12,
                                   .reason = "machine 3: bash is not Python",
                                   .warm = 5,
                                   .cold = 2,
                                   .saved_milliseconds = 20'000,
                                   .counted = {2, 5}};
  status.progress = JobProgress{.step = 1200,
                                .total_steps = 5000,
                                .percent = 24,
                                .eta_seconds = 4200,
                                .metrics = {{"loss", "2.51"}},
                                .source = "Output",
                                .last_updated = At(3'000)};
  status.queue = QueueStatus{
      .workload = "trainingjob-gpt-1b9d6bcd", .cluster_queue = "gpus", .flavors = {{"cpu", "a3"}}};
  status.elastic =
      ElasticStatus{.members = *Members::Parse("0-5,7"),
                    .witnesses = *Members::Parse("0-5"),
                    .asked = *Members::Parse("6"),
                    .silent = *MachineAttempts::FromRanges({{.attempt = 3, .machines = "6"}}),
                    .without_quota = *Members::Parse("6"),
                    .since = At(1'000),
                    .reason = "machine 6 found no node"};
  status.pod_group = {.name = "gpt-e1", .gang = GangScheduler::kCoscheduling};
  status.restart = RestartStatus{.id = "a",
                                 .reason = "new rate",
                                 .requested_by = "alice",
                                 .at_commit = true,
                                 .attempt = 1,
                                 .asked = WallTime(hours(1)),
                                 .done = WallTime(hours(2))};
  status.code = CodeStatus{.digest = "5f1e",
                           .files = 2,
                           .by = "alice",
                           .since = WallTime(hours(1)),
                           .generation = {1, 2}};
  status.suspect_nodes = {{.node = "node-a",
                           .evidence = "Lost",
                           .count = 2,
                           .last = WallTime(hours(1)),
                           .message = "its agent was killed"}};
  status.timings = {.created = At(0),
                    .scheduled = At(1'000),
                    .started = At(1'001),
                    .first_step = At(1'002),
                    .finished = At(9'000)};
  return status;
}

// Everything at its limit, in text that doubles in JSON.
JobStatus Huge() {
  const std::string text(2000, '"');
  JobStatus status = Whole();
  status.reason = status.ready = status.progress_text = status.selector = text;
  status.conditions.clear();
  for (int i = 0; i < 30; ++i) {
    const std::string type = "Type" + std::to_string(i);
    SetCondition(status.conditions, {.type = type, .reason = text, .message = text}, At(0));
  }
  status.machine_statuses.clear();
  for (int i = 0; i < MachineAttempts::kMost; ++i) {
    status.attempts.Set(i, i % 2 == 0 ? 1 : 2);
    status.machine_statuses.push_back({.index = i, .pod = text, .node = text, .binding = text});
  }
  status.last_failure->node = status.last_failure->failure.message = text;
  status.last_failure->failure.stderr_tail = text;
  status.history.resize(50, status.history[0]);
  status.progress->metrics.resize(50, {text, text});
  return status;
}

TEST(Status, ReadsBackEqual) {
  const JobStatus status = Whole();
  Result<JobStatus> again = ParseJobStatus(ToJson(status));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, status);
  EXPECT_EQ(ToJson(*again), ToJson(status));
}

TEST(Status, IsTheDocumentThatIsDescribed) {
  JobStatus status = Whole();
  EXPECT_EQ(
      ToJson(status),
      R"({"state":"Restarting","reason":"machine 2 is lost","ready":"3/4",)"
      R"("processes":16,"progressText":"1200/5000 24% eta 1h10m","observedGeneration":3,)"
      R"("conditions":[{"type":"Running","status":"False","reason":"MachineLost",)"
      R"("message":"ranks run","observedGeneration":3,"lastTransitionTime":"1970-01-01T00:01:30Z"}],)"
      R"("epoch":5,"createdEpoch":4,"attempts":[{"attempt":1,"machines":"0-1,3"},)"
      R"({"attempt":5,"machines":"2"}],)"
      R"("agent":{"image":"lockstep-agent@sha256:12","planVersion":1,"keyVersion":2},)"
      R"("verdict":{"generation":"2-5","exitCode":70,"cause":"ProcessExit"},)"
      R"("counters":{"generations":7,"processFailures":3,"processFailuresBase":2,)"
      R"("outOfMemory":2,"outOfMemoryBase":1,"replacements":9,"replacementsBase":8,)"
      R"("leasesExpired":4,"stops":6,"alone":7},"machineLostAfter":"15s","gangGeneration":"2-5",)"
      R"("replicas":4,"selector":"lockstep.dev/job=gpt",)"
      R"("machines":{"desired":4,"ready":3,"byState":{"Pending":1,"Running":3},"spares":1},)"
      R"("machineStatuses":[{"index":2,"pod":"gpt-2-r5","node":"a","state":"Pending",)"
      R"("replacements":1,"binding":"Node","usage":{"cpuMillicores":1500,"memoryBytes":2048,)"
      R"("receivedBytesPerSecond":10,"sentBytesPerSecond":20}}],)"
      R"("restarts":{"total":4,"application":1,"infrastructure":2,"stopped":1},)"
      R"("lastFailure":{"time":"1970-01-01T00:00:01.500000Z","epoch":4,"generation":"2-4",)"
      R"("node":"b","cause":"ProcessSignal","machine":0,"rank":0,"signal":9,)"
      R"("message":"rank 0 died","stderr":"line\nline"},)"
      R"("history":[{"generation":"2-4","cause":"MachineLost","machine":2,)"
      R"("detected":"1970-01-01T00:00:01.500000Z","respawned":"1970-01-01T00:00:01.512000Z",)"
      R"("firstStep":"1970-01-01T00:00:02Z","lostSteps":0,)"
      R"("reason":"restarted on request of alice","code":"5f1e"}],)"
      R"("ledger":{"since":"1970-01-01T00:00:00Z","through":"1970-01-01T00:00:03Z",)"
      R"("elapsedMilliseconds":3000,"machineMilliseconds":{"Productive":9000,"StartUp":3000},)"
      R"("lostTo":{"MachineLost":3000},"goodput":"75.0%","furthestStep":1200,"settled":"2-4",)"
      R"("open":{"since":"1970-01-01T00:00:01.500000Z","cause":"MachineLost","generation":"2-5",)"
      R"("lastStep":1200,"nodesMilliseconds":2,"machineMilliseconds":{"StartUp":3000},)"
      R"("lostTo":{"MachineLost":3000}}},)"
      R"("prestart":{"ready":12,"reason":"machine 3: bash is not Python","warm":5,"cold":2,)"
      R"("savedMilliseconds":20000,"counted":"2-5"},)"
      R"("preflight":{"state":"Passed","typical":"link 5 GB/s","slow":[{"machine":1,"attempt":2,)"
      R"("because":"link 0.1 GB/s","replaced":true}]},)"
      R"("progress":{"step":1200,"totalSteps":5000,"percent":24,"etaSeconds":4200,)"
      R"("metrics":[{"name":"loss","value":"2.51"}],"source":"Output",)"
      R"("lastUpdated":"1970-01-01T00:00:03Z"},)"
      R"("queue":{"workload":"trainingjob-gpt-1b9d6bcd","clusterQueue":"gpus",)"
      R"("flavors":{"cpu":"a3"}},)"
      R"("elastic":{"members":"0-5,7","witnesses":"0-5","asked":"6","silent":[{"attempt":3,"machines":"6"}],)"
      R"("withoutQuota":"6","since":"1970-01-01T00:00:01Z",)"
      R"("reason":"machine 6 found no node"},)"
      R"("podGroup":{"name":"gpt-e1","gang":"Coscheduling"},)"
      R"("restart":{"id":"a","reason":"new rate","requestedBy":"alice","atCommit":true,)"
      R"("attempt":1,"asked":"1970-01-01T01:00:00Z","done":"1970-01-01T02:00:00Z"},)"
      R"("code":{"digest":"5f1e","files":2,"by":"alice","since":"1970-01-01T01:00:00Z",)"
      R"("generation":"1-2"},)"
      R"("suspectNodes":[{"node":"node-a","evidence":"Lost","count":2,)"
      R"("last":"1970-01-01T01:00:00Z","message":"its agent was killed"}],)"
      R"("timings":{"created":"1970-01-01T00:00:00Z","scheduled":"1970-01-01T00:00:01Z",)"
      R"("started":"1970-01-01T00:00:01.001000Z","firstStep":"1970-01-01T00:00:01.002000Z",)"
      R"("finished":"1970-01-01T00:00:09Z"}})");
}

// The paths of all values: "status.machineStatuses[].pod".
void Paths(const Node& node, const std::string& path, std::set<std::string>& paths) {
  if (node.IsScalar()) paths.insert(path);
  for (const NodeMember& member : node.members()) {
    Paths(member.value, path + "." + member.key, paths);
  }
  for (const Node& item : node.items()) Paths(item, path + "[]", paths);
}

void SchemaPaths(const Node& schema, const std::string& path, std::set<std::string>& paths) {
  const Node* fields = schema.Find("properties");
  const Node* items = schema.Find("items");
  if (items != nullptr) return SchemaPaths(*items, path + "[]", paths);
  if (fields == nullptr) {
    paths.insert(path);
    return;
  }
  for (const NodeMember& field : fields->members()) {
    SchemaPaths(field.value, path + "." + field.key, paths);
  }
}

TEST(Status, HasTheFieldsThatTheApiServerKeeps) {
  std::ifstream file("crds/lockstep.dev_trainingjobs.yaml");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Document crd = ReadYaml(text);
  ASSERT_TRUE(crd.root) << Format(crd.problems, "the CRD");
  const Node& version = crd.root->Walk({"spec", "versions"})->items()[0];
  const Node* schema = version.Walk({"schema", "openAPIV3Schema", "properties", "status"});
  ASSERT_NE(schema, nullptr);
  std::set<std::string> kept;
  SchemaPaths(*schema, "status", kept);
  // A map's names are its own.
  for (const char* map : {"status.machines.byState", "status.ledger.machineMilliseconds",
                          "status.ledger.lostTo", "status.ledger.open.machineMilliseconds",
                          "status.ledger.open.lostTo", "status.queue.flavors"}) {
    EXPECT_EQ(kept.erase(map), 1u) << map;
  }
  // What older operators wrote is read, and not written again.
  EXPECT_EQ(kept.erase("status.generation"), 1u);

  JobStatus status = Whole();
  status.machines.by_state.clear();
  status.ledger->sums = status.ledger->open->sums = {};
  status.queue->flavors.clear();
  status.last_failure->failure.exit_code = 1;
  status.last_failure->failure.step = 7;
  std::set<std::string> written;
  Paths(ToNode(status), "status", written);
  EXPECT_EQ(written, kept);
}

TEST(Status, OfNothingSaysItsCountsAndNoMore) {
  EXPECT_EQ(ToJson(JobStatus()),
            R"({"state":"Pending","epoch":0,"replicas":0,"machines":{"desired":0,"ready":0},)"
            R"("restarts":{"total":0,"application":0,"infrastructure":0,"stopped":0}})");
}

TEST(Status, ThatIsAbsentIsAStatusOfNothing) {
  const Node null;
  EXPECT_EQ(*ReadJobStatus(nullptr), JobStatus());
  EXPECT_EQ(*ReadJobStatus(&null), JobStatus());
  EXPECT_EQ(*ParseJobStatus("{}"), JobStatus());
}

TEST(Status, OfANewerOperatorIsReadForWhatIsKnown) {
  Result<JobStatus> status = ParseJobStatus(
      R"({"state":"Running","moons":[1,2],"epoch":null,"machines":{"desired":4,"spare":1}})");
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->state, JobState::kRunning);
  EXPECT_EQ(status->machines.desired, 4);
}

TEST(Status, OfAnOlderOperatorKeepsTheGenerationOfItsGang) {
  EXPECT_EQ(ParseJobStatus(R"({"generation":"2-5"})")->gang_generation, (Generation{2, 5}));
  EXPECT_EQ(ParseJobStatus(R"({"generation":"2-5","gangGeneration":"3-1"})")->gang_generation,
            (Generation{3, 1}));
}

TEST(Status, IsReadInsideItsJob) {
  Document document = ReadJson(R"({"kind":"TrainingJob","status":{"epoch":7}})");
  ASSERT_TRUE(document.root);
  EXPECT_EQ(ReadJobStatus(document.root->Find("status"))->epoch, 7u);
}

struct WrongCase {
  const char* json;
  const char* message;
};

TEST(Status, SaysWhichFieldIsWrong) {
  const WrongCase cases[] = {
      {"", "status: "},
      {"[]", "status: must be an object (found a list)"},
      {R"({"state":7})", "status.state: must be Pending, "},
      {R"({"state":"Flying"})", "status.state: must be Pending, "},
      {R"({"epoch":"5"})",
       "status.epoch: must be a whole number; write it without quotes (found the text \"5\")"},
      {R"({"epoch":-1})", "status.epoch: must lie between 0 and 4294967295 (found the number -1)"},
      {R"({"epoch":4294967296})", "status.epoch: must lie between 0 and 4294967295"},
      {R"({"epoch":1.5})", "status.epoch: must be a whole number (found the number 1.5)"},
      {R"({"gangGeneration":"2"})", "status.gangGeneration: must be a generation, as in 2-5"},
      {R"({"gangGeneration":"2-x"})", "status.gangGeneration: must be a generation"},
      {R"({"gangGeneration":"2-99999999999"})", "status.gangGeneration: must be a generation"},
      {R"({"gangGeneration":"-5"})", "status.gangGeneration: must be a generation"},
      {R"({"conditions":{}})", "status.conditions: must be a list"},
      {R"({"conditions":[{"status":"Yes"}]})",
       "status.conditions[0].status: must be True, False or Unknown (found the text \"Yes\")"},
      {R"({"conditions":[{"lastTransitionTime":"now"}]})",
       "status.conditions[0].lastTransitionTime: "},
      {R"({"attempts":[{"attempt":1,"machines":"3-1"}]})", "status.attempts: machines must be"},
      {R"({"machineLostAfter":15})",
       "status.machineLostAfter: must be a duration with its unit; for seconds write 15s"},
      {R"({"machineLostAfter":"15"})", "status.machineLostAfter: "},
      {R"({"machines":{"byState":{"Happy":1}}})",
       "status.machines.byState.Happy: is not a known name"},
      {R"({"lastFailure":{"cause":"Gremlins"}})",
       "status.lastFailure.cause: must be None, ProcessExit, "},
      {R"({"lastFailure":{"rank":"0"}})", "status.lastFailure.rank: must be a whole number"},
      {R"({"verdict":[]})", "status.verdict: must be an object"},
      {R"({"timings":{"created":5}})", "status.timings.created: must be text (found the number 5)"},
  };
  for (const WrongCase& c : cases) {
    Result<JobStatus> status = ParseJobStatus(c.json);
    ASSERT_FALSE(status.ok()) << c.json;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalid) << c.json;
    EXPECT_THAT(status.error().message, testing::StartsWith(c.message)) << c.json;
  }
}

TEST(Status, WithAListBeyondReasonIsRefused) {
  std::string json = R"({"history":[{})";
  for (int i = 0; i < 4096; ++i) json += ",{}";
  Result<JobStatus> status = ParseJobStatus(json + "]}");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kTooLarge);
  EXPECT_THAT(status.error().message, HasSubstr("status.history"));
}

TEST(TrimStatus, LeavesWhatFits) {
  JobStatus status = Whole();
  Trim(status);
  EXPECT_EQ(status, Whole());
}

TEST(TrimStatus, MakesAnythingFit) {
  JobStatus status = Huge();
  Trim(status);
  EXPECT_LE(ToJson(status).size(), kMaxStatusBytes);
  EXPECT_EQ(status.reason.size(), kMaxStatusString);
  EXPECT_EQ(status.last_failure->failure.stderr_tail.size(), kMaxStatusStderr);
  EXPECT_LE(status.history.size(), kMaxStatusHistory);
  EXPECT_GT(status.machine_statuses.size(), 0u);
  EXPECT_EQ(status.attempts.size(), MachineAttempts::kMost);
}

TEST(TrimStatus, TwiceChangesNothing) {
  JobStatus once = Huge();
  Trim(once);
  JobStatus twice = once;
  Trim(twice);
  EXPECT_EQ(once, twice);
}

TEST(TrimStatus, MakesWhatReadsBackEqual) {
  JobStatus status = Huge();
  status.timings.created = WallTime(nanoseconds(1'234'567'891));
  status.reason = "bell \a, delete \x7f, no UTF-8 \xff";
  Trim(status);
  Result<JobStatus> again = ParseJobStatus(ToJson(status));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, status);
  EXPECT_EQ(status.timings.created, At(1'234));
}

TEST(TrimStatus, KeepsTheWorstMachines) {
  JobStatus status;
  for (int i = 0; i < 200; ++i) {
    status.machine_statuses.push_back({.index = i, .state = MachineState::kRunning});
  }
  status.machine_statuses[150].state = MachineState::kLost;
  status.machine_statuses[170].state = MachineState::kPending;
  status.machine_statuses[180].replacements = 2;
  Trim(status);
  ASSERT_EQ(status.machine_statuses.size(), kMaxMachineStatuses);
  const std::vector<MachineStatus> worst(status.machine_statuses.begin(),
                                         status.machine_statuses.begin() + 5);
  std::vector<int> indices;
  for (const MachineStatus& machine : worst) indices.push_back(machine.index);
  EXPECT_THAT(indices, ElementsAre(150, 170, 180, 0, 1));
}

TEST(TrimStatus, KeepsTheNewestHistoryAndTheEndOfStderr) {
  JobStatus status;
  for (uint32_t n = 1; n <= 12; ++n) status.history.push_back({.generation = {1, n}});
  status.last_failure.emplace();
  status.last_failure->failure.stderr_tail = std::string(2000, 'x') + "the reason";
  Trim(status);
  EXPECT_EQ(status.history.size(), kMaxStatusHistory);
  EXPECT_EQ(status.history.back().generation.n, 12u);
  EXPECT_TRUE(status.last_failure->failure.stderr_tail.ends_with("the reason"));
}

TEST(SetCondition, KeepsTheTransitionTimeUntilTheStatusChanges) {
  std::vector<Condition> conditions;
  EXPECT_TRUE(SetCondition(conditions, Running(Condition::Value::kFalse, "Starting"), At(1'700)));
  EXPECT_EQ(conditions[0].last_transition_time, At(1'000));

  EXPECT_FALSE(SetCondition(conditions, Running(Condition::Value::kFalse, "Starting"), At(5'000)));

  EXPECT_TRUE(SetCondition(conditions, Running(Condition::Value::kFalse, "Restarting"), At(6'000)));
  EXPECT_EQ(conditions[0].reason, "Restarting");
  EXPECT_EQ(conditions[0].last_transition_time, At(1'000));

  EXPECT_TRUE(SetCondition(conditions, Running(Condition::Value::kTrue, "Started"), At(7'000)));
  EXPECT_EQ(conditions[0].last_transition_time, At(7'000));
  EXPECT_EQ(conditions.size(), 1u);
}

TEST(SetCondition, LeavesOtherTypesAlone) {
  std::vector<Condition> conditions;
  SetCondition(conditions, {.type = "Theirs", .status = Condition::Value::kTrue}, At(0));
  SetCondition(conditions, Running(Condition::Value::kTrue, "Started"), At(0));
  ASSERT_NE(FindCondition(conditions, "Theirs"), nullptr);
  EXPECT_EQ(FindCondition(conditions, "Theirs")->status, Condition::Value::kTrue);
  EXPECT_EQ(FindCondition(conditions, "Nobody's"), nullptr);
}

}  // namespace
}  // namespace lockstep::core::status_test
