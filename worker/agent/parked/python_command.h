// Whether a command line runs Python, and how to start the same interpreter with nothing to run.
//
//   Result<PythonCommand> python = FindPython(request);
//   if (!python.ok()) return NoneParked(python.error().message);   // "bash is no Python"
//
// Known are `python3.11 [options] FILE | -m MODULE | -c TEXT` with a Python by name that is an ELF
// file, and a script whose #! line is such a command. Whatever cannot be understood is no Python
// here: a rank is then started as ever. It reads the first bytes of a file or two.
#ifndef LOCKSTEP_WORKER_AGENT_PARKED_PYTHON_COMMAND_H_
#define LOCKSTEP_WORKER_AGENT_PARKED_PYTHON_COMMAND_H_

#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/result.h"

namespace lockstep::agent {

struct PythonCommand {
  std::string path;                  // the interpreter's file
  std::vector<std::string> options;  // from its name on, up to the program: "python3", "-u"
  bool operator==(const PythonCommand&) const = default;
};

// Invalid: why it is none that can wait.
Result<PythonCommand> FindPython(const SpawnRequest& request);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PARKED_PYTHON_COMMAND_H_
