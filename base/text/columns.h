// Tables of text, for people.
#ifndef LOCKSTEP_BASE_TEXT_COLUMNS_H_
#define LOCKSTEP_BASE_TEXT_COLUMNS_H_

#include <string>
#include <vector>

namespace lockstep {

// Columns as wide as their widest cell, two blanks between them, no blanks at line ends.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows,
                         const std::string& indent);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_COLUMNS_H_
