#include "operator/policy/status/refusal.h"

#include <string_view>

#include "operator/policy/status/advice.h"

namespace lockstep::control {
namespace {

// `pods "gpt-0" is forbidden: exceeded quota: ...`: what is refused is said already.
std::string_view WithoutObject(std::string_view message) {
  constexpr std::string_view kForbidden = " is forbidden: ";
  const size_t at = message.find(kForbidden);
  const bool of_object = at != std::string_view::npos && message.substr(0, at).ends_with('"');
  return of_object ? message.substr(at + kForbidden.size()) : message;
}

}  // namespace

Why WhyRefused(const ReconcileContext& context, const Refusal& refusal) {
  constexpr const char* kFailedCreate = "FailedCreate";
  switch (refusal.kind) {
    case Refusal::Kind::kNameConflict:
      return {
          "NameConflict",
          refusal.object +
              " exists and does not belong to this job: delete it, or give the job another name"};
    case Refusal::Kind::kForbidden:
      return {kFailedCreate,
              Compose(refusal.object + " may not be created", WithoutObject(refusal.message),
                      AdviceOnRefusal(refusal.message, context.snapshot.installer),
                      core::kMaxStatusString)};
    case Refusal::Kind::kNotServed:
      return {kFailedCreate, refusal.object + " cannot be created: " + refusal.message};
    case Refusal::Kind::kNotAnswered:
      return {kFailedCreate, Compose("the API server failed to write " + refusal.object,
                                     refusal.message, "it is tried again", core::kMaxStatusString)};
    case Refusal::Kind::kInvalid:
      return {kFailedCreate,
              "the API server does not accept " + refusal.object + ": " + refusal.message};
  }
  return {};
}

}  // namespace lockstep::control
