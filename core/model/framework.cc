#include "core/model/framework.h"

#include <string_view>
#include <vector>

namespace lockstep::core {

std::string ListFrameworks(bool FrameworkRow::* wanted) {
  std::vector<std::string_view> names;
  for (const FrameworkRow& row : kFrameworks) {
    if (wanted == nullptr || row.*wanted) names.emplace_back(row.name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace lockstep::core
