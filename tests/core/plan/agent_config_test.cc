#include "core/plan/agent_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::core {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AgentConfig MakeConfig() {
  AgentConfig config;
  config.job_uid = "1b9d6bcd-bbfd-5b2d-9b5d-ab8dfbbd4bed";
  config.job.metadata.name = "gpt";
  config.job.spec.num_machines = 4;
  config.job.spec.processes_per_machine = 2;
  config.job.spec.command = {"python", "train.py", "--name", "\xc3\xa9"};
  config.machine = 3;
  config.attempt = 5;
  config.machine0_attempt = 2;
  config.epoch = 5;
  config.first_attempt = 2;
  config.predecessor_dead = false;
  Key key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(7 * i);
  config.key = key;
  config.coordinator = "127.8.9.1:7070";
  config.listen = "127.8.9.4:7070";
  config.metrics_listen = "127.8.9.4:7071";
  config.advertise = "127.8.9.4";
  config.run_dir = "/run/lockstep/m3.5";
  config.cache_dir = "/var/cache/lockstep";
  config.checkpoint_path = "/ckpt";
  config.log_path = "/logs";
  config.termination_path = "/run/lockstep/m3.5/termination.json";
  config.interface = "lo";
  config.shares_computer = true;
  return config;
}

nlohmann::json MakeJson() { return nlohmann::json::parse(ToJson(MakeConfig())); }

std::string ErrorOf(const nlohmann::json& json) {
  Result<AgentConfig> parsed = ParseAgentConfig(json.dump());
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(AgentConfigTest, WhatIsWrittenReadsBackEqual) {
  AgentConfig config = MakeConfig();
  Result<AgentConfig> read = ParseAgentConfig(ToJson(config));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->job, config.job);
  EXPECT_EQ(read->job_uid, config.job_uid);
  EXPECT_EQ(read->machine, 3u);
  EXPECT_EQ(read->attempt, 5u);
  EXPECT_EQ(read->machine0_attempt, 2u);
  EXPECT_EQ(read->epoch, 5u);
  EXPECT_EQ(read->first_attempt, 2u);
  EXPECT_FALSE(read->predecessor_dead);
  EXPECT_EQ(read->key, config.key);
  EXPECT_EQ(read->coordinator, config.coordinator);
  EXPECT_EQ(read->listen, config.listen);
  EXPECT_EQ(read->metrics_listen, config.metrics_listen);
  EXPECT_EQ(read->advertise, config.advertise);
  EXPECT_EQ(read->run_dir, config.run_dir);
  EXPECT_EQ(read->cache_dir, config.cache_dir);
  EXPECT_EQ(read->checkpoint_path, config.checkpoint_path);
  EXPECT_EQ(read->log_path, config.log_path);
  EXPECT_EQ(read->termination_path, config.termination_path);
  EXPECT_EQ(read->interface, config.interface);
  EXPECT_TRUE(read->shares_computer);
}

TEST(AgentConfigTest, AKeyFileStandsForTheKey) {
  AgentConfig config = MakeConfig();
  config.key.reset();
  config.key_file = "/var/run/lockstep/key";
  std::string json = ToJson(config);
  EXPECT_THAT(json, Not(HasSubstr("\"key\"")));
  Result<AgentConfig> read = ParseAgentConfig(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_FALSE(read->key.has_value());
  EXPECT_EQ(read->key_file, "/var/run/lockstep/key");
}

TEST(AgentConfigTest, OptionalFieldsMayBeAbsent) {
  nlohmann::json json = MakeJson();
  for (const char* name :
       {"metricsListen", "checkpointPath", "logPath", "terminationPath", "interface"}) {
    json.erase(name);
  }
  EXPECT_EQ(ErrorOf(json), "");
}

TEST(AgentConfigTest, AttemptsReadBackAndMayBeAbsent) {
  AgentConfig config = MakeConfig();
  config.attempts = {2, 0, 5, 5};
  Result<AgentConfig> read = ParseAgentConfig(ToJson(config));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->attempts, config.attempts);
  EXPECT_FALSE(MakeJson().contains("attempts"));
}

TEST(AgentConfigTest, AttemptsFitTheMachinesTheEpochAndTheAgentsOwn) {
  nlohmann::json json = MakeJson();
  json["attempts"] = {2, 1, 5};
  EXPECT_THAT(ErrorOf(json), HasSubstr("attempts: must hold one number for each of 4 machines"));
  json["attempts"] = {2, 1, 5, 4};
  EXPECT_THAT(ErrorOf(json), HasSubstr("attempts: lists machine 3 with another attempt"));
  json["attempts"] = {2, 6, 5, 5};
  EXPECT_THAT(ErrorOf(json), HasSubstr("epoch: must be at least the highest of attempts"));
  for (const nlohmann::json& bad :
       {nlohmann::json("2-5"), nlohmann::json{-1, 1, 5, 5}, nlohmann::json{2, 1, 5, 4294967296}}) {
    json["attempts"] = bad;
    EXPECT_THAT(ErrorOf(json), HasSubstr("attempts")) << bad;
  }
}

TEST(AgentConfigTest, EveryErrorIsNamedAtOnce) {
  nlohmann::json json = MakeJson();
  json.erase("jobUID");
  json["machine"] = -1;
  json["attempt"] = "five";
  json["epoch"] = 4294967296;
  json["predecessorDead"] = 1;
  json["coordinator"] = "gpt-0:7070";
  json["listen"] = "127.0.0.1";
  json["advertise"] = "localhost";
  json["colour"] = "blue";
  std::string error = ErrorOf(json);
  for (const char* name :
       {"jobUID: is missing", "machine: ", "attempt: ", "epoch: ", "predecessorDead: ",
        "coordinator: ", "listen: ", "advertise: ", "colour: unknown field"}) {
    EXPECT_THAT(error, HasSubstr(name));
  }
}

TEST(AgentConfigTest, ErrorsOfTheJobAreTold) {
  nlohmann::json json = MakeJson();
  json["job"]["spec"]["numMachinez"] = 3;
  EXPECT_THAT(ErrorOf(json), HasSubstr("job: spec.numMachinez"));
}

TEST(AgentConfigTest, AJobWithNothingToRunIsRefused) {
  nlohmann::json json = MakeJson();
  json["job"]["spec"].erase("command");
  EXPECT_THAT(ErrorOf(json), HasSubstr("job: names neither a command nor a trainer"));
}

TEST(AgentConfigTest, ABadKeyIsRefusedWithoutBeingRepeated) {
  nlohmann::json json = MakeJson();
  std::string key = json["key"];
  for (const std::string& bad : {key.substr(1), key + "00", "X" + key.substr(1), std::string()}) {
    json["key"] = bad;
    std::string error = ErrorOf(json);
    EXPECT_THAT(error, HasSubstr("key: "));
    EXPECT_THAT(error, Not(HasSubstr(key.substr(2, 40))));
  }
}

TEST(AgentConfigTest, KeyAndKeyFileExcludeEachOther) {
  nlohmann::json json = MakeJson();
  json["keyFile"] = "/key";
  EXPECT_THAT(ErrorOf(json), HasSubstr("either key or keyFile"));
  json.erase("keyFile");
  json.erase("key");
  EXPECT_THAT(ErrorOf(json), HasSubstr("either key or keyFile"));
}

TEST(AgentConfigTest, AnAttemptAboveTheEpochIsRefused) {
  nlohmann::json json = MakeJson();
  json["epoch"] = 4;
  EXPECT_THAT(ErrorOf(json), HasSubstr("epoch: "));
}

TEST(AgentConfigTest, AMachineOutsideTheJobIsRefused) {
  nlohmann::json json = MakeJson();
  json["machine"] = 4;
  EXPECT_THAT(ErrorOf(json), HasSubstr("machine: "));
}

TEST(AgentConfigTest, AFieldThatStandsTwiceIsRefused) {
  std::string json = ToJson(MakeConfig());
  json.insert(1, "\"machine\":1,");
  Result<AgentConfig> read = ParseAgentConfig(json);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("machine: this key appears twice"));
}

TEST(AgentConfigTest, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "3", "{", "{\"a\":1} x", "null"}) {
    EXPECT_FALSE(ParseAgentConfig(text).ok()) << text;
  }
  EXPECT_EQ(ParseAgentConfig(std::string(kMaxAgentConfig + 1, ' ')).error().kind,
            ErrorKind::kTooLarge);
}

}  // namespace
}  // namespace lockstep::core
