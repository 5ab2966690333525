// Paths and errors of the Kubernetes API.
#ifndef LOCKSTEP_OPERATOR_KUBE_API_H_
#define LOCKSTEP_OPERATOR_KUBE_API_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::kube {

enum class ApiErrorKind {
  kNotFound,         // 404
  kAlreadyExists,    // 409, reason AlreadyExists: of a create
  kConflict,         // 409: another resourceVersion or UID than the request named
  kGone,             // 410: a resourceVersion too old to watch from or to list on with
  kTooManyRequests,  // 429
  kForbidden,        // 403; quota, too
  kUnauthorized,     // 401
  kInvalid,          // 400, 413, 415, 422: the same request can never succeed
  kTimeout,          // no answer in time, ours or the server's (504)
  kServer,           // any other status
  kTransport,        // not reached, or cut off; TLS
  kDecode,           // an answer that isn't what the API says it is
};

// "NotFound", "AlreadyExists", ...: also the code that metrics use.
const char* ToString(ApiErrorKind kind);

struct ApiError {
  ApiErrorKind kind = ApiErrorKind::kServer;
  int http = 0;         // 0: there was no answer
  std::string reason;   // of the Status object: "NotFound", "Expired"; may be empty
  std::string message;  // the server's, at most 1 KiB; or ours
  std::optional<Duration> retry_after;
  bool ambiguous = false;  // the write may have been committed: read before writing again
};

template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  ApiResult(ApiError error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  const ApiError& error() const { return std::get<ApiError>(state_); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

 private:
  std::variant<T, ApiError> state_;
};

// The error of an answer with this status. `body` is a Status object or anything else (HTML of a
// proxy). `write`: after a 5xx it is unknown whether the write was done.
ApiError ErrorOfStatus(int http, std::string_view body, std::optional<Duration> retry_after,
                       bool write);
// The same for a transport's Error.
ApiError ErrorOfTransport(const Error& error, bool write);

struct Resource {
  std::string_view group;  // "" is the core group
  std::string_view version;
  std::string_view plural;
};

inline constexpr Resource kTrainingJobs{"lockstep.dev", "v1alpha1", "trainingjobs"};
inline constexpr Resource kPods{"", "v1", "pods"};
inline constexpr Resource kServices{"", "v1", "services"};
inline constexpr Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices"};
inline constexpr Resource kWorkloads{"kueue.x-k8s.io", "v1beta2", "workloads"};
inline constexpr Resource kFlavors{"kueue.x-k8s.io", "v1beta2", "resourceflavors"};
inline constexpr Resource kQueuePriorities{"kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses"};
inline constexpr Resource kPriorities{"scheduling.k8s.io", "v1", "priorityclasses"};
inline constexpr Resource kSecrets{"", "v1", "secrets"};
inline constexpr Resource kNodes{"", "v1", "nodes"};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases"};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events"};

// "/api/v1/namespaces/NAMESPACE/pods/NAME/status?QUERY"; without a namespace, of all of them or of
// a resource that has none. Names are percent-encoded.
std::string Path(const Resource& resource, std::string_view name_space, std::string_view name = {},
                 std::string_view subresource = {}, std::string_view query = {});

// "a=1&b=x%3Dy".
std::string Query(std::initializer_list<std::pair<std::string_view, std::string_view>> parameters);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_API_H_
