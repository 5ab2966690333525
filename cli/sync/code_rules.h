// Which files of a folder are code that is synced: pure rules over names.
#ifndef LOCKSTEP_CLI_SYNC_CODE_RULES_H_
#define LOCKSTEP_CLI_SYNC_CODE_RULES_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// Patterns as in a .gitignore, without **: `*.log`, `data/` (folders alone), `/top` (at the top
// alone), `!keep.log` (takes back). The last pattern that fits decides.
class IgnoreRules {
 public:
  IgnoreRules() = default;
  // The lines of a file; blanks and lines that begin with # do not count.
  static IgnoreRules Parse(std::string_view text);
  // What is left out where no git says what is ignored.
  static IgnoreRules BuiltIn();

  void Append(const IgnoreRules& rules);
  // `path` is relative to the folder, as in "src/model.py". Does not look at the folders above it.
  bool Ignores(const std::string& path, bool is_folder) const;

 private:
  struct Rule {
    std::string pattern;
    bool anchored = false;  // the whole path must fit, not only its last part
    bool folders = false;   // fits folders alone
    bool keeps = false;
  };
  std::vector<Rule> rules_;
};

// Never synced, also if git tracks it: .git, __pycache__, .lockstep and the like, at any depth.
bool IsNeverCode(std::string_view name);

// Whether a file of this name usually holds a secret: .env, *.pem, *.key, id_ed25519, ...
bool LooksSecret(std::string_view name);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_RULES_H_
