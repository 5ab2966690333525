#include "core/model/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "core/text/text.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead =
    "apiVersion: lockstep.dev/v1alpha1\n"
    "kind: TrainingJob\n"
    "metadata: {name: gpt}\n"
    "spec:\n";

std::string Job(const std::string& spec) { return kHead + spec; }

std::string Problems(const ParseResult& result) { return Format(result.problems, "job.yaml"); }

Spec SpecOf(const std::string& spec) {
  const ParseResult result = ParseYaml(Job(spec));
  EXPECT_TRUE(result.ok()) << Problems(result);
  return result.job ? result.job->spec : Spec();
}

TEST(ParseYaml, ReadsEveryKindOfField) {
  const Spec spec = SpecOf(R"(
  numMachines: 4
  processesPerMachine: 8
  image: ghcr.io/me/train:7
  command: [python, train.py]
  args: ["--lr", "0.1"]
  env:
  - {name: A, value: "1"}
  - {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}
  launch: PerMachine
  framework: Accelerate
  resourcesPerProcess: {gpu: 1, cpu: 500m, memory: 110Gi}
  resourcesPerMachine: {rdma/hca: 1, hugepages-2Mi: 5Gi}
  sharedMemory: 16Gi
  failurePolicy:
    maxRestarts: 7
    resetAfter: 1h30m
    rules:
    - {exitCodes: [78], action: Fail}
    - {signals: [SIGBUS, SIGKILL], stderr: "ECC", action: ReplaceMachine}
  gracePeriod: 0s
  logs: {console: RankZero, format: Json, path: /tmp/x}
  ttlSecondsAfterFinished: 60
)");
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.processes_per_machine, 8);
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py"));
  EXPECT_THAT(spec.args, ElementsAre("--lr", "0.1"));
  EXPECT_EQ(spec.env[0].value, "1");
  EXPECT_EQ(spec.env[1].value_from.Walk({"secretKeyRef", "key"})->text(), "k");
  EXPECT_EQ(spec.launch, Launch::kPerMachine);
  EXPECT_EQ(spec.framework, Framework::kAccelerate);
  EXPECT_EQ(spec.resources_per_process.cpu->milli(), 500);
  EXPECT_EQ(spec.resources_per_process.memory->ToString(), "110Gi");
  EXPECT_EQ(spec.resources_per_machine.at("rdma/hca").milli(), 1000);
  EXPECT_EQ(spec.failure_policy.max_restarts, 7);
  EXPECT_EQ(spec.failure_policy.reset_after, minutes(90));
  EXPECT_THAT(spec.failure_policy.rules[1].signals, ElementsAre(7, 9));
  EXPECT_EQ(spec.failure_policy.rules[1].action, FailureAction::kReplaceMachine);
  EXPECT_EQ(spec.grace_period, Duration::zero());
  EXPECT_EQ(spec.logs.format, LogFormat::kJson);
  EXPECT_EQ(spec.ttl_seconds_after_finished, 60);
}

TEST(ParseYaml, LeavesDefaultsWhereNothingIsSaid) { EXPECT_EQ(SpecOf("  {}\n"), Spec()); }

TEST(ParseYaml, ReadsTheTrainer) {
  const Spec spec = SpecOf(
      "  trainer: {modelShape: {layers: 2, heads: 4, width: 64, vocabulary: 256}, data: [a.txt],"
      " learningRate: 3e-4, precision: Bf16}\n");
  ASSERT_TRUE(spec.trainer);
  ASSERT_TRUE(spec.trainer->model_shape);
  EXPECT_EQ(spec.trainer->model_shape->width, 64);
  EXPECT_DOUBLE_EQ(spec.trainer->learning_rate, 3e-4);
  EXPECT_EQ(SpecOf("  trainer: {model: gpt2}\n").trainer->model, Model::kGpt2);
}

TEST(ParseYaml, TellsEveryProblemAtOnceWithItsPlace) {
  const ParseResult result =
      ParseYaml(Job("  nummachines: 2\n"
                    "  processesPerMachine: four\n"
                    "  gracePeriod: 120\n"));
  EXPECT_EQ(
      Problems(result),
      "job.yaml:5:3: error: spec.nummachines: unknown field; did you mean \"numMachines\"?\n"
      "job.yaml:6:24: error: spec.processesPerMachine: must be a whole number (found the text "
      "\"four\")\n"
      "job.yaml:7:16: error: spec.gracePeriod: must be a duration with its unit; for seconds "
      "write 120s (found the number 120)\n");
}

TEST(ParseYaml, SaysWhatToWriteForTheNamesOfOtherLaunchers) {
  const struct {
    const char* name;
    const char* says;
  } cases[] = {
      {"num_processes",
       "unknown field; write processesPerMachine, the processes of one machine; "
       "accelerate's num_processes is the total: divide it by numMachines"},
      {"numProcesses", "divide it by numMachines"},
      {"nproc_per_node", "write processesPerMachine"},
      {"num_machines", "did you mean \"numMachines\"?"},
      {"machine_rank", "remove it: Lockstep gives every machine its rank"},
      {"main_process_ip", "remove it: the machines find each other, and MASTER_ADDR is set"},
      {"mainProcessPort", "MASTER_PORT is set"},
      {"mixed_precision", "{name: ACCELERATE_MIXED_PRECISION, value: bf16}"},
  };
  for (const auto& [name, says] : cases) {
    EXPECT_THAT(Problems(ParseYaml(Job(std::string("  ") + name + ": 2\n"))),
                AllOf(HasSubstr(std::string("spec.") + name + ": unknown field"), HasSubstr(says)));
  }
}

TEST(ParseYaml, SaysWhatToWriteInstead) {
  const struct {
    const char* spec;
    const char* says;
  } cases[] = {
      {"  numMachines: 2147483648\n", "between -2147483648 and 2147483647"},
      {"  numMachines: 99999999999999999999999\n", "between"},
      {"  numMachines: \"2\"\n", "without quotes"},
      {"  numMachines: 2.5\n", "whole number"},
      {"  numMachines: 0b9\n", "plain decimal digits"},
      {"  numMachines: .nan\n", "whole number"},
      {"  numMachines: [2]\n", "whole number (found a list)"},
      {"  activeDeadlineSeconds: 9223372036854775808\n", "between"},
      {"  image: 7\n", "put it in quotes: \"7\""},
      {"  image: yes\n", "put it in quotes: \"yes\""},
      {"  image: 0644\n", "put it in quotes: \"0644\""},
      {"  suspend: maybe\n", "must be true or false"},
      {"  suspend: \"true\"\n", "must be true or false"},
      {"  command: python train.py\n", "must be a list; write [python, train.py]"},
      {"  args: [1]\n", "put it in quotes: \"1\""},
      {"  launch: perMachine\n", "did you mean \"PerMachine\"?"},
      {"  launch: Sometimes\n", "must be PerProcess or PerMachine"},
      {"  placement: {onePerNode: Off}\n", "must be Auto, Required, Preferred or None"},
      {"  framework: Torhc\n", "did you mean \"Torch\"?"},
      {"  gracePeriod: 5\n", "write 5s"},
      {"  gracePeriod: 5 min\n", "as in 30s, 1h30m or 500ms"},
      {"  gracePeriod: [5s]\n", "must be a duration"},
      {"  sharedMemory: 16GB\n", "is not a quantity"},
      {"  sharedMemory: 100Pi\n", "too large"},
      {"  sharedMemory: [1]\n", "must be a quantity"},
      {"  resourcesPerProcess: {cpu: 0.5}\n", "put it in quotes: \"0.5\""},
      {"  resourcesPerMachine: [1]\n", "must be a mapping of names to values"},
      {"  health: 10m\n", "must be a mapping of fields"},
      {"  failurePolicy: {rules: [{signals: [SIGBUSS]}]}\n", "did you mean \"SIGBUS\"?"},
      {"  failurePolicy: {rules: [{signals: [7]}]}\n", "the name of a signal"},
      {"  failurePolicy: {rules: [{action: Stop}]}\n",
       "must be Restart, Fail, ReplaceMachine, RestartFromEarlier or Report"},
      {"  failurePolicy: {rules: {action: Fail}}\n", "must be a list"},
      {"  env: {FOO: bar}\n", "must be a list; write [{name: FOO, value: \"bar\"}, ...]"},
      {"  failurePolicy: {rules: [null]}\n", "has no value"},
      {"  trainer: {learningRate: .inf}\n", "finite number"},
      {"  trainer: {model: huge}\n", "must be nano, micro or gpt2"},
      {"  trainer: {model: {layers: 2}}\n", "must be nano, micro or gpt2 (found a mapping)"},
      {"  trainer: {modelShape: {layers: 2, heads: 1, width: 8}}\n", "is missing"},
      {"  trainer: {learningRate: 1e999}\n", "finite number"},
      {"  trainer: {learningRate: fast}\n", "finite number"},
      {"  image: \"a\\0b\"\n", "zero byte"},
      {"  template: {spec: {x: \"a\\0b\"}}\n", "zero byte"},
      {"  template: {spec: {x: .nan}}\n", "plain decimal digits, as in 420"},
      {"  env: [{name: a, valueFrom: {x: [.5]}}]\n", "plain decimal digits, as in 420"},
  };
  for (const auto& c : cases) {
    const ParseResult result = ParseYaml(Job(c.spec));
    EXPECT_FALSE(result.ok()) << c.spec;
    EXPECT_THAT(Problems(result), AllOf(HasSubstr("job.yaml:5:"), HasSubstr(c.says))) << c.spec;
  }
}

TEST(ParseYaml, TakesNullForAFieldThatIsAbsentAsAnApiServerDoes) {
  const ParseResult result =
      ParseYaml(Job("  numMachines:\n  image: ~\n  ttlSecondsAfterFinished: null\n"
                    "  template: {spec: {volumes: [{name: a, emptyDir: }],"
                    " containers: [{name: worker, image: i, resources: }]}}\n"));
  EXPECT_TRUE(result.ok()) << Problems(result);
  EXPECT_EQ(Problems(result),
            "job.yaml:5:3: warning: spec.numMachines: has no value and counts as absent; remove "
            "the line, or write a value\n");
  EXPECT_EQ(result.job->spec.num_machines, 1);
  EXPECT_EQ(result.job->spec.image, "i");
  EXPECT_EQ(result.job->spec.template_,
            *ReadYaml("spec: {volumes: [{name: a}], containers: [{name: worker}]}").root);
}

TEST(ParseYaml, TakesAWholeNumberHoweverJsonWritesIt) {
  const Spec spec = SpecOf("  numMachines: 2.0\n  processesPerMachine: 1e1\n  sharedMemory: 1e6\n");
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 10);
  EXPECT_EQ(spec.shared_memory->ToString(), "1M");
}

TEST(ParseYaml, BoundsEveryTextAndList) {
  const std::string text(1025, 'x');
  EXPECT_THAT(Problems(ParseYaml(Job("  image: " + text + "\n"))),
              HasSubstr("spec.image: must be at most 1024 characters long"));
  EXPECT_TRUE(ParseYaml(Job("  image: " + text.substr(1) + "\n")).ok());
  std::string letters;
  for (int i = 0; i < 1024; ++i) letters += "\xC3\xA9";
  EXPECT_TRUE(ParseYaml(Job("  image: " + letters + "\n")).ok()) << "characters, not bytes";
  std::string words = "a";
  for (int i = 0; i < 256; ++i) words += ", a";
  EXPECT_THAT(Problems(ParseYaml(Job("  command: [" + words + "]\n"))),
              HasSubstr("spec.command: must hold at most 256, not 257"));
  EXPECT_THAT(Problems(ParseYaml(Job("  args: [a, " + std::string(16385, 'x') + "]\n"))),
              HasSubstr("spec.args[1]: must be at most 16384 characters long"));
}

TEST(ParseYaml, NamesThePathOfWhatIsWrong) {
  EXPECT_THAT(Problems(ParseYaml(Job("  failurePolicy:\n    rules:\n    - {action: Fial}\n"))),
              HasSubstr("job.yaml:7:16: error: spec.failurePolicy.rules[0].action: must be"));
}

TEST(ParseYaml, AsksForWhatEveryJobHas) {
  const ParseResult result = ParseYaml("a: 1\n");
  EXPECT_THAT(
      Problems(result),
      AllOf(HasSubstr("apiVersion: is missing; write \"apiVersion: lockstep.dev/v1alpha1\""),
            HasSubstr("kind: is missing"), HasSubstr("metadata: is missing"),
            HasSubstr("spec: is missing"), HasSubstr("a: unknown field")));
}

TEST(ParseYaml, PointsToConvertForAForeignJob) {
  EXPECT_THAT(Problems(ParseYaml("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n")),
              HasSubstr("lockstep convert"));
}

TEST(ParseYaml, AcceptsWhatAnApiServerAdds) {
  const ParseResult result = ParseYaml(
      "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\n"
      "metadata: {name: gpt, namespace: ml, uid: u-1, resourceVersion: \"7\", generation: 2,"
      " creationTimestamp: null, managedFields: [], labels: {a: b}}\n"
      "spec: {}\nstatus: {state: Running}\n");
  EXPECT_TRUE(result.ok()) << Problems(result);
  EXPECT_EQ(result.job->metadata.uid, "u-1");
  EXPECT_EQ(result.job->metadata.labels.at("a"), "b");
}

TEST(ParseYaml, RefusesDocumentsThatAreNoneOfOurs) {
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"", "the file is empty"},
      {"# nothing\n", "the file is empty"},
      {"---\n---\n", "the file is empty"},
      {"- 1\n", "must be a mapping with apiVersion"},
      {"text\n", "must be a mapping with apiVersion"},
      {"a: [1\n", "this is not YAML"},
      {"a: b: c\n", "this is not YAML"},
      {",#", "no value can begin like this"},
      {"a: 1\n]\n", "this is not YAML"},
      {"a: 1\n...\n,\n", "this is not YAML"},
      {"a: 1\na: 2\n", "appears twice"},
      {"a: &x [*x]\n", "inside the value that it names"},
      {"a: *nobody\n", "this is not YAML"},
      {"<<: 1\n", "a merge key (<<) takes a mapping"},
      {"<<: [{a: 1}, b]\n", "a merge key (<<) takes a mapping"},
      {"<<: {a: 1}\n<<: {b: 1}\n", "appears twice"},
      {"? [1]\n: 2\n", "a key must be text"},
      {"~: 2\n", "a key must be text"},
      {"a: !!binary aGk=\n", "tag"},
      {"a: !mine {b: 1}\n", "tag"},
      {"a: \xff\n", "not UTF-8"},
      {"a: \xc0\x80\n", "not UTF-8"},
      {"a: \xed\xa0\x80\n", "not UTF-8"},
      {std::string("a: \0b\n", 6), "control characters"},
      {"a: \x1b[31m\n", "control characters"},
      {std::string(kMaxDocumentBytes + 1, '#'), "larger than 1 MiB"},
      {"a: 1\n---\nb: 1\n", "a second document"},
  };
  for (const auto& c : cases) {
    const ParseResult result = ParseYaml(c.text);
    EXPECT_FALSE(result.ok()) << c.text.substr(0, 40);
    EXPECT_THAT(Problems(result), HasSubstr(c.says)) << c.text.substr(0, 40);
  }
}

TEST(ParseYaml, TakesTheTextInQuotesThatItAdvises) {
  for (const char* value : {"7", "yes", "0644", "1e3", "0x1F", "0.5"}) {
    const std::string wrong = std::string("  image: ") + value + "\n";
    const std::string problems = Problems(ParseYaml(Job(wrong)));
    const std::string lead = "put it in quotes: ";
    const size_t at = problems.find(lead);
    ASSERT_NE(at, std::string::npos) << problems;
    const std::string advised = problems.substr(at + lead.size(), std::strlen(value) + 2);
    EXPECT_EQ(SpecOf("  image: " + advised + "\n").image, value);
  }
}

TEST(ParseYaml, ReadsNumbersAndTruthsAsKubectlDoes) {
  const Spec spec = SpecOf(
      "  numMachines: 010\n  processesPerMachine: 0x10\n  activeDeadlineSeconds: 1_000\n"
      "  ttlSecondsAfterFinished: 08\n  suspend: yes\n  network: {hostnames: off}\n"
      "  template: {spec: {hostNetwork: on, volumes: [{name: a, secret: {defaultMode: 0644}},"
      " {name: b, secret: {defaultMode: 0o600}}, {name: c, secret: {defaultMode: +1}}]}}\n");
  EXPECT_EQ(spec.num_machines, 8);
  EXPECT_EQ(spec.processes_per_machine, 16);
  EXPECT_EQ(spec.active_deadline_seconds, 1000);
  EXPECT_EQ(spec.ttl_seconds_after_finished, 8);
  EXPECT_TRUE(spec.suspend);
  EXPECT_FALSE(spec.network.hostnames);
  EXPECT_EQ(
      WriteJson(spec.template_),
      R"({"spec":{"hostNetwork":true,"volumes":[{"name":"a","secret":{"defaultMode":420}},)"
      R"({"name":"b","secret":{"defaultMode":384}},{"name":"c","secret":{"defaultMode":1}}]}})");
}

TEST(ParseYaml, MergesMappingsAsKubectlDoes) {
  const Spec spec = SpecOf(
      "  resourcesPerProcess: &base {cpu: 2, memory: 4Gi}\n"
      "  failurePolicy: {<<: {maxRestarts: 7, resetAfter: 2h}, maxRestarts: 5}\n"
      "  template: {metadata: {labels: {<<: [{a: first}, {a: second, b: other}], c: own}},"
      " spec: {nodeSelector: {<<: *base}}}\n");
  EXPECT_EQ(spec.failure_policy.max_restarts, 5) << "what stands in the mapping itself";
  EXPECT_EQ(spec.failure_policy.reset_after, hours(2));
  EXPECT_EQ(WriteJson(spec.template_),
            R"({"metadata":{"labels":{"c":"own","a":"first","b":"other"}},)"
            R"("spec":{"nodeSelector":{"cpu":2,"memory":"4Gi"}}})");
}

TEST(ParseYaml, RefusesMergesThatExplode) {
  std::string bomb = "a0: &a0 {k: [x, x, x, x, x, x, x, x, x, x]}\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {<<: " + before;
    for (int j = 0; j < 9; ++j) bomb += ", k" + std::to_string(j) + ": " + before;
    bomb += "}\n";
  }
  EXPECT_THAT(Problems(ParseYaml(bomb)), HasSubstr("too large once its aliases are written out"));
}

TEST(ParseYaml, TellsEachDuplicateKeyWithItsPlace) {
  const ParseResult result = ParseYaml(Job("  image: a\n  image: b\n"));
  EXPECT_EQ(Problems(result),
            "job.yaml:6:3: error: image: this key appears twice; remove one of them\n");
}

TEST(ParseYaml, FollowsAliasesWithinBounds) {
  const Spec spec = SpecOf("  command: &c [python, train.py]\n  args: *c\n");
  EXPECT_EQ(spec.args, spec.command);
}

TEST(ParseYaml, RefusesAliasesThatExplode) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_THAT(Problems(ParseYaml(bomb)), HasSubstr("too large once its aliases are written out"));
}

TEST(ParseYaml, RefusesALongTextRepeatedByAliases) {
  std::string bomb = "a: &a \"" + std::string(500'000, 'x') + "\"\nb: [*a";
  for (int i = 0; i < 50; ++i) bomb += ", *a";
  EXPECT_THAT(Problems(ParseYaml(bomb + "]\n")), HasSubstr("too large"));
}

TEST(ParseYaml, RefusesEveryKindOfDeepNesting) {
  const auto repeat = [](const std::string& text, size_t times) {
    std::string repeated;
    for (size_t i = 0; i < times; ++i) repeated += text;
    return repeated;
  };
  for (const size_t depth : {size_t{100}, size_t{10'000}, size_t{200'000}}) {
    for (const char* unit : {"[", "{a: ", "- ", "? ", "[[{a: ", "- ? ", "{? "}) {
      const ParseResult result = ParseYaml("a: " + repeat(unit, depth) + "\n");
      EXPECT_FALSE(result.ok()) << unit << depth;
      EXPECT_FALSE(ParseYaml(repeat(unit, depth)).ok()) << unit << depth;
    }
  }
  std::string stairs;
  for (size_t i = 0; i < 1000; ++i) stairs += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(Problems(ParseYaml(stairs)), HasSubstr("levels deep"));
}

TEST(ParseYaml, StopsCountingProblemsSomewhere) {
  std::string spec;
  for (int i = 0; i < 5000; ++i) spec += "  x" + std::to_string(i) + ": 1\n";
  const ParseResult result = ParseYaml(Job(spec));
  EXPECT_LE(result.problems.size(), 101u);
  EXPECT_THAT(result.problems.back().message, HasSubstr("too many problems"));
}

TEST(ParseYaml, TakesAByteOrderMark) {
  EXPECT_TRUE(ParseYaml("\xEF\xBB\xBF" + Job("  {}\n")).ok());
}

TEST(ParseYaml, LiftsTheTemplatesWorkerIntoTheSpec) {
  const Spec spec = SpecOf(
      "  template:\n    spec:\n      imagePullSecrets: [{name: pull}]\n      containers:\n"
      "      - {name: sidecar, image: s}\n"
      "      - {name: worker, image: w, command: [a], volumeMounts: [{name: v}]}\n");
  EXPECT_EQ(spec.image, "w");
  EXPECT_THAT(spec.command, ElementsAre("a"));
  EXPECT_EQ(spec.image_pull_secrets[0].name, "pull");
  const Node& containers = *spec.template_.Walk({"spec", "containers"});
  EXPECT_EQ(containers.items()[0].Find("image")->text(), "s");
  EXPECT_EQ(containers.items()[1].Find("image"), nullptr);
  EXPECT_NE(containers.items()[1].Find("volumeMounts"), nullptr);
}

TEST(ParseJson, ReadsTheSameJob) {
  const ParseResult json = ParseJson(
      R"({"apiVersion":"lockstep.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"gpt"},
          "spec":{"numMachines":2,"command":["a"],"trainer":{"learningRate":1e-3}}})");
  ASSERT_TRUE(json.ok()) << Problems(json);
  const ParseResult yaml =
      ParseYaml(Job("  {numMachines: 2, command: [a], trainer: {learningRate: 0.001}}\n"));
  EXPECT_EQ(*json.job, *yaml.job);
}

TEST(ReadStoredJob, KnowsNotAllMetadataOfAnApiServer) {
  const std::string text =
      R"({"apiVersion":"lockstep.dev/v1alpha1","kind":"TrainingJob","status":{"of":"tomorrow"},
          "metadata":{"name":"gpt","uid":"u-1","ofTomorrow":{}},
          "spec":{"template":{"spec":{"containers":[{"name":"worker","command":["a"]}]}}}})";
  const ParseResult stored = ReadStoredJob(*ReadJson(text).root);
  EXPECT_TRUE(stored.ok()) << Problems(stored);
  EXPECT_EQ(stored.job->metadata.uid, "u-1");
  EXPECT_THAT(stored.job->spec.command, ElementsAre("a"));
  EXPECT_THAT(Problems(ParseJson(text)), HasSubstr("metadata.ofTomorrow: unknown field"));
}

TEST(ParseJson, TellsWhereAProblemStands) {
  const ParseResult result = ParseJson(
      "{\n \"apiVersion\": \"lockstep.dev/v1alpha1\", \"kind\": \"TrainingJob\",\n"
      " \"metadata\": {\"name\": \"gpt\"},\n"
      " \"spec\": {\n  \"numMachine\": 1,\n  \"image\": 12,\n  \"suspend\": null,\n"
      "  \"launch\": \"a\\\"b\",\n  \"health\": [1]\n }\n}\n");
  EXPECT_THAT(Problems(result),
              AllOf(HasSubstr("job.yaml:5:3: error: spec.numMachine: unknown field"),
                    HasSubstr("job.yaml:6:12: error: spec.image"),
                    HasSubstr("job.yaml:7:14: warning: spec.suspend"),
                    HasSubstr("job.yaml:8:13: error: spec.launch"),
                    HasSubstr("job.yaml:9:13: error: spec.health")));
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{\"a\":1}{\"b\":2}", "not JSON"},
      {"{\"a\":NaN}", "not JSON"},
      {"{\"a\":1e999}", "not JSON"},
      {"{\"a\":\"\\ud800\"}", "not JSON"},
      {"{\"a\":\"\xff\"}", "not UTF-8"},
      {"{\"a\":1,\"a\":2}", "appears twice"},
      {"[1]", "must be a mapping"},
      {std::string(100'000, '['), "levels deep"},
      {std::string(kMaxDocumentBytes + 1, ' '), "larger than 1 MiB"},
  };
  for (const auto& c : cases) {
    const ParseResult result = ParseJson(c.text);
    EXPECT_FALSE(result.ok()) << c.text.substr(0, 40);
    EXPECT_THAT(Problems(result), HasSubstr(c.says)) << c.text.substr(0, 40);
  }
}

TEST(NearestName, FindsWhatWasMeantAndNothingElse) {
  const std::vector<std::string_view> known = {"numMachines", "processesPerMachine", "env", "args"};
  EXPECT_EQ(NearestName("nummachines", known), "numMachines");
  EXPECT_EQ(NearestName("numMahcines", known), "numMachines");
  EXPECT_EQ(NearestName("processPerMachine", known), "processesPerMachine");
  EXPECT_EQ(NearestName("evn", known), "env");
  EXPECT_EQ(NearestName("replicas", known), "");
  EXPECT_EQ(NearestName("", known), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'a'), known), "");
}

}  // namespace
}  // namespace lockstep::core
