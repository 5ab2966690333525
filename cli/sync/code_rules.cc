#include "cli/sync/code_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <ranges>

namespace lockstep::cli {

IgnoreRules IgnoreRules::Parse(std::string_view text) {
  IgnoreRules rules;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) {
      line.pop_back();
    }
    if (line.empty() || line.front() == '#') continue;
    Rule rule;
    if (line.front() == '!') {
      rule.keeps = true;
      line.erase(0, 1);
    }
    if (!line.empty() && line.back() == '/') {
      rule.folders = true;
      line.pop_back();
    }
    rule.anchored = line.find('/') != std::string::npos;
    if (!line.empty() && line.front() == '/') line.erase(0, 1);
    if (line.empty()) continue;
    rule.pattern = std::move(line);
    rules.rules_.push_back(std::move(rule));
  }
  return rules;
}

IgnoreRules IgnoreRules::BuiltIn() {
  return Parse(
      ".hg\n.svn\n.venv/\nvenv/\nnode_modules/\n.mypy_cache/\n.pytest_cache/\n"
      ".ruff_cache/\n.ipynb_checkpoints/\n*.pyc\n*.so\n*.o\n*.pt\n*.pth\n*.safetensors\n"
      "*.ckpt\n*.log\n");
}

void IgnoreRules::Append(const IgnoreRules& rules) {
  rules_.insert(rules_.end(), rules.rules_.begin(), rules.rules_.end());
}

bool IgnoreRules::Ignores(const std::string& path, bool is_folder) const {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const Rule& rule : rules_ | std::views::reverse) {
    if (rule.folders && !is_folder) continue;
    const std::string& subject = rule.anchored ? path : name;
    if (fnmatch(rule.pattern.c_str(), subject.c_str(), FNM_PATHNAME) == 0) return !rule.keeps;
  }
  return false;
}

bool IsNeverCode(std::string_view name) {
  return name == ".git" || name == "__pycache__" || name == ".lockstep";
}

bool LooksSecret(std::string_view name) {
  if (name == ".env" || name == ".netrc" || name == ".pgpass" || name == ".pypirc") return true;
  if (name.starts_with(".env.")) return !name.ends_with(".example") && !name.ends_with(".sample");
  constexpr std::array<std::string_view, 4> kKeys = {"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"};
  if (std::ranges::find(kKeys, name) != kKeys.end()) return true;
  constexpr std::array<std::string_view, 5> kEnds = {".pem", ".key", ".p12", ".pfx", ".keystore"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace lockstep::cli
