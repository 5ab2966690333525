#include "core/model/json.h"

#include "core/model/fields.h"
#include "core/text/text.h"

namespace lockstep::core {

Node ToNode(const TrainingJob& job, Defaults defaults) {
  // Metadata has no defaults to show.
  Node metadata = WriteRecord(job.metadata);
  Node document = Node::Map();
  document.Add("apiVersion", Node::String(kApiVersion));
  document.Add("kind", Node::String(kKind));
  document.Add("metadata", std::move(metadata));
  document.Add("spec", RecordWriter(defaults).Write(job.spec));
  return document;
}

std::string ToJson(const TrainingJob& job, Defaults defaults) {
  return WriteJson(ToNode(job, defaults));
}

std::string ToYaml(const TrainingJob& job, Defaults defaults) {
  return WriteYaml(ToNode(job, defaults));
}

}  // namespace lockstep::core
