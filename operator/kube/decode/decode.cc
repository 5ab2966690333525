#include "operator/kube/decode/decode.h"

#include <utility>

#include "operator/kube/decode/decode_fields.h"
#include "operator/kube/decode/object_scan.h"

namespace lockstep::kube {

using decode::error_code;
using simdjson::SUCCESS;
namespace ondemand = simdjson::ondemand;

static_assert(kDecodePadding >= simdjson::SIMDJSON_PADDING);

// A parser's buffers never shrink: a text that is longer than this has one of its own.
constexpr size_t kKeptParser = size_t{1} << 20;

struct Decoder::Parser {
  ondemand::parser json;
};

Decoder::Decoder() : parser_(std::make_unique<Parser>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

namespace {

Error Broken(std::string_view what, error_code error) {
  return Error::Invalid("the API server sent " + std::string(what) +
                        " that cannot be read: " + simdjson::error_message(error));
}

// Room behind `body` for what the parser may read there.
std::string_view Pad(std::string& body) {
  body.reserve(body.size() + kDecodePadding);
  return body;
}

error_code Open(ondemand::parser& parser, std::string_view padded, ondemand::document& document) {
  return parser.iterate(padded.data(), padded.size(), padded.size() + kDecodePadding).get(document);
}

// The object's text; it can be read from its beginning afterwards.
error_code TextOf(ondemand::object& object, std::string_view& json) {
  if (auto error = object.raw_json().get(json)) return error;
  json = Trim(json);
  return object.reset().error();
}

template <typename T>
error_code ReadWhole(ondemand::object object, T& view) {
  std::string_view json;
  if constexpr (requires { view.json; }) {
    if (auto error = TextOf(object, json)) return error;
  }
  if (auto error = decode::ReadView(object, json, view)) return error;
  return view.meta.name.empty() ? simdjson::NO_SUCH_FIELD : SUCCESS;
}

error_code ReadBookmark(ondemand::object object, WatchLine& line) {
  return decode::ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (!decode::Is(key, "metadata")) return SUCCESS;
    ObjectMeta meta;
    decode::Extras extras;
    const error_code error = decode::ReadMeta(value, meta, extras);
    line.resource_version = std::move(meta.resource_version);
    line.initial_events_end = extras.initial_events_end;
    return error;
  });
}

error_code ReadStatus(ondemand::object object, WatchLine& line) {
  std::string_view json;
  if (auto error = TextOf(object, json)) return error;
  int64_t code = 0;
  const error_code error =
      decode::ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
        return decode::Is(key, "code") ? decode::Read(value, code) : SUCCESS;
      });
  line.error = ErrorOfStatus(code > 0 && code < 1000 ? static_cast<int>(code) : 500, json,
                             std::nullopt, /*write=*/false);
  return error;
}

std::optional<WatchLine::Type> TypeOf(std::string_view text) {
  if (text == "ADDED") return WatchLine::Type::kAdded;
  if (text == "MODIFIED") return WatchLine::Type::kModified;
  if (text == "DELETED") return WatchLine::Type::kDeleted;
  if (text == "BOOKMARK") return WatchLine::Type::kBookmark;
  if (text == "ERROR") return WatchLine::Type::kError;
  return std::nullopt;
}

template <typename T>
error_code ReadLine(ondemand::parser& parser, std::string_view padded, WatchLine& line, T& view) {
  ondemand::document document;
  if (auto error = Open(parser, padded, document)) return error;
  std::string_view type_text;
  if (auto error = document["type"].get_string().get(type_text)) return error;
  auto type = TypeOf(type_text);
  if (!type) return simdjson::INCORRECT_TYPE;
  line.type = *type;
  ondemand::object object;
  if (auto error = document["object"].get_object().get(object)) return error;
  if (type == WatchLine::Type::kBookmark) return ReadBookmark(object, line);
  if (type == WatchLine::Type::kError) return ReadStatus(object, line);
  view = T{};
  const error_code error = ReadWhole(object, view);
  line.resource_version = view.meta.resource_version;
  return error;
}

error_code ReadListMeta(ondemand::value value, ListPage& page) {
  return decode::ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (decode::Is(key, "resourceVersion")) return decode::Read(field, page.resource_version);
    if (decode::Is(key, "continue")) return decode::Read(field, page.next);
    return SUCCESS;
  });
}

template <typename T>
error_code ReadPage(ondemand::parser& parser, std::string_view padded, ListPage& page,
                    std::vector<T>& items) {
  ondemand::document document;
  if (auto error = Open(parser, padded, document)) return error;
  ondemand::object list;
  if (auto error = document.get_object().get(list)) return error;
  return decode::ForEachField(list, [&](ondemand::raw_json_string key, ondemand::value value) {
    if (decode::Is(key, "metadata")) return ReadListMeta(value, page);
    if (!decode::Is(key, "items")) return SUCCESS;
    return decode::ReadArray(value, [&](ondemand::value element) {
      ondemand::object object;
      if (auto error = element.get_object().get(object)) return error;
      return ReadWhole(object, items.emplace_back());
    });
  });
}

template <typename T>
error_code ReadObject(ondemand::parser& parser, std::string_view padded, T& view) {
  ondemand::document document;
  ondemand::object object;
  if (auto error = Open(parser, padded, document)) return error;
  if (auto error = document.get_object().get(object)) return error;
  return ReadWhole(object, view);
}

// Each item by itself. An item that cannot be read and has no name either is an error.
template <typename T>
error_code ReadItemByItem(std::string_view list, ListPage& page, std::vector<T>& items) {
  ondemand::parser parser;
  ListParts parts = TakeApart(list);
  if (auto error = ReadPage(parser, Pad(parts.rest), page, items)) return error;
  for (const std::string_view text : parts.items) {
    std::string item(text);
    T view;
    const error_code error = ReadObject(parser, Pad(item), view);
    if (error == SUCCESS) {
      items.push_back(std::move(view));
      continue;
    }
    ObjectScan scan(ObjectScan::Of::kObject);
    scan.Feed(text);
    if (!scan.NamesObject()) return error;
    page.unreadable.push_back({scan.meta(), simdjson::error_message(error)});
  }
  return SUCCESS;
}

}  // namespace

std::string StatusAlone(std::string_view json) {
  std::string text(json);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  std::string_view status;
  const bool found =
      Open(parser, Pad(text), document) == SUCCESS &&
      document.get_object().get(object) == SUCCESS &&
      decode::ForEachField(object, [&](ondemand::raw_json_string key, ondemand::value value) {
        ondemand::object fields;
        if (!decode::Is(key, "status") || value.get_object().get(fields)) return SUCCESS;
        return fields.raw_json().get(status);
      }) == SUCCESS;
  if (!found || status.empty()) return "{}";
  return R"({"status": )" + std::string(Trim(status)) + "}";
}

void Refuse(JobView& job, std::string why) {
  job.json = StatusAlone(job.json);
  job.refusal = std::move(why);
}

template <typename T>
Result<WatchLine> Decoder::Line(std::string_view padded, T* object) {
  WatchLine line;
  ondemand::parser large;
  ondemand::parser& parser = padded.size() > kKeptParser ? large : parser_->json;
  if (auto error = ReadLine(parser, padded, line, *object)) {
    return Broken("a watch event", error);
  }
  return line;
}

template <typename T>
Result<ListPage> Decoder::Page(std::string body, std::vector<T>* items) {
  // A parser of its own: a page is large and rare, and buffers never shrink.
  ondemand::parser parser;
  ListPage page;
  const size_t before = items->size();
  error_code error = ReadPage(parser, Pad(body), page, *items);
  if (error) {
    items->resize(before);
    page = {};
    error = ReadItemByItem(body, page, *items);
  }
  if (error) return Broken("a list", error);
  if (page.resource_version.empty()) return Broken("a list", simdjson::NO_SUCH_FIELD);
  return page;
}

template <typename T>
Result<T> Decoder::Object(std::string body) {
  T view;
  ondemand::parser large;
  ondemand::parser& parser = body.size() > kKeptParser ? large : parser_->json;
  if (auto error = ReadObject(parser, Pad(body), view)) return Broken("an object", error);
  return view;
}

template Result<WatchLine> Decoder::Line(std::string_view, PodView*);
template Result<WatchLine> Decoder::Line(std::string_view, JobView*);
template Result<WatchLine> Decoder::Line(std::string_view, ServiceView*);
template Result<WatchLine> Decoder::Line(std::string_view, SliceView*);
template Result<WatchLine> Decoder::Line(std::string_view, NodeView*);
template Result<WatchLine> Decoder::Line(std::string_view, WorkloadView*);
template Result<WatchLine> Decoder::Line(std::string_view, FlavorView*);
template Result<WatchLine> Decoder::Line(std::string_view, ClaimView*);
template Result<ListPage> Decoder::Page(std::string, std::vector<PodView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<JobView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<ServiceView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<SliceView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<NodeView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<WorkloadView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<FlavorView>*);
template Result<ListPage> Decoder::Page(std::string, std::vector<ClaimView>*);
template Result<PodView> Decoder::Object(std::string);
template Result<JobView> Decoder::Object(std::string);
template Result<ServiceView> Decoder::Object(std::string);
template Result<SliceView> Decoder::Object(std::string);
template Result<NodeView> Decoder::Object(std::string);
template Result<WorkloadView> Decoder::Object(std::string);
template Result<FlavorView> Decoder::Object(std::string);
template Result<ClaimView> Decoder::Object(std::string);

}  // namespace lockstep::kube
