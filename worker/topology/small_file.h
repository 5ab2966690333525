// Files of sysfs, procfs and cgroupfs: a few lines of text that may not be there.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_SMALL_FILE_H_
#define LOCKSTEP_WORKER_TOPOLOGY_SMALL_FILE_H_

#include <optional>
#include <string>

namespace lockstep::topology {

// The file's text without blanks at its end; nullopt if it can't be read, or is over 16 MiB.
std::optional<std::string> ReadSmallFile(const std::string& path);

// The value of the line "name:<tab>value" in text such as /proc/self/status; nullopt without one.
std::optional<std::string> StatusField(const std::string& text, const std::string& name);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_SMALL_FILE_H_
