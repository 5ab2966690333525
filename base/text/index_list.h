// Sets of CPU or NUMA node numbers, in the notation of the kernel's files: "0-3,8,10-11".
#ifndef LOCKSTEP_BASE_TEXT_INDEX_LIST_H_
#define LOCKSTEP_BASE_TEXT_INDEX_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

// Ascending, each number once. The empty list is written "".
using IndexList = std::vector<int>;

// The largest CPU or node number that a list may name; a file that says more is not believed.
inline constexpr int kMaxIndex = 65535;

// Reads "0-3,8". Blanks around it are ignored; "" is the empty list. Invalid for anything else.
Result<IndexList> ParseIndexList(std::string_view text);

std::string FormatIndexList(const IndexList& list);

IndexList Intersect(const IndexList& a, const IndexList& b);
IndexList Union(const IndexList& a, const IndexList& b);
bool Contains(const IndexList& list, int index);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_INDEX_LIST_H_
