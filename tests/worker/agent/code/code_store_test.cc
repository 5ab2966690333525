#include "worker/agent/code/code_store.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/net/acceptor.h"
#include "base/text/endpoint.h"
#include "tests/base/loop_test_base.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/http/status_server.h"

namespace lockstep::agent::code_store_test {
namespace {

namespace fs = std::filesystem;

std::string HashOf(const std::string& text) {
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(text)));
  return hash.Hex();
}

// A machine's store, what it has said, and the port that serves it.
struct Holder final : CodeStore::Owner {
  Holder(EventLoop* loop, const TlsPskContext* client, const TlsPskContext* server,
         const std::string& run_dir)
      : root(run_dir) {
    fs::create_directories(root);
    store = std::move(*CodeStore::Create(loop, client, root, this));
    StatusServer::Handlers handlers;
    handlers.code = [this](const HttpRequest& request, HttpResponder respond) {
      store->Serve(request, std::move(respond));
    };
    status = std::make_unique<StatusServer>(loop, std::move(handlers));
    GangListener::Handlers gang;
    gang.on_http = [this](std::unique_ptr<Connection> connection, std::string_view received) {
      status->Adopt(std::move(connection), received);
    };
    listener = std::move(*GangListener::Listen(loop, *ParseEndpoint("127.0.0.1:0"), server, {},
                                               std::move(gang), [](const std::string&) {}));
  }
  void OnCodeHeld(std::vector<std::string> digests) override { held = std::move(digests); }
  void OnCodeFailed(const std::string& digest, std::string reason) override {
    failed = digest + ": " + reason;
  }

  // As --sync-receive leaves a version; its digest.
  std::string Bring(const std::vector<std::pair<std::string, std::string>>& files) const {
    const std::string folder = CodeHome(root) + "/incoming-1";
    fs::create_directories(folder);
    CodeManifest manifest;
    for (const auto& [path, text] : files) {
      manifest.files[path] = {HashOf(text), 0644, text.size()};
      if (fs::exists(folder + "/" + HashOf(text))) continue;
      EXPECT_TRUE(WriteFileAtomically(folder + "/" + HashOf(text), text).ok());
    }
    EXPECT_TRUE(WriteFileAtomically(folder + "/manifest", ToText(manifest)).ok());
    return manifest.Digest();
  }
  std::string Take(const std::vector<std::pair<std::string, std::string>>& files) {
    const std::string digest = Bring(files);
    EXPECT_TRUE(store->Take(digest, "incoming-1").ok());
    return digest;
  }
  std::string Read(const std::string& path) const {
    const Result<std::string> text = ReadFile(store->tree() + "/" + path, 4 << 20);
    return text.ok() ? *text : "";
  }
  std::string Address() const { return listener->endpoint().ToString(); }

  std::string root;
  std::unique_ptr<CodeStore> store;
  std::unique_ptr<StatusServer> status;
  std::unique_ptr<GangListener> listener;
  std::vector<std::string> held;
  std::string failed;
};

class CodeStoreTest : public LoopTest {
 protected:
  CodeStoreTest()
      : client_(std::move(*TlsPskContext::Client({}, "job"))),
        server_(std::move(*TlsPskContext::Server({}, "job"))),
        root_(testing::TempDir() + "/code_store") {
    fs::remove_all(root_);
    one_.emplace(loop(), &client_, &server_, root_ + "/one");
    other_.emplace(loop(), &client_, &server_, root_ + "/other");
  }

  TlsPskContext client_;
  TlsPskContext server_;
  std::string root_;
  std::optional<Holder> one_;
  std::optional<Holder> other_;
};

TEST_F(CodeStoreTest, AVersionIsTakenOnlyWithAllItsContents) {
  const std::string digest = one_->Bring({{"train.py", "one"}, {"model.py", "two"}});
  fs::remove(CodeHome(one_->root) + "/incoming-1/" + HashOf("two"));
  const Result<CodeManifest> taken = one_->store->Take(digest, "incoming-1");
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(one_->held.empty());
  one_->Take({{"train.py", "one"}, {"model.py", "two"}});
  EXPECT_EQ(one_->held, std::vector<std::string>{digest});
  EXPECT_FALSE(fs::exists(CodeHome(one_->root) + "/incoming-1"));
}

TEST_F(CodeStoreTest, AManifestWithAnotherDigestIsRefused) {
  one_->Bring({{"train.py", "one"}});
  EXPECT_FALSE(one_->store->Take(std::string(64, 'a'), "incoming-1").ok());
}

TEST_F(CodeStoreTest, UseMakesTheRanksFolderThatVersion) {
  const std::string first = one_->Take({{"train.py", "one"}, {"old.py", "x"}});
  const std::string second = one_->Take({{"train.py", "two"}});
  ASSERT_TRUE(one_->store->Use(first).ok());
  EXPECT_EQ(one_->Read("train.py"), "one");
  ASSERT_TRUE(one_->store->Use(second).ok());
  EXPECT_EQ(one_->Read("train.py"), "two");
  EXPECT_EQ(one_->Read("old.py"), "");
  EXPECT_FALSE(one_->store->Use(std::string(64, 'a')).ok());
}

TEST_F(CodeStoreTest, TheVersionInUseAndTheNewestTwoAreKept) {
  const std::string used = one_->Take({{"a", "1"}});
  ASSERT_TRUE(one_->store->Use(used).ok());
  one_->Take({{"a", "2"}});
  const std::string third = one_->Take({{"a", "3"}});
  const std::string fourth = one_->Take({{"a", "4"}});
  EXPECT_EQ(one_->held, (std::vector<std::string>{used, third, fourth}));
  EXPECT_FALSE(fs::exists(CodeHome(one_->root) + "/stage/" + HashOf("2")));
  EXPECT_TRUE(fs::exists(CodeHome(one_->root) + "/stage/" + HashOf("1")));
}

TEST_F(CodeStoreTest, AVersionIsFetchedFromAnotherMachineWithItsLargeAndEmptyFiles) {
  const std::string large(3'000'000, 'x');
  const std::string digest =
      one_->Take({{"train.py", "one"}, {"data.bin", large}, {"lib/__init__.py", ""}});
  other_->store->Fetch({digest, one_->Address()});
  ASSERT_TRUE(RunUntil([&] { return !other_->held.empty() || !other_->failed.empty(); }));
  EXPECT_EQ(other_->failed, "");
  EXPECT_EQ(other_->held, std::vector<std::string>{digest});
  ASSERT_TRUE(other_->store->Use(digest).ok());
  EXPECT_EQ(other_->Read("data.bin"), large);
  EXPECT_TRUE(fs::exists(other_->store->tree() + "/lib/__init__.py"));
}

TEST_F(CodeStoreTest, AListOfFilesThatIsLongerThanAPieceIsFetched) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 20'000; ++i) {
    files.emplace_back("a/folder/with/a/long/name/module_" + std::to_string(i) + ".py", "same");
  }
  const std::string digest = one_->Take(files);
  other_->store->Fetch({digest, one_->Address()});
  ASSERT_TRUE(RunUntil([&] { return !other_->held.empty() || !other_->failed.empty(); }));
  EXPECT_EQ(other_->failed, "");
  EXPECT_EQ(other_->held, std::vector<std::string>{digest});
}

TEST_F(CodeStoreTest, AFileThatIsTornThereIsRefusedHere) {
  const std::string digest = one_->Take({{"train.py", "one"}});
  ASSERT_TRUE(WriteFileAtomically(CodeHome(one_->root) + "/stage/" + HashOf("one"), "two").ok());
  other_->store->Fetch({digest, one_->Address()});
  ASSERT_TRUE(RunUntil([&] { return !other_->failed.empty(); }));
  EXPECT_NE(other_->failed.find("does not have the hash"), std::string::npos) << other_->failed;
  EXPECT_TRUE(other_->held.empty());
}

TEST_F(CodeStoreTest, AVersionThatIsNotThereIsAFailureAndTheNextFetchWorks) {
  const std::string unknown(64, 'a');
  other_->store->Fetch({unknown, one_->Address()});
  ASSERT_TRUE(RunUntil([&] { return !other_->failed.empty(); }));
  EXPECT_TRUE(other_->failed.starts_with(unknown)) << other_->failed;
  const std::string digest = one_->Take({{"train.py", "one"}});
  other_->store->Fetch({digest, one_->Address()});
  ASSERT_TRUE(RunUntil([&] { return !other_->held.empty(); }));
}

}  // namespace
}  // namespace lockstep::agent::code_store_test
