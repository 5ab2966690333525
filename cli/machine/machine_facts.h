// What of a machine's settings changes how near memory is and how fast: read for `lockstep bench
// numa` and `lockstep topology --report`. Holds nothing secret: no names of machines, users or
// jobs.
#ifndef LOCKSTEP_CLI_MACHINE_MACHINE_FACTS_H_
#define LOCKSTEP_CLI_MACHINE_MACHINE_FACTS_H_

#include <string>
#include <vector>

#include "base/text/json.h"

namespace lockstep::cli {

struct MachineFact {
  std::string name;
  std::string value;   // one line; empty: it could not be read
  std::string source;  // the file
};

// Reads below `root` ("/" for the machine itself). In a fixed order, all of them always.
std::vector<MachineFact> ReadMachineFacts(const std::string& root);

// {"name": {"value": ..., "source": ...}}; a value that could not be read is null.
OrderedJson ToJson(const std::vector<MachineFact>& facts);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MACHINE_MACHINE_FACTS_H_
