// CodeScanner: reads the code of a folder and keeps what has changed aside, content by content, so
// that what is put into place later is what was hashed now.
//
// Code is what git tracks or does not ignore; without git, all that IgnoreRules::BuiltIn and a
// .lockstepignore leave. Never code: links that lead out of the folder, devices, secrets that git
// does not track, and what the run itself writes.
#ifndef LOCKSTEP_CLI_SYNC_CODE_SCANNER_H_
#define LOCKSTEP_CLI_SYNC_CODE_SCANNER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/sync/code_rules.h"
#include "worker/code/code_manifest.h"

namespace lockstep::cli {

struct CodeScan {
  CodeManifest manifest;
  std::vector<std::string> left_out;  // "path: why", of what a user may expect to be code
};

class CodeScanner {
 public:
  // `folder` and `stage` are absolute; contents are kept as STAGE/SHA256. `without`: absolute paths
  // whose files are no code, as the folder of checkpoints.
  CodeScanner(std::string folder, std::string stage, std::vector<std::string> without);

  // TooLarge, Invalid: a limit or a file is in the way; the message says which. The stage then has
  // some of the new contents, and does no harm.
  Result<CodeScan> Scan();

  const std::string& folder() const { return folder_; }

 private:
  struct Named {
    std::string path;
    bool tracked = false;
  };
  struct Known {           // as it was when it was hashed
    int64_t changed = 0;   // its ctime, in nanoseconds
    int64_t modified = 0;  // likewise its mtime
    uint64_t inode = 0;
    CodeFile file;
  };

  Result<std::vector<Named>> Names() const;
  std::vector<Named> NamesWithoutGit() const;
  bool IsWithout(const std::string& path) const;
  Result<CodeFile> Hash(const std::string& path);

  std::string folder_;
  std::string stage_;
  std::vector<std::string> without_;
  IgnoreRules rules_;  // of .lockstepignore
  std::map<std::string, Known> known_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_SCANNER_H_
