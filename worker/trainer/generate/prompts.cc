#include "worker/trainer/generate/prompts.h"

#include <fstream>

#include "base/text/json.h"
#include "worker/trainer/data/find_files.h"

namespace lockstep::trainer {

Result<std::vector<std::string>> ReadPrompts(const std::vector<std::string>& globs) {
  Result<std::vector<std::string>> files = FindFiles(globs);
  if (!files.ok()) return Error{files.error().kind, "prompts: " + files.error().message};
  std::vector<std::string> prompts;
  for (const std::string& name : *files) {
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);) {
      if (!line.empty()) prompts.push_back(line);
    }
    if (!file.eof()) return Error::Unavailable("cannot read the prompts in " + name);
  }
  return prompts;
}

std::string ResultLine(std::string_view prompt, std::string_view text) {
  const OrderedJson line{{"prompt", prompt}, {"text", text}};
  return DumpJson(line) + "\n";
}

Result<std::string> GatherTexts(const std::string& mine, collectives::Communicator& all) {
  using collectives::DataType;
  auto size = static_cast<int64_t>(mine.size());
  if (all.rank() != 0) {
    Status sent = all.Send({&size, 1, DataType::kInt64}, 0, "size of texts");
    if (sent.ok() && size > 0) {
      sent = all.Send({mine.data(), mine.size(), DataType::kByte}, 0, "texts");
    }
    if (!sent.ok()) return sent.error();
    return std::string();
  }
  std::string texts = mine;
  for (int rank = 1; rank < all.world(); ++rank) {
    Status received = all.Receive({&size, 1, DataType::kInt64}, rank, "size of texts");
    std::string theirs(received.ok() ? static_cast<size_t>(size) : 0, '\0');
    if (received.ok() && size > 0) {
      received = all.Receive({theirs.data(), theirs.size(), DataType::kByte}, rank, "texts");
    }
    if (!received.ok()) return received.error();
    texts += theirs;
  }
  return texts;
}

}  // namespace lockstep::trainer
