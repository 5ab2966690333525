#include "operator/kube/config/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace lockstep::kube {
namespace {

using testing::HasSubstr;

// A kubeconfig with these lines as its cluster and its user.
std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
         "contexts: [{name: a, context: {cluster: c, user: u, namespace: training}},\n"
         "           {name: b, context: {cluster: c, user: u}}]\n"
         "clusters:\n- name: c\n  cluster: {" +
         cluster + "}\nusers:\n- name: u\n  user: {" + user + "}\n";
}

constexpr char kCluster[] = "server: 'https://10.0.0.1:6443/', certificate-authority-data: Q0E=";

TEST(KubeconfigTest, ATokenAndAnAuthorityAsData) {
  auto config = ParseKubeconfig(Kubeconfig(kCluster, "token: sesame"), "/home/u/.kube");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ca.value, "CA");
  EXPECT_EQ(config->token.value, "sesame");
  EXPECT_EQ(config->default_namespace, "training");
}

TEST(KubeconfigTest, PathsCountFromItsFolder) {
  auto config = ParseKubeconfig(
      Kubeconfig("server: 'https://a', certificate-authority: ca.crt, tls-server-name: api",
                 "tokenFile: /t/token, token: ignored, client-certificate: c.crt, "
                 "client-key-data: a2V5"),
      "/home/u/.kube");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->ca.file, "/home/u/.kube/ca.crt");
  EXPECT_EQ(config->tls_server_name, "api");
  EXPECT_EQ(config->token.file, "/t/token");
  EXPECT_EQ(config->token.value, "");
  EXPECT_EQ(config->certificate.file, "/home/u/.kube/c.crt");
  EXPECT_EQ(config->key.value, "key");
}

TEST(KubeconfigTest, AnotherContextByName) {
  auto config = ParseKubeconfig(Kubeconfig(kCluster, "token: x"), "/", "b");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->default_namespace, "default");
  config = ParseKubeconfig(Kubeconfig(kCluster, "token: x"), "/", "z");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("no context named \"z\""));
}

TEST(KubeconfigTest, AnExecPlugin) {
  auto config = ParseKubeconfig(
      Kubeconfig(kCluster,
                 "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, "
                 "args: [get, token], env: [{name: A, value: b}], interactiveMode: Never, "
                 "installHint: install it}"),
      "/k");
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->exec);
  EXPECT_THAT(config->exec->command, testing::ElementsAre("/k/./login", "get", "token"));
  EXPECT_THAT(config->exec->env, testing::ElementsAre(testing::Pair("A", "b")));
}

TEST(KubeconfigTest, WhatWouldWeakenItOrIsNotSupportedIsRefusedByName) {
  struct Case {
    const char* cluster;
    const char* user;
    const char* message;
  };
  const Case cases[] = {
      {"server: 'http://a', certificate-authority-data: Q0E=", "", "must be https://"},
      {"server: 'https://u:p@a', certificate-authority-data: Q0E=", "", "has invalid characters"},
      {"server: 'https://a'", "", "certificate-authority-data is missing"},
      {"server: 'https://a', certificate-authority-data: '%%%'", "", "is not base64"},
      {"server: 'https://a', certificate-authority-data: Q0E=, insecure-skip-tls-verify: true", "",
       "insecure-skip-tls-verify is not supported"},
      {"server: 'https://a', certificate-authority-data: Q0E=, proxy-url: 'http://p'", "",
       "proxy-url is not supported"},
      {kCluster, "username: u, password: p", "username is not supported"},
      {kCluster, "auth-provider: {name: gcp}", "auth-provider is not supported"},
      {kCluster, "token: t, as: admin", ".as is not supported"},
      {kCluster, "client-certificate-data: Q0E=", "client-key go together"},
      {kCluster, "token: [a]", "token must be text"},
      {kCluster, "exec: {apiVersion: v0, command: x}", "apiVersion must be"},
      {kCluster, "exec: {apiVersion: client.authentication.k8s.io/v1}", "command is missing"},
      {kCluster, "token: t, exec: {apiVersion: client.authentication.k8s.io/v1, command: x}",
       "exclude each other"},
  };
  for (const Case& c : cases) {
    auto config = ParseKubeconfig(Kubeconfig(c.cluster, c.user), "/");
    ASSERT_FALSE(config.ok()) << c.message;
    EXPECT_EQ(config.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(config.error().message, HasSubstr(c.message));
  }
}

TEST(KubeconfigTest, AnyTextWhateverIsAnErrorAndNothingWorse) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("[]"), std::string("current-context: [a]"),
        std::string("current-context: a\ncontexts: x"), std::string("\xff\xfe"),
        std::string("{current-context: a, contexts: [{name: a}]}"),
        std::string(kMaxKubeconfig + 1, ' '), std::string(100'000, '[')}) {
    EXPECT_FALSE(ParseKubeconfig(text, "/").ok());
  }
}

TEST(KubeconfigTest, AMessageNamesTheFile) {
  auto config = LoadKubeconfig("/nowhere/kubeconfig");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("/nowhere/kubeconfig"));
}

TEST(InClusterTest, IsWhatKubernetesPutsIntoAPod) {
  std::string folder = testing::TempDir();
  std::ofstream(folder + "/namespace") << "operators\n";
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(LoadInCluster(folder).error().kind, ErrorKind::kNotFound);
  setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  auto config = LoadInCluster(folder);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->token.file, folder + "/token");
  EXPECT_EQ(config->ca.file, folder + "/ca.crt");
  EXPECT_EQ(config->default_namespace, "operators");
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  EXPECT_EQ(LoadInCluster(folder)->server, "https://[fd00::1]:443");
  unsetenv("KUBERNETES_SERVICE_HOST");
}

}  // namespace
}  // namespace lockstep::kube
