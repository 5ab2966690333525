#include "operator/kube/api.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

TEST(ApiTest, PathsAreThoseOfTheKubernetesApi) {
  EXPECT_EQ(Path(kPods, "default", "a-0"), "/api/v1/namespaces/default/pods/a-0");
  EXPECT_EQ(Path(kPods, "default"), "/api/v1/namespaces/default/pods");
  EXPECT_EQ(Path(kNodes, "", "n1"), "/api/v1/nodes/n1");
  EXPECT_EQ(Path(kTrainingJobs, "a", "b", "status"),
            "/apis/lockstep.dev/v1alpha1/namespaces/a/trainingjobs/b/status");
  EXPECT_EQ(Path(kLeases, "", "", "", Query({{"watch", "1"}, {"labelSelector", "a=b,c"}})),
            "/apis/coordination.k8s.io/v1/leases?watch=1&labelSelector=a%3Db%2Cc");
  EXPECT_EQ(Path(kPods, "..", "a/b?c"), "/api/v1/namespaces/../pods/a%2Fb%3Fc");
}

TEST(ApiTest, EveryStatusHasItsKind) {
  const std::pair<int, ApiErrorKind> kinds[] = {
      {301, ApiErrorKind::kServer},       {400, ApiErrorKind::kInvalid},
      {401, ApiErrorKind::kUnauthorized}, {403, ApiErrorKind::kForbidden},
      {404, ApiErrorKind::kNotFound},     {409, ApiErrorKind::kConflict},
      {410, ApiErrorKind::kGone},         {413, ApiErrorKind::kInvalid},
      {422, ApiErrorKind::kInvalid},      {429, ApiErrorKind::kTooManyRequests},
      {500, ApiErrorKind::kServer},       {502, ApiErrorKind::kServer},
      {503, ApiErrorKind::kServer},       {504, ApiErrorKind::kTimeout}};
  for (auto [http, kind] : kinds) {
    ApiError error = ErrorOfStatus(http, "<html>", seconds(3), true);
    EXPECT_EQ(error.kind, kind) << http;
    EXPECT_EQ(error.http, http);
    EXPECT_EQ(error.ambiguous, http >= 500) << http;
    EXPECT_EQ(error.message.find("html"), std::string::npos);
    EXPECT_FALSE(ErrorOfStatus(http, "", {}, false).ambiguous);
  }
}

TEST(ApiTest, AMessageIsBoundedAndWhole) {
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\u20ac";
  ApiError error =
      ErrorOfStatus(422, R"({"kind":"Status","message":")" + euros + R"("})", {}, true);
  EXPECT_EQ(error.message, euros.substr(0, 1023));
}

TEST(ApiTest, AnyBodyWhateverGivesAnError) {
  for (const char* body :
       {"", "{", "[]", "null", "{\"kind\":7}", "{\"kind\":\"Status\",\"reason\":7}", "\xff\xfe",
        "{\"kind\":\"Status\",\"message\":null}"}) {
    EXPECT_EQ(ErrorOfStatus(500, body, {}, false).kind, ApiErrorKind::kServer) << body;
  }
}

}  // namespace
}  // namespace lockstep::kube
