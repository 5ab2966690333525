#include "operator/objects/key_secret.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/operator/policy/make_job.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

const std::vector<uint8_t> kMaster(32, 7);

TEST(KeySecret, HoldsTheKeyAsTheAgentReadsIt) {
  Key key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(i);
  const json secret = json::parse(KeySecretObject(MakeJob("gpt"), key));
  EXPECT_EQ(secret["kind"], "Secret");
  EXPECT_EQ(secret["metadata"]["name"], KeySecretName(MakeJob("gpt"), key));
  EXPECT_EQ(secret["metadata"]["namespace"], "team");
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["name"], "gpt");
  EXPECT_EQ(secret["immutable"], true);
  EXPECT_EQ(secret["data"], json({{"gang", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}}));
}

TEST(KeySecret, ItsNameCannotBeGuessedFromTheJob) {
  const core::TrainingJob job = MakeJob("gpt");
  const Key key = *GangKey(kMaster, job);
  const std::string name = KeySecretName(job, key);
  EXPECT_THAT(name, testing::MatchesRegex("gpt-key-[0-9a-f]{16}"));
  EXPECT_EQ(KeySecretName(job, key), name);
  EXPECT_NE(KeySecretName(job, *GangKey(std::vector<uint8_t>(32, 8), job)), name);
  EXPECT_EQ(name.find(job.metadata.uid.substr(0, 8)), std::string::npos);
}

TEST(GangKey, IsTheSameForOneJobAndDiffersForAnother) {
  core::TrainingJob job = MakeJob("gpt");
  const Key key = *GangKey(kMaster, job);
  EXPECT_EQ(*GangKey(kMaster, job), key);
  EXPECT_EQ(KeySecretObject(job, key), KeySecretObject(job, *GangKey(kMaster, job)));

  job.metadata.uid = "another";
  EXPECT_NE(*GangKey(kMaster, job), key);
}

// So that pods which mount the Secret of an older operator, and those made since, are one gang.
TEST(KeySecret, HoldsWhatTheSecretUnderItsOldNameHolds) {
  const core::TrainingJob job = MakeJob("gpt");
  const json secret = json::parse(KeySecretObject(job, *GangKey(kMaster, job)));
  EXPECT_EQ(secret["data"], json({{"gang", "AwP3inmoamdoD6iBwbaYIUBC7uo02YGBHUeTD/RRTLI="}}));
}

TEST(GangKey, NeedsAMasterKeyAndAUid) {
  core::TrainingJob job = MakeJob("gpt");
  EXPECT_FALSE(GangKey(std::vector<uint8_t>(8), job).ok());
  job.metadata.uid.clear();
  EXPECT_FALSE(GangKey(kMaster, job).ok());
}

}  // namespace
}  // namespace lockstep::control
