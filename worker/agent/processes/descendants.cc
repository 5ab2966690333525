#include "worker/agent/processes/descendants.h"

#include <dirent.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

using topology::ReadSmallFile;

std::vector<pid_t> NumbersIn(const std::string& directory) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), &closedir);
  if (!dir) return numbers;
  while (const dirent* entry = readdir(dir.get())) {
    if (const std::optional<pid_t> number = ParseNumber<pid_t>(entry->d_name))
      numbers.push_back(*number);
  }
  return numbers;
}

// The fields of DIRECTORY/stat behind the name, which may hold anything: "S 1 ..."
std::optional<std::string> StatIn(const std::string& directory) {
  std::optional<std::string> stat = ReadSmallFile(directory + "/stat");
  if (!stat) return std::nullopt;
  const size_t name_end = stat->rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  return stat->substr(name_end + 2);
}

std::optional<std::string> StatOf(pid_t pid) { return StatIn("/proc/" + std::to_string(pid)); }

// One thread's flags, PF_EXITING among them. False where there is no such thread.
bool ThreadIsEnding(const std::string& directory) {
  constexpr int kFlags = 6;  // the field's place behind the name
  constexpr uint64_t kExiting = 4;
  std::istringstream stat(StatIn(directory).value_or(""));
  std::string skipped;
  for (int i = 0; i < kFlags; ++i) stat >> skipped;
  uint64_t flags = 0;
  return stat >> flags && (flags & kExiting) != 0;
}

pid_t ParentOf(pid_t pid) {
  const std::optional<std::string> stat = StatOf(pid);
  if (!stat || stat->size() < 3) return 0;
  const std::string_view rest = std::string_view(*stat).substr(2);
  return ParseNumber<pid_t>(rest.substr(0, rest.find(' '))).value_or(0);
}

using FamilyTree = std::unordered_map<pid_t, std::vector<pid_t>>;

// For kernels without /proc/PID/task/TID/children: one pass over all processes.
FamilyTree ReadFamilyTree() {
  FamilyTree tree;
  for (const pid_t pid : NumbersIn("/proc")) tree[ParentOf(pid)].push_back(pid);
  return tree;
}

bool HasChildrenFiles() {
  static const bool has = access("/proc/thread-self/children", R_OK) == 0;
  return has;
}

std::vector<pid_t> ReadChildrenFiles(pid_t parent) {
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  for (const pid_t task : NumbersIn(tasks)) {
    const auto text = ReadSmallFile(tasks + "/" + std::to_string(task) + "/children");
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      if (const std::optional<pid_t> pid = ParseNumber<pid_t>(word)) children.push_back(*pid);
    }
  }
  return children;
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t parent) {
  return HasChildrenFiles() ? ReadChildrenFiles(parent) : ReadFamilyTree()[parent];
}

std::vector<Descendant> DescendantsOf(pid_t root, const std::set<pid_t>& left_out) {
  FamilyTree tree;
  if (!HasChildrenFiles()) tree = ReadFamilyTree();
  const auto children_of = [&](pid_t pid) {
    return HasChildrenFiles() ? ReadChildrenFiles(pid) : tree[pid];
  };
  std::vector<Descendant> found;
  pid_t parent = root;
  for (size_t next = 0;; ++next) {
    for (const pid_t child : children_of(parent)) {
      if (!left_out.contains(child)) found.push_back({child, parent});
    }
    if (next >= found.size()) return found;
    parent = found[next].pid;
  }
}

void KillDescendant(const Descendant& descendant, pid_t root) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, descendant.pid, 0)));
  if (!pidfd.valid()) return;
  // Held by the pidfd from here on. Its parent may have died since, which leaves it to the root.
  const pid_t parent = ParentOf(descendant.pid);
  if (parent != descendant.parent && parent != root) return;
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
}

size_t KillDescendants(pid_t root, const std::set<pid_t>& left_out) {
  const std::vector<Descendant> descendants = DescendantsOf(root, left_out);
  for (const Descendant& descendant : descendants) KillDescendant(descendant, root);
  return descendants.size();
}

bool IsEnding(pid_t pid) {
  // The first thread may end before the others; in all but such processes one look is enough.
  const std::string directory = "/proc/" + std::to_string(pid);
  if (!ThreadIsEnding(directory)) return false;
  const std::vector<pid_t> threads = NumbersIn(directory + "/task");
  return std::ranges::all_of(threads, [&](pid_t thread) {
    return ThreadIsEnding(directory + "/task/" + std::to_string(thread));
  });
}

std::string DescribeProcess(pid_t pid) {
  const std::string number = std::to_string(pid);
  std::string name = ReadSmallFile("/proc/" + number + "/comm").value_or("?");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const std::optional<std::string> stat = StatOf(pid);
  return number + " (" + name + ", state " + (stat ? stat->substr(0, 1) : "?") + ")";
}

}  // namespace lockstep::agent
