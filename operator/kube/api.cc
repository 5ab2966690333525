#include "operator/kube/api.h"

#include "base/text/json.h"

namespace lockstep::kube {
namespace {

constexpr size_t kMaxMessage = 1024;

// Messages go into logs and statuses, so they are cut, and valid UTF-8.
std::string Shorten(std::string text) {
  if (text.size() <= kMaxMessage) return text;
  size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

std::string Text(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

ApiErrorKind KindOf(int http, const std::string& reason) {
  switch (http) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return ApiErrorKind::kInvalid;
    case 401:
      return ApiErrorKind::kUnauthorized;
    case 403:
      return ApiErrorKind::kForbidden;
    case 404:
      return ApiErrorKind::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? ApiErrorKind::kAlreadyExists : ApiErrorKind::kConflict;
    case 410:
      return ApiErrorKind::kGone;
    case 429:
      return ApiErrorKind::kTooManyRequests;
    case 504:
      return ApiErrorKind::kTimeout;
    default:
      return ApiErrorKind::kServer;
  }
}

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

void AppendEncoded(std::string_view text, std::string* to) {
  constexpr char kHex[] = "0123456789ABCDEF";
  for (char c : text) {
    if (IsUnreserved(c)) {
      to->push_back(c);
    } else {
      auto byte = static_cast<unsigned char>(c);
      to->push_back('%');
      to->push_back(kHex[byte >> 4]);
      to->push_back(kHex[byte & 15]);
    }
  }
}

}  // namespace

const char* ToString(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kNotFound:
      return "NotFound";
    case ApiErrorKind::kAlreadyExists:
      return "AlreadyExists";
    case ApiErrorKind::kConflict:
      return "Conflict";
    case ApiErrorKind::kGone:
      return "Gone";
    case ApiErrorKind::kTooManyRequests:
      return "TooManyRequests";
    case ApiErrorKind::kForbidden:
      return "Forbidden";
    case ApiErrorKind::kUnauthorized:
      return "Unauthorized";
    case ApiErrorKind::kInvalid:
      return "Invalid";
    case ApiErrorKind::kTimeout:
      return "Timeout";
    case ApiErrorKind::kServer:
      return "Server";
    case ApiErrorKind::kTransport:
      return "Transport";
    case ApiErrorKind::kDecode:
      return "Decode";
  }
  return "Unknown";
}

ApiError ErrorOfStatus(int http, std::string_view body, std::optional<Duration> retry_after,
                       bool write) {
  ApiError error;
  error.http = http;
  error.retry_after = retry_after;
  error.ambiguous = write && http >= 500;
  auto status = ParseJson(body);
  if (status.is_object() && Text(status, "kind") == "Status") {
    error.reason = Text(status, "reason");
    error.message = Shorten(Text(status, "message"));
  } else {
    error.message = "HTTP status " + std::to_string(http) + " without a Status object";
  }
  error.kind = KindOf(http, error.reason);
  return error;
}

ApiError ErrorOfTransport(const Error& error, bool write) {
  return {.kind = error.kind == ErrorKind::kTimeout    ? ApiErrorKind::kTimeout
                  : error.kind == ErrorKind::kTooLarge ? ApiErrorKind::kDecode
                                                       : ApiErrorKind::kTransport,
          .http = 0,
          .reason = "",
          .message = Shorten(error.message),
          .retry_after = std::nullopt,
          .ambiguous = write && error.kind != ErrorKind::kDenied};
}

std::string Path(const Resource& resource, std::string_view name_space, std::string_view name,
                 std::string_view subresource, std::string_view query) {
  std::string path = resource.group.empty() ? "/api" : "/apis/";
  path.append(resource.group).append("/").append(resource.version);
  if (!name_space.empty()) {
    path += "/namespaces/";
    AppendEncoded(name_space, &path);
  }
  path.append("/").append(resource.plural);
  if (!name.empty()) {
    path += '/';
    AppendEncoded(name, &path);
  }
  if (!subresource.empty()) path.append("/").append(subresource);
  if (!query.empty()) path.append("?").append(query);
  return path;
}

std::string Query(std::initializer_list<std::pair<std::string_view, std::string_view>> parameters) {
  std::string query;
  for (const auto& [key, value] : parameters) {
    if (!query.empty()) query += '&';
    AppendEncoded(key, &query);
    query += '=';
    AppendEncoded(value, &query);
  }
  return query;
}

}  // namespace lockstep::kube
