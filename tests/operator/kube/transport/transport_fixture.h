// TransportTest: a Transport on each HTTP library, on real sockets, against a server that keeps to
// a script byte for byte. What is tested is what every Transport does, whatever carries it.
#ifndef LOCKSTEP_TESTS_OPERATOR_KUBE_TRANSPORT_TRANSPORT_FIXTURE_H_
#define LOCKSTEP_TESTS_OPERATOR_KUBE_TRANSPORT_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "operator/kube/http/transport.h"
#include "operator/kube/http/transport_factory.h"
#include "tests/operator/kube/server/scripted_server.h"

namespace lockstep::kube {

// Nothing that is expected to happen takes so long on any machine.
inline constexpr Duration kPatience = seconds(60);

inline constexpr HttpLibrary kLibraries[] = {kCurl, kCpprestsdk};

inline void PrintTo(const HttpLibrary& library, std::ostream* out) { *out << library.name; }

inline std::string NameOfLibrary(const testing::TestParamInfo<HttpLibrary>& info) {
  return info.param.name;
}

class TransportTest : public testing::TestWithParam<HttpLibrary> {
 protected:
  TransportTest() : ca_("test CA"), identity_(ca_.Issue("api", "IP:127.0.0.1,DNS:api.test")) {
    // cpprestsdk reads all of the system's authorities for each connection, to have them replaced.
    setenv("SSL_CERT_FILE", "/dev/null", 1);
  }

  ClientConfig ConfigFor(const ScriptedServer& server) {
    ClientConfig config;
    config.server = server.url();
    config.ca.value = ca_.pem();
    config.token.value = "sesame";
    return config;
  }

  std::unique_ptr<Transport> Make(const ClientConfig& config, TransportOptions options = Cold(),
                                  Duration reload = Credentials::kReload) {
    auto credentials = Credentials::Create(config, reload);
    EXPECT_TRUE(credentials.ok()) << credentials.error().message;
    auto transport =
        GetParam().make({config.server, config.tls_server_name, *credentials, std::move(options)});
    EXPECT_TRUE(transport.ok()) << transport.error().message;
    return std::move(*transport);
  }

  // No connections but those that requests make.
  static TransportOptions Cold() {
    TransportOptions options;
    options.connections = 1;
    return options;
  }

  static std::future<Result<Response>> Begin(Transport& transport, Request request,
                                             Duration timeout = kPatience) {
    auto answer = std::make_shared<std::promise<Result<Response>>>();
    transport.Send(std::move(request), timeout,
                   [answer](Result<Response> result) { answer->set_value(std::move(result)); });
    return answer->get_future();
  }

  static Result<Response> Send(Transport& transport, Request request,
                               Duration timeout = kPatience) {
    return Begin(transport, std::move(request), timeout).get();
  }

  static Request Get(const std::string& path = "/api") { return {Method::kGet, path, ""}; }

  // One answer to each request of one connection.
  Result<Response> AnswerTo(const ScriptedServer::Script& script, Duration timeout = kPatience) {
    ScriptedServer server(identity_, script);
    auto transport = Make(ConfigFor(server));
    return Send(*transport, Get(), timeout);
  }

  TestCa ca_;
  Issued identity_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_TESTS_OPERATOR_KUBE_TRANSPORT_TRANSPORT_FIXTURE_H_
