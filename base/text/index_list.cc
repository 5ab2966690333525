#include "base/text/index_list.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

std::optional<int> ParseIndex(std::string_view text) {
  const std::optional<int> value = ParseNumber<int>(text);
  return value && *value >= 0 && *value <= kMaxIndex ? value : std::nullopt;
}

}  // namespace

Result<IndexList> ParseIndexList(std::string_view text) {
  IndexList list;
  std::string_view rest = Trim(text);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    const size_t dash = range.find('-');
    const std::optional<int> first = ParseIndex(range.substr(0, dash));
    const std::optional<int> last =
        dash == std::string_view::npos ? first : ParseIndex(range.substr(dash + 1));
    const bool trailing_comma = comma != std::string_view::npos && comma + 1 == rest.size();
    if (!first || !last || *last < *first || trailing_comma) {
      return Error::Invalid("\"" + std::string(text) + "\" is not a list like 0-3,8");
    }
    // Each number once is all there can be: a text that goes on naming them costs no more.
    if (list.size() + static_cast<size_t>(*last - *first) > kMaxIndex) {
      return Error::Invalid("\"" + std::string(text) + "\" names a number more than once");
    }
    for (int i = *first; i <= *last; ++i) list.push_back(i);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::string FormatIndexList(const IndexList& list) {
  std::string text;
  for (size_t i = 0; i < list.size();) {
    size_t last = i;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(list[i]);
    if (last > i) text += '-' + std::to_string(list[last]);
    i = last + 1;
  }
  return text;
}

IndexList Intersect(const IndexList& a, const IndexList& b) {
  IndexList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

IndexList Union(const IndexList& a, const IndexList& b) {
  IndexList either;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(either));
  return either;
}

bool Contains(const IndexList& list, int index) {
  return std::binary_search(list.begin(), list.end(), index);
}

}  // namespace lockstep
