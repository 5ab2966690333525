#include "cli/cluster/page/rights.h"

#include <utility>

#include "base/text/json.h"
#include "core/text/limited_text.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr kube::Resource kReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews"};

constexpr size_t kMostOfNote = 512;

}  // namespace

void AskRight(Connection& cluster, const Right& right, const std::string& name_space,
              std::function<void(Result<bool> allowed)> done) {
  const Json attributes = {{"verb", right.verb},
                           {"group", right.group},
                           {"resource", right.resource},
                           {"subresource", right.subresource},
                           {"namespace", name_space}};
  cluster.client().Call(
      {.method = kube::Method::kPost,
       .path = kube::Path(kReviews, ""),
       .body = R"({"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",)"
               R"("spec":{"resourceAttributes":)" +
               DumpJson(attributes) + "}}"},
      [done = std::move(done)](const kube::ApiResult<std::string>& answer) {
        const bool asking_is_denied =
            !answer.ok() && answer.error().kind == kube::ApiErrorKind::kForbidden;
        if (asking_is_denied) return done(false);
        const Json said = answer.ok() ? ParseJson(*answer) : Json();
        const auto status = said.is_object() ? said.find("status") : said.end();
        if (status != said.end() && status->is_object()) {
          return done(status->value("allowed", Json()) == Json(true));
        }
        done(Error::Unavailable("the API server does not say whether it is allowed" +
                                (answer.ok() ? "" : ": " + answer.error().message)));
      });
}

std::string MissingRight(const std::string& resource, const std::string& verbs,
                         const std::string& name_space, const std::string& hidden) {
  return resource + ": " + verbs + " is missing in namespace " + name_space + ", so " + hidden +
         " not shown";
}

std::string AsNote(std::string_view sentence) {
  return core::OneLine(core::FirstBytes(sentence, kMostOfNote));
}

}  // namespace lockstep::cli
