// A part's manifest, as another agent or the volume gives it: any bytes give entries that stay
// below their folder, which are the same once written and read again, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/agent/files/part_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::agent::PartEntry;
  const auto manifest =
      lockstep::agent::ParseManifest(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!manifest.ok()) return 0;
  for (const PartEntry& entry : *manifest) {
    if (entry.path.starts_with('/') || entry.path.starts_with("../")) std::abort();
  }
  const auto again = lockstep::agent::ParseManifest(lockstep::agent::ToText(*manifest));
  if (!again.ok() || *again != *manifest) std::abort();
  return 0;
}
