// Decoder: JSON of the API server into views, by simdjson On-Demand. It makes one pass and looks
// only at fields that a view holds; the rest is skipped without validation. A field of a wrong type
// counts as absent. Text that is not JSON, or an object without a name, is Invalid. One object of a
// list that cannot be read is named, and costs the others nothing.
//
// Keeps its parser's buffers from call to call. One thread at a time.
#ifndef LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_H_
#define LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "operator/kube/api.h"
#include "operator/kube/views.h"

namespace lockstep::kube {

// Bytes that must be readable behind each text given to a Decoder (they are not looked at).
inline constexpr size_t kDecodePadding = 64;
// The longest line of a watch that is read. etcd takes objects of 1.5 MiB by default; as JSON they
// can be six times as long, because the API server writes <, > and & as six bytes.
inline constexpr size_t kMaxWatchLine = size_t{10} << 20;

// One line of a watch, but for its object.
struct WatchLine {
  enum class Type : uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };

  Type type = Type::kAdded;
  std::string resource_version;     // the object's, or the bookmark's
  bool initial_events_end = false;  // bookmark: the state so far is whole
  ApiError error;                   // type kError
};

// An object that exists and cannot be read.
struct UnreadableObject {
  ObjectMeta meta;  // name, namespace, UID and resource version
  std::string why;
};

// One page of a list, but for its items.
struct ListPage {
  std::string resource_version;
  std::string next;  // the continue token; empty on the last page
  std::vector<UnreadableObject> unreadable;
};

// The most that is kept of an object as text. A job of 4,096 machines with 128 KiB of arguments has
// room; one that is larger is refused, unless it has begun.
inline constexpr size_t kMaxJobText = size_t{512} << 10;
inline constexpr size_t kMaxQueueText = size_t{256} << 10;  // of Kueue's

// Keeps the job's status alone, and why.
void Refuse(JobView& job, std::string why);
// Of the object's text: {"status": ...}, or {} where there is none.
std::string StatusAlone(std::string_view json);

class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // `object` is set for kAdded, kModified and kDeleted.
  template <typename T>
  Result<WatchLine> Line(std::string_view padded, T* object);

  // Appends the items. Takes the body for its memory: it may have to grow for the padding.
  template <typename T>
  Result<ListPage> Page(std::string body, std::vector<T>* items);

  // An object by itself, as GET and POST answer it.
  template <typename T>
  Result<T> Object(std::string body);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_H_
