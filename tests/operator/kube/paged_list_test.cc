#include "operator/kube/watch/paged_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/kube/views.h"

namespace lockstep::kube::paged_list_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Pod(const std::string& name) {
  return R"({"metadata":{"namespace":"default","name":")" + name + R"(","resourceVersion":"3"}})";
}
std::string Page(const std::string& items, const std::string& next) {
  return R"({"metadata":{"resourceVersion":"7","continue":")" + next + R"("},"items":[)" + items +
         "]}";
}
ApiError Fault(ApiErrorKind kind, int http) {
  ApiError error;
  error.kind = kind;
  error.http = http;
  return error;
}

class PagedListTest : public testing::Test {
 protected:
  std::string Path() const { return list_.Next().path; }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const PodView& pod : list_.items()) names.push_back(pod.meta.name);
    return names;
  }

  PagedList<PodView> list_{"/api/v1/pods", "labelSelector=x"};
};

TEST_F(PagedListTest, ReadsAllPages) {
  EXPECT_EQ(Path(), "/api/v1/pods?labelSelector=x&limit=500");
  EXPECT_FALSE(list_.Take(Page(Pod("a"), "next/+")));
  EXPECT_FALSE(list_.done());
  EXPECT_EQ(Path(), "/api/v1/pods?labelSelector=x&limit=500&continue=next%2F%2B");
  EXPECT_FALSE(list_.Take(Page(Pod("b"), "")));
  EXPECT_TRUE(list_.done());
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_EQ(list_.resource_version(), "7");
}

TEST_F(PagedListTest, APageThatIsTooLargeIsAskedForInSmallerOnes) {
  EXPECT_FALSE(list_.Take(Page(Pod("a"), "t")));
  EXPECT_FALSE(list_.Take(Fault(ApiErrorKind::kDecode, 0)));
  EXPECT_THAT(Path(), HasSubstr("limit=125&continue=t"));
  EXPECT_FALSE(list_.Take(Page(Pod("b"), "u")));
  EXPECT_THAT(Path(), HasSubstr("limit=250&continue=u"));
  EXPECT_FALSE(list_.Take(Page(Pod("c"), "")));
  EXPECT_THAT(Names(), ElementsAre("a", "b", "c"));
}

TEST_F(PagedListTest, OneObjectThatIsTooLargeByItselfIsAnError) {
  int asked = 0;
  while (!list_.Take(Fault(ApiErrorKind::kDecode, 0))) ASSERT_LT(++asked, 20);
}

TEST_F(PagedListTest, BeginsAnewWhenTheServerForgotItsVersionButNotForEver) {
  EXPECT_FALSE(list_.Take(Page(Pod("old"), "t")));
  EXPECT_FALSE(list_.Take(Fault(ApiErrorKind::kGone, 410)));
  EXPECT_THAT(Path(), Not(HasSubstr("continue")));
  EXPECT_FALSE(list_.Take(Page(Pod("a"), "")));
  EXPECT_THAT(Names(), ElementsAre("a"));

  PagedList<PodView> never("/api/v1/pods", "");
  int times = 0;
  while (!never.Take(Fault(ApiErrorKind::kGone, 410))) ASSERT_LT(++times, 20);
}

TEST_F(PagedListTest, AnObjectThatCannotBeReadIsNamedAndTheOthersAreRead) {
  const std::string half_a_character =
      R"({"metadata":{"namespace":"team","name":"bad","uid":"\ud800"}})";
  const std::string no_text =
      R"({"metadata":{"namespace":"team","name":"worse"},"spec":")" + std::string("\xff\"}");
  EXPECT_FALSE(
      list_.Take(Page(Pod("a") + "," + half_a_character + "," + no_text + "," + Pod("b"), "")));
  EXPECT_TRUE(list_.done());
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  ASSERT_EQ(list_.unreadable().size(), 2U);
  EXPECT_EQ(list_.unreadable()[0].meta.name_space, "team");
  EXPECT_EQ(list_.unreadable()[0].meta.name, "bad");
  EXPECT_EQ(list_.unreadable()[1].meta.name, "worse");
  EXPECT_EQ(list_.resource_version(), "7");
}

TEST_F(PagedListTest, WhatIsNoListIsAnError) {
  const auto error = list_.Take(std::string("<html>"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ApiErrorKind::kDecode);
}

}  // namespace
}  // namespace lockstep::kube::paged_list_test
