// A disk without room, at each write of a piece of code in turn.
//
//   AtEveryWrite({.prepare = ..., .act = ..., .check = ...});
//
// runs `act` on a new folder with the first write refused, then the second, and so on until `act`
// meets no refusal any more. It does so twice: once only that write is refused, once all that
// follow it are, too, and the refused one is half written.
//
// A write is each call that may need space: opening a new file, mkdir, rename, symlink, write,
// fsync, fallocate, and close of what was written and not synced, because a network file system
// reports a full disk there. Pipes, sockets and /proc need no space. full_disk.cc has the calls.
#ifndef LOCKSTEP_TESTS_FULL_DISK_FULL_DISK_H_
#define LOCKSTEP_TESTS_FULL_DISK_FULL_DISK_H_

#include <functional>
#include <string>

namespace lockstep::full_disk {

struct Scene {
  // The older state, written while there is room.
  std::function<void(const std::string& folder)> prepare = [](const std::string&) {};
  std::function<void(const std::string& folder)> act;
  // While there is room again. `refused`: a write of `act` was.
  std::function<void(const std::string& folder, bool refused)> check;
};

// For `check`: no write after the refused one found room either.
bool AllWereRefused();

// Fails the test if `act` has fewer than `least` writes, because then it does not write as it did
// when the test was written.
void AtEveryWrite(const Scene& scene, int least);

// Nothing that Lockstep writes under a name of its own before it counts is below `folder`.
void ExpectNoTemporaryFiles(const std::string& folder);

}  // namespace lockstep::full_disk

#endif  // LOCKSTEP_TESTS_FULL_DISK_FULL_DISK_H_
