#include "cli/run/other_python.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

class OtherPythonTest : public ::testing::Test {
 protected:
  OtherPythonTest() {
    std::string name = (fs::temp_directory_path() / "lockstep-python-XXXXXX").string();
    root_ = mkdtemp(name.data());
    for (const char* folder : {"venv/bin", "usr/bin"}) {
      fs::create_directories(root_ / folder);
      MakeProgram(root_ / folder / "python3");
    }
    Write("venv/pyvenv.cfg");
  }
  ~OtherPythonTest() override { fs::remove_all(root_); }

  void Write(const std::string& name) const { std::ofstream(root_ / name) << "home = /usr/bin\n"; }

  static void MakeProgram(const fs::path& file) {
    std::ofstream(file) << "#!/bin/sh\n";
    fs::permissions(file, fs::perms::owner_all);
  }

  std::string Hint(const std::string& python, const std::string& folders = "usr/bin") const {
    return OtherPythonHint(Path("venv/bin/lockstep"), {python, "train.py"}, Path(folders));
  }

  std::string Path(const std::string& name) const { return (root_ / name).string(); }

  fs::path root_;
};

TEST_F(OtherPythonTest, OfPathIsNamedBesideThatOfTheEnvironment) {
  EXPECT_EQ(Hint("python3"),
            "hint: python3 is " + Path("usr/bin/python3") + ", which lacks the modules of " +
                Path("venv") + "; activate that environment, or write " + Path("venv/bin/python3"));
}

TEST_F(OtherPythonTest, IsAnsweredWithAProgramThatIsThere) {
  MakeProgram(root_ / "usr/bin/python3.99");
  const std::string hint = "hint: python3.99 is " + Path("usr/bin/python3.99") +
                           ", which lacks the modules of " + Path("venv") +
                           "; activate that environment";
  EXPECT_EQ(Hint("python3.99"), hint);
  MakeProgram(root_ / "venv/bin/python");
  EXPECT_EQ(Hint("python3.99"), hint + ", or write " + Path("venv/bin/python"));
}

TEST_F(OtherPythonTest, NeedsNoHintInAnActivatedEnvironment) {
  EXPECT_EQ(Hint("python3", "venv/bin"), "");
}

TEST_F(OtherPythonTest, NeedsNoHintIfTheUserChoseIt) {
  EXPECT_EQ(Hint(Path("usr/bin/python3")), "");
}

TEST_F(OtherPythonTest, ThatIsNoPythonOrNotThereNeedsNoHint) {
  MakeProgram(root_ / "usr/bin/pythonista");
  EXPECT_EQ(Hint("pythonista"), "");
  EXPECT_EQ(Hint("python3.99"), "");
  EXPECT_EQ(OtherPythonHint(Path("venv/bin/lockstep"), {}, Path("usr/bin")), "");
}

TEST_F(OtherPythonTest, OutsideOfAnEnvironmentNeedsNoHint) {
  fs::remove(root_ / "venv/pyvenv.cfg");
  EXPECT_EQ(Hint("python3"), "");
}

TEST_F(OtherPythonTest, OfAToolsOwnEnvironmentNeedsNoHint) {
  for (const char* file : {"venv/pipx_metadata.json", "venv/uv-receipt.toml"}) {
    Write(file);
    EXPECT_EQ(Hint("python3"), "") << file;
    fs::remove(root_ / file);
  }
  EXPECT_NE(Hint("python3"), "");
}

}  // namespace
}  // namespace lockstep::cli
