// What a machine uses, in words for a table's cells.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_USAGE_TEXT_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_USAGE_TEXT_H_

#include <array>
#include <optional>
#include <string>

#include "core/terms/usage.h"

namespace lockstep::cli {

inline constexpr std::array kUsageHeads = {"CPU", "MEMORY", "RECEIVED", "SENT"};

// "3.2", "12.4 GiB", "1.25 GB/s", "310 kB/s"; "-": not known.
std::array<std::string, 4> UsageCells(const std::optional<core::Usage>& usage);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_USAGE_TEXT_H_
