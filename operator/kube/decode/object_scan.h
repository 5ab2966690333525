// ObjectScan: finds out which object a JSON text is about, where the text is too long or too deep
// to be read. It looks at each byte once and keeps none but names, to any length and depth.
//
//   ObjectScan scan(ObjectScan::Of::kWatchLine);
//   while (...) scan.Feed(bytes);
//   if (scan.NamesObject()) Log(scan.meta().name_space, scan.meta().name);
//
// It does not validate. Text that is no JSON yields no name, or a wrong one.
#ifndef LOCKSTEP_OPERATOR_KUBE_DECODE_OBJECT_SCAN_H_
#define LOCKSTEP_OPERATOR_KUBE_DECODE_OBJECT_SCAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/views.h"

namespace lockstep::kube {

class ObjectScan {
 public:
  enum class Of : uint8_t {
    kObject,     // {"metadata": {"name": ...}}
    kWatchLine,  // {"type": "ADDED", "object": {"metadata": {"name": ...}}}
  };

  explicit ObjectScan(Of of) : base_(of == Of::kWatchLine ? 1 : 0) {}

  // The next bytes of the text, in pieces of any size.
  void Feed(std::string_view bytes);

  // Whether the text began as an object does.
  bool IsObject() const { return is_object_; }
  bool NamesObject() const { return !meta_.name.empty(); }
  // Only name, namespace, UID and resource version are set.
  const ObjectMeta& meta() const { return meta_; }
  // kWatchLine: "ADDED", ...
  const std::string& type() const { return type_; }

 private:
  static constexpr size_t kLevels = 4;  // below which nothing is looked at
  static constexpr size_t kLongestText = 256;

  void FeedText(char byte);
  void FeedOther(char byte);
  void EndText();
  void OnValue();

  const size_t base_;  // the level of the object within the text
  size_t level_ = 0;
  std::array<bool, kLevels> is_map_{};       // by level, from 1
  std::array<std::string, kLevels> keys_{};  // likewise: the key whose value comes
  bool started_ = false;
  bool is_object_ = false;
  bool in_text_ = false;
  bool escaped_ = false;
  bool awaits_key_ = false;
  std::string text_;
  std::string type_;
  ObjectMeta meta_;
};

// A list and its items, taken apart without a look at what they hold.
struct ListParts {
  std::vector<std::string_view> items;  // parts of the list's text
  std::string rest;                     // the list with no items
};
ListParts TakeApart(std::string_view list);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_DECODE_OBJECT_SCAN_H_
