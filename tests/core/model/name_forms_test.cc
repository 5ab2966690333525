#include "core/model/name_forms.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::core {
namespace {

TEST(NameForms, TellLabelsFromOtherTexts) {
  for (const char* name : {"a", "a-1", "1"}) EXPECT_TRUE(IsDnsLabel(name)) << name;
  for (const char* name : {"", "-a", "a-", "A", "a.b", "a_b"})
    EXPECT_FALSE(IsDnsLabel(name)) << name;
  EXPECT_TRUE(IsDnsLabel(std::string(63, 'a')));
  EXPECT_FALSE(IsDnsLabel(std::string(64, 'a')));
}

TEST(NameForms, TellSubdomainsByTheirLabelsAndLength) {
  EXPECT_TRUE(IsDnsSubdomain("a.b-1.c"));
  for (const char* name : {"", ".", "a.", ".a", "a..b"}) EXPECT_FALSE(IsDnsSubdomain(name)) << name;
  const std::string label(63, 'a');
  const std::string long_name = label + "." + label + "." + label + "." + std::string(61, 'a');
  EXPECT_TRUE(IsDnsSubdomain(long_name));
  EXPECT_FALSE(IsDnsSubdomain(long_name + "a"));
}

TEST(NameForms, TellQualifiedNamesWithAndWithoutADomain) {
  for (const char* name : {"a", "A_b.c-1", "nvidia.com/gpu", "hugepages-2Mi"}) {
    EXPECT_TRUE(IsQualifiedName(name)) << name;
  }
  for (const char* name : {"", "/a", "a/", "A.b/c", "a/b/c", "-a", "a b"}) {
    EXPECT_FALSE(IsQualifiedName(name)) << name;
  }
}

TEST(NameForms, TellVariablesThatEveryKubernetesTakes) {
  for (const char* name : {"A", "_a", "a.b-c", "-a"}) EXPECT_TRUE(IsVariableName(name)) << name;
  for (const char* name : {"", "1A", "A=B", "A B", "\xC3\xA9"}) {
    EXPECT_FALSE(IsVariableName(name)) << name;
  }
}

}  // namespace
}  // namespace lockstep::core
