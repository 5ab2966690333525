// PagedList<T>: one list, read in pages, so that no number of objects makes an answer too large.
// It says what to ask for next and takes the answers; the caller sends them.
//
//   PagedList<PodView> pods(Path(kPods, "default"), "labelSelector=...");
//   while (!pods.done()) {
//     if (auto error = pods.Take(client.CallAndWait(pods.Next()))) return *error;
//   }
//
// All pages are of one version. Where a page is too large, it is asked for in smaller ones; where
// the server has forgotten that version (410), the list begins anew.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_PAGED_LIST_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_PAGED_LIST_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/api.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/http/transport.h"

namespace lockstep::kube {

template <typename T>
class PagedList {
 public:
  // `path`: of the collection. `query`: labelSelector=...; may be empty.
  PagedList(std::string path, std::string query)
      : path_(std::move(path)), query_(std::move(query)) {}

  bool done() const { return done_; }
  Request Next() const {
    std::string query = query_.empty() ? "" : query_ + "&";
    query += Query({{"limit", std::to_string(page_size_)}});
    if (!continue_.empty()) query += "&" + Query({{"continue", continue_}});
    Request request;
    request.path = path_ + "?" + query;
    return request;
  }

  // Takes the answer to Next(). An error: the list cannot be read.
  std::optional<ApiError> Take(ApiResult<std::string> answer) {
    if (!answer.ok()) return OnError(answer.error());
    Result<ListPage> page = decoder_.Page(std::move(*answer), &items_);
    if (!page.ok()) return Undecodable(page.error());
    std::ranges::move(page->unreadable, std::back_inserter(unreadable_));
    resource_version_ = std::move(page->resource_version);
    continue_ = std::move(page->next);
    page_size_ = std::min(page_size_ * 2, kPageSize);
    done_ = continue_.empty();
    return std::nullopt;
  }

  // Once it is done.
  std::vector<T>& items() { return items_; }
  const std::vector<UnreadableObject>& unreadable() const { return unreadable_; }
  const std::string& resource_version() const { return resource_version_; }

 private:
  static constexpr uint32_t kPageSize = 500;
  static constexpr int kMostRestarts = 4;

  std::optional<ApiError> OnError(const ApiError& error) {
    const bool too_large = error.kind == ApiErrorKind::kDecode && error.http == 0;
    if (too_large && page_size_ > 1) {
      page_size_ = std::max(page_size_ / 4, 1U);
      return std::nullopt;
    }
    if (error.kind != ApiErrorKind::kGone || restarts_ == kMostRestarts) return error;
    ++restarts_;
    continue_.clear();
    items_.clear();
    unreadable_.clear();
    return std::nullopt;
  }

  static ApiError Undecodable(const Error& error) {
    ApiError undecodable;
    undecodable.kind = ApiErrorKind::kDecode;
    undecodable.message = error.message;
    return undecodable;
  }

  const std::string path_;
  const std::string query_;
  uint32_t page_size_ = kPageSize;
  int restarts_ = 0;
  bool done_ = false;
  std::string continue_;
  std::string resource_version_;
  std::vector<T> items_;
  std::vector<UnreadableObject> unreadable_;
  Decoder decoder_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_PAGED_LIST_H_
