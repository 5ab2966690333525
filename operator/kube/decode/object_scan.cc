#include "operator/kube/decode/object_scan.h"

#include <algorithm>

namespace lockstep::kube {
namespace {

bool IsSpace(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

}  // namespace

void ObjectScan::Feed(std::string_view bytes) {
  for (const char byte : bytes) {
    if (in_text_) {
      FeedText(byte);
    } else {
      FeedOther(byte);
    }
  }
}

void ObjectScan::FeedText(char byte) {
  if (escaped_) {
    escaped_ = false;  // the names that are looked for hold no escapes
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte == '"') {
    in_text_ = false;
    EndText();
  } else if (level_ < kLevels && text_.size() < kLongestText) {
    text_ += byte;
  }
}

void ObjectScan::FeedOther(char byte) {
  if (IsSpace(byte)) return;
  if (!started_) {
    started_ = true;
    is_object_ = byte == '{';
  }
  switch (byte) {
    case '"':
      in_text_ = true;
      text_.clear();
      break;
    case '{':
    case '[':
      ++level_;
      awaits_key_ = byte == '{';
      if (level_ < kLevels) is_map_[level_] = byte == '{';
      break;
    case '}':
    case ']':
      if (level_ > 0) --level_;
      awaits_key_ = false;
      break;
    case ',':
      awaits_key_ = level_ < kLevels && is_map_[level_];
      break;
    case ':':
      awaits_key_ = false;
      break;
    default:
      break;
  }
}

void ObjectScan::EndText() {
  if (level_ == 0 || level_ >= kLevels) return;
  if (awaits_key_) {
    keys_[level_] = text_;
  } else {
    OnValue();
  }
}

void ObjectScan::OnValue() {
  if (base_ == 1 && level_ == 1 && keys_[1] == "type") type_ = text_;
  const bool in_object = base_ == 0 || (is_map_[1] && keys_[1] == "object");
  const size_t metadata = base_ + 1;
  if (!in_object || level_ != metadata + 1) return;
  if (!is_map_[metadata] || !is_map_[level_] || keys_[metadata] != "metadata") return;
  const std::string& key = keys_[level_];
  if (key == "name") meta_.name = text_;
  if (key == "namespace") meta_.name_space = text_;
  if (key == "uid") meta_.uid = text_;
  if (key == "resourceVersion") meta_.resource_version = text_;
}

ListParts TakeApart(std::string_view list) {
  ListParts parts;
  size_t level = 0;
  bool in_text = false;
  bool in_items = false;
  size_t text_at = 0;
  size_t item_at = 0;
  size_t rest_at = 0;
  std::string_view last_text;
  for (size_t at = 0; at < list.size(); ++at) {
    const char byte = list[at];
    if (in_text) {
      if (byte == '\\') ++at;
      if (byte == '"') {
        in_text = false;
        if (level == 1) last_text = list.substr(text_at, at - text_at);
      }
      continue;
    }
    switch (byte) {
      case '"':
        in_text = true;
        text_at = at + 1;
        break;
      case '{':
      case '[':
        if (level == 1 && byte == '[' && last_text == "items") {
          in_items = true;
          parts.rest.append(list.substr(rest_at, at + 1 - rest_at));
        }
        if (level == 2 && in_items) item_at = at;
        ++level;
        break;
      case '}':
      case ']':
        if (level > 0) --level;
        if (level == 2 && in_items) parts.items.push_back(list.substr(item_at, at + 1 - item_at));
        if (level == 1 && in_items) {
          in_items = false;
          rest_at = at;
        }
        break;
      default:
        break;
    }
  }
  parts.rest.append(list.substr(std::min(rest_at, list.size())));
  return parts;
}

}  // namespace lockstep::kube
