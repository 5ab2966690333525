#include "core/model/parse.h"

#include "core/model/read.h"
#include "core/model/shortcuts.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

ParseResult FromDocument(Document document) {
  if (!document.root) return {.job = std::nullopt, .problems = std::move(document.problems)};
  LiftShortcuts(*document.root);
  return ReadJob(*document.root, Origin::kUser);
}

}  // namespace

ParseResult ParseYaml(std::string_view text) { return FromDocument(ReadYaml(text)); }
ParseResult ParseJson(std::string_view text) { return FromDocument(ReadJson(text)); }

ParseResult ReadStoredJob(Node document) {
  LiftShortcuts(document);
  return ReadJob(document, Origin::kApiServer);
}

}  // namespace lockstep::core
