// The files that users read: every example runs as it is written, and the reference names every
// field.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "core/model/fields.h"
#include "core/model/parse.h"
#include "core/validate/validate.h"

namespace lockstep::core {
namespace {

// ctest runs the tests in the root of the tree.
std::filesystem::path Root() { return std::filesystem::current_path(); }

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Those that only a cluster can run.
const std::set<std::string> kNeedSecrets = {"cluster.yaml", "secrets.yaml"};

TEST(Examples, AreJobsThatCanRun) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Root() / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++examples;
    const ParseResult parsed = ParseYaml(Read(entry.path()));
    ASSERT_TRUE(parsed.ok()) << Format(parsed.problems, entry.path().string());
    EXPECT_EQ(Format(Validate(*parsed.job, Target::kCluster), entry.path().string()), "");
    if (kNeedSecrets.contains(entry.path().filename())) continue;
    EXPECT_EQ(Format(Validate(*parsed.job, Target::kLocal), entry.path().string()), "");
  }
  EXPECT_GE(examples, 3);
}

template <typename Struct>
void ExpectNamed(const std::string& reference) {
  for (const std::string_view name : FieldNames<Struct>()) {
    EXPECT_NE(reference.find(name), std::string::npos) << name;
  }
}

TEST(Reference, NamesEveryField) {
  const std::string reference = Read(Root() / "docs/reference/trainingjob.md");
  ExpectNamed<Spec>(reference);
  ExpectNamed<Trainer>(reference);
  ExpectNamed<ModelShape>(reference);
  ExpectNamed<Parallel>(reference);
  ExpectNamed<ResourcesPerProcess>(reference);
  ExpectNamed<Topology>(reference);
  ExpectNamed<Placement>(reference);
  ExpectNamed<Scheduling>(reference);
  ExpectNamed<Network>(reference);
  ExpectNamed<FailurePolicy>(reference);
  ExpectNamed<FailureRule>(reference);
  ExpectNamed<Checkpoint>(reference);
  ExpectNamed<Health>(reference);
  ExpectNamed<Logs>(reference);
}

}  // namespace
}  // namespace lockstep::core
