// The subcommands of `lockstep-trainer`: each adds itself to the parser, and sets the exit code.
#ifndef LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
#define LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>

namespace lockstep::trainer {

void AddTrain(CLI::App& app, int* exit_code);
void AddGenerate(CLI::App& app, int* exit_code);
void AddBench(CLI::App& app, int* exit_code);
void AddAnalyze(CLI::App& app, int* exit_code);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
