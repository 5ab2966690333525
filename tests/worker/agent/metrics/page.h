// Page: a page of Prometheus' text format, read by the format's own rules: HELP, TYPE and then all
// samples of a family together; nothing twice.
#ifndef LOCKSTEP_TESTS_WORKER_AGENT_METRICS_PAGE_H_
#define LOCKSTEP_TESTS_WORKER_AGENT_METRICS_PAGE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/topology/fixture_tree.h"
#include "worker/agent/metrics/families.h"

namespace lockstep::agent {

struct Page {
  struct Family {
    std::string help;
    std::string type;
  };
  struct Series {
    std::string family;
    Labels labels;
  };
  std::map<std::string, Family> families;
  std::map<std::string, double> samples;  // by the text before the value
  std::vector<Series> series;

  double At(const std::string& sample) const {
    const auto found = samples.find(sample);
    return found == samples.end() ? std::nan("") : found->second;
  }
  // The family that a sample of this name belongs to; "": none.
  std::string FamilyOf(const std::string& sample) const {
    for (const std::string suffix : {"", "_bucket", "_sum", "_count"}) {
      const std::string family = sample.substr(0, sample.size() - suffix.size());
      if (sample.ends_with(suffix) && families.contains(family)) return family;
    }
    return "";
  }
};

inline Page ReadPage(const std::string& text) {
  static const std::regex help("# HELP ([a-z_]+) (.+)");
  static const std::regex type("# TYPE ([a-z_]+) (counter|gauge|histogram|summary)");
  static const std::regex sample(R"re(([a-z_]+)(?:\{(([a-z_]+="([^"\\]|\\.)*",?)*)\})? (\S+))re");
  static const std::regex label(R"re(([a-z_]+)="((?:[^"\\]|\\.)*)")re");
  Page page;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      current = match[1];
      EXPECT_TRUE(page.families.try_emplace(current, Page::Family{match[2], ""}).second) << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], current) << "TYPE follows its HELP";
      page.families[current].type = match[2];
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(page.FamilyOf(match[1]), current) << line;
      size_t used = 0;
      const std::string number = match[5];
      const double value = std::stod(number, &used);
      EXPECT_EQ(used, number.size()) << line;
      EXPECT_TRUE(page.samples.emplace(line.substr(0, line.rfind(' ')), value).second) << line;
      Labels labels;
      const std::string all = match[2];
      for (std::sregex_iterator it(all.begin(), all.end(), label), end; it != end; ++it) {
        labels.push_back({(*it)[1], (*it)[2]});
      }
      page.series.push_back({current, labels});
    } else {
      ADD_FAILURE() << "not the text format: " << line;
    }
  }
  return page;
}

inline Page PageOf(const prometheus::Collectable& part) { return ReadPage(Expose({&part}, {})); }

// /proc/PID/stat of a process that used so much CPU time and one page of memory.
inline void AddProcess(topology::FixtureTree* tree, pid_t pid, int start_ticks, int cpu_ticks) {
  tree->File("proc/" + std::to_string(pid) + "/stat",
             "42 (p) S 1 42 42 0 -1 0 0 0 0 0 " + std::to_string(cpu_ticks) + " 0 0 0 20 0 1 0 " +
                 std::to_string(start_ticks) + " 4096 1\n");
}

}  // namespace lockstep::agent

#endif  // LOCKSTEP_TESTS_WORKER_AGENT_METRICS_PAGE_H_
