// manifest.json as text: what a checkpoint is of, and the sums of its files and of itself.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_MANIFEST_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_MANIFEST_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/checkpoint/output_file.h"

namespace lockstep::trainer {

inline constexpr const char* kManifestFile = "manifest.json";

struct ManifestFile {
  Manifest manifest;
  Shape shape;
  std::map<std::string, FileSum> files;  // by name, without folders
};

std::string FormatManifest(const ManifestFile& file);

// kInvalid: not what FormatManifest makes, down to the last digit.
Result<ManifestFile> ParseManifest(std::string_view text);

// `folder`'s; kNotFound: it has none.
Result<ManifestFile> ReadManifest(const std::string& folder);

// kInvalid names the file of `folder` that is missing, or is not what its manifest says.
Status VerifyFile(const std::string& folder, const ManifestFile& manifest, const std::string& name);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_MANIFEST_H_
