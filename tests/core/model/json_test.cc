#include "core/model/json.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/model/parse.h"
#include "core/record/writer.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

// Texts that a YAML reader could take for something else.
const char* const kTexts[] = {"",           "a",      "yes",     "No",         "null",
                              "~",          "1",      "1.5",     "1e3",        ".inf",
                              "true",       "a: b",   "a #b",    "#a",         "- a",
                              "-a",         "--lr",   "-",       "---",        "...",
                              "*a",         "&a",     "!a",      "%a",         "@a",
                              "`a",         "'a'",    "\"a\"",   " a",         "a ",
                              "a\n",        "a\nb",   "a\n\nb",  "\na",        "a\nb\n",
                              "a \nb",      " a\nb",  "a\n b\n", "a\tb",       "a\r\nb",
                              "[a",         "{a}",    "a,b",     "a:",         ":a",
                              "?",          "? a",    "|",       ">",          "=",
                              "<<",         "y",      "12:30",   "1_000",      "0x1F",
                              "\\n",        "\x01",   "\x7f",    "\x1b[1m",    "\u00e9",
                              "\u2028",     "\u0085", "\ufeff",  "\U0001f600", "a\nb: c\n# d\n",
                              "2001-01-01", "$(A)",   "it's",    "a\n\n",      "\n",
                              "0o7"};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  TrainingJob Job() {
    TrainingJob job;
    job.metadata.name = Text();
    if (Coin()) job.metadata.labels[Text()] = Text();
    Spec& spec = job.spec;
    spec.num_machines = Int();
    spec.processes_per_machine = Int();
    spec.command = Texts();
    spec.args = Texts();
    spec.working_dir = Text();
    for (int i = Small(); i > 0; --i) spec.env.push_back(Env());
    for (int i = Small(); i > 0; --i) spec.env_from.push_back(Opaque(3));
    if (Coin()) spec.launch = Launch::kPerMachine;
    if (Coin()) spec.framework = Framework::kNone;
    if (Coin()) spec.trainer = SomeTrainer();
    // A map, so that there is no worker to lift from.
    if (Coin()) spec.template_ = Node::Map();
    if (spec.template_.IsMap()) spec.template_.Add("metadata", Opaque(3));
    if (Coin()) spec.resources_per_process.gpu = Int();
    if (Coin()) spec.resources_per_process.memory = Amount();
    if (Coin()) spec.resources_per_machine[Text()] = Amount();
    if (Coin()) spec.shared_memory = Amount();
    if (Coin()) spec.topology.bind = Bind::kNone;
    spec.failure_policy.reset_after = Span();
    for (int i = Small(); i > 0; --i) spec.failure_policy.rules.push_back(Rule());
    spec.checkpoint.path = Text();
    spec.checkpoint.url = Text();
    spec.checkpoint.secret = Text();
    spec.checkpoint.keep_every = Span();
    if (Coin()) spec.checkpoint.keep = Int();
    if (Coin()) spec.checkpoint.upload_bandwidth = Amount();
    spec.grace_period = Span();
    if (Coin()) spec.ttl_seconds_after_finished = Int();
    spec.active_deadline_seconds = int64_t{Int()} * Int();
    spec.suspend = Coin();
    if (Coin()) spec.restart_request = RestartRequest{"id", "why", "alice", Coin()};
    return job;
  }

 private:
  bool Coin() { return random_() % 2 == 0; }
  int Small() { return static_cast<int>(random_() % 4); }
  int Int() { return static_cast<int>(random_()); }
  std::string Text() { return kTexts[random_() % std::size(kTexts)]; }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (int i = Small(); i > 0; --i) texts.push_back(Text());
    return texts;
  }
  Duration Span() {
    return nanoseconds(static_cast<int64_t>((uint64_t{random_()} << 32) | random_()));
  }
  Quantity Amount() {
    return Quantity::FromMilli(static_cast<int64_t>(uint64_t{random_()} << (random_() % 31)),
                               Coin() ? Quantity::Format::kBinary : Quantity::Format::kDecimal);
  }
  EnvVar Env() {
    EnvVar entry;
    entry.name = Text();
    if (Coin()) entry.value = Text();
    if (Coin()) entry.value_from = Opaque(2);
    return entry;
  }
  FailureRule Rule() {
    FailureRule rule;
    if (Coin()) rule.exit_codes = {Int(), Int()};
    if (Coin()) rule.signals = {7, 11};
    rule.stderr_regex = Text();
    if (Coin()) rule.action = FailureAction::kReplaceMachine;
    return rule;
  }
  Trainer SomeTrainer() {
    Trainer trainer;
    if (Coin()) trainer.model_shape = ModelShape{Int(), Int(), Int(), Int()};
    trainer.learning_rate = static_cast<double>(random_()) / 3e7;
    trainer.clip = static_cast<double>(random_()) * 1e12;
    trainer.data = Texts();
    trainer.overlap = Coin();
    return trainer;
  }
  Node Opaque(int depth) {
    switch (random_() % (depth > 0 ? 6 : 3)) {
      case 0:
        return Node::Integer(Int());
      case 1:
        return Node::Bool(Coin());
      case 2:
        return Node::String(Text());
      case 3: {
        Node list = Node::List();
        for (int i = Small(); i > 0; --i) list.Append(Opaque(depth - 1));
        return list;
      }
      default: {
        Node map = Node::Map();
        for (int i = Small(); i > 0; --i) {
          std::string key = Text();
          if (key != "<<" && map.Find(key) == nullptr) map.Add(std::move(key), Opaque(depth - 1));
        }
        return map;
      }
    }
  }

  std::mt19937 random_;
};

TEST(WrittenJob, ReadsBackEqualInEveryForm) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const TrainingJob job = Generator(seed).Job();
    for (const Defaults defaults : {Defaults::kOmit, Defaults::kWrite}) {
      const std::string yaml = ToYaml(job, defaults);
      const ParseResult from_yaml = ParseYaml(yaml);
      ASSERT_TRUE(from_yaml.ok()) << "seed " << seed << "\n"
                                  << Format(from_yaml.problems, "yaml") << yaml;
      ASSERT_TRUE(*from_yaml.job == job) << "seed " << seed << "\n" << yaml;
      const std::string json = ToJson(job, defaults);
      const ParseResult from_json = ParseJson(json);
      ASSERT_TRUE(from_json.ok()) << "seed " << seed << "\n"
                                  << Format(from_json.problems, "json") << json;
      ASSERT_TRUE(*from_json.job == job) << "seed " << seed << "\n" << json;
    }
  }
}

TEST(ToYaml, LeavesDefaultsOut) {
  TrainingJob job;
  job.metadata.name = "gpt";
  job.spec.num_machines = 2;
  job.spec.command = {"python", "train.py", "--lr", "0.1"};
  EXPECT_EQ(ToYaml(job),
            "apiVersion: lockstep.dev/v1alpha1\n"
            "kind: TrainingJob\n"
            "metadata:\n"
            "  name: gpt\n"
            "spec:\n"
            "  numMachines: 2\n"
            "  command:\n"
            "  - python\n"
            "  - train.py\n"
            "  - --lr\n"
            "  - \"0.1\"\n");
}

TEST(ToYaml, WritesDefaultsWhenAsked) {
  TrainingJob job;
  const std::string yaml = ToYaml(job, Defaults::kWrite);
  for (const char* line : {"numMachines: 1\n", "machineLostAfter: 15s\n", "gracePeriod: 2m\n",
                           "launch: PerProcess\n", "suspend: false\n"}) {
    EXPECT_NE(yaml.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(yaml.find("ttlSecondsAfterFinished"), std::string::npos) << "absent, never null";
}

TEST(ToJson, IsOneLine) {
  TrainingJob job;
  job.spec.args = {"a\nb"};
  EXPECT_EQ(ToJson(job).find('\n'), std::string::npos);
}

TEST(WriteYaml, WritesNumbersThatPythonReadsAsNumbers) {
  Node node = Node::Map();
  node.Add("small", NumberNode(1e-5));
  node.Add("large", NumberNode(3e22));
  node.Add("plain", NumberNode(0.5));
  EXPECT_EQ(WriteYaml(node), "small: 1.0e-05\nlarge: 3.0e+22\nplain: 0.5\n");
}

TEST(WriteYaml, KeepsAScriptReadable) {
  Node node = Node::Map();
  node.Add("script", Node::String("cd /x\n\nexec python train.py\n"));
  EXPECT_EQ(WriteYaml(node), "script: |\n  cd /x\n\n  exec python train.py\n");
}

}  // namespace
}  // namespace lockstep::core
