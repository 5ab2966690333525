// What an API server sends: any bytes, as a line of a watch, as a list or as an object of any kind,
// give views or an error, and nothing is read beyond them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/decode/decode.h"

namespace {

using lockstep::kube::Decoder;

template <typename T>
void ReadAll(Decoder& decoder, const std::string& text) {
  // Room behind the text, as the Reflector's buffer has; what stands there must not matter.
  const std::string padded = text + std::string(lockstep::kube::kDecodePadding, '}');
  T view;
  auto line = decoder.Line(std::string_view(padded).substr(0, text.size()), &view);
  if (line.ok() && view.meta.name.size() > text.size()) std::abort();
  std::vector<T> items;
  auto page = decoder.Page(text, &items);
  if (page.ok() && items.size() > text.size()) std::abort();
  (void)decoder.Object<T>(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Decoder decoder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  ReadAll<lockstep::kube::PodView>(decoder, text);
  ReadAll<lockstep::kube::JobView>(decoder, text);
  ReadAll<lockstep::kube::ServiceView>(decoder, text);
  ReadAll<lockstep::kube::SliceView>(decoder, text);
  ReadAll<lockstep::kube::NodeView>(decoder, text);
  ReadAll<lockstep::kube::WorkloadView>(decoder, text);
  auto job = decoder.Object<lockstep::kube::JobView>(text);
  if (job.ok() && job->json.size() > text.size()) std::abort();
  return 0;
}
