// A machine as a picture: packages, NUMA nodes, caches, cores, PCIe switches, GPUs and network
// cards, one inside the other; in a terminal as a tree, or as SVG. Pure.
#ifndef LOCKSTEP_CLI_MACHINE_MACHINE_PICTURE_H_
#define LOCKSTEP_CLI_MACHINE_MACHINE_PICTURE_H_

#include <string>
#include <vector>

#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {

// A part of the machine and what stands inside it.
struct Part {
  enum class Kind { kMachine, kPackage, kNode, kCache, kCores, kSwitch, kDevice };
  // A core, or a word in its place.
  struct Cell {
    std::string text;     // its CPUs: "0,64"
    bool allowed = true;  // this container may use it, whole
    int local_rank = -1;  // the first process that is bound to it; -1: none
    bool shared = false;  // others are, too
  };

  Kind kind = Kind::kMachine;
  std::string text;
  std::vector<Cell> cores;  // of kCores
  std::vector<Part> parts;
};

// `plan` may be nullptr.
Part MakePicture(const topology::Machine& machine, const topology::BindingPlan* plan);

// Cores as [0,64], or as (1,65) where they may not be used; with a plan, [0,64:r3] for local
// rank 3.
std::string PictureText(const Part& machine);
std::string PictureSvg(const Part& machine);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MACHINE_MACHINE_PICTURE_H_
