#include "core/gang/protocol/messages.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace lockstep::core {
namespace {

Report SomeReport() {
  Report report(Generation{2, 5}, MemberPhase::kStopping);
  report.lease_expired = true;
  report.lease_expired_at = seconds(6);
  report.first_step = 11;
  report.last_step = 20;
  report.binding = Binding::kPartial;
  report.binding_reason = "sched_setaffinity: EPERM";
  Failure death;
  death.rank = 3;
  death.cause = Cause::kProcessSignal;
  death.signal = 9;
  death.at = seconds(7);
  death.by_itself = true;
  death.stderr_tail = "CUDA error";
  report.deaths = {death};
  report.whereabouts = {{3, "load_batch (train.py:30)"}};
  report.parked = {.ready = 8, .why_not = "it ended", .saved = milliseconds(1700)};
  report.finished = true;
  report.decided = true;
  report.down = {death};
  report.kept = {2, 5};
  return report;
}

MemoryPart SomePart() { return {{{1, 2}, 3}, 1, "step-7"}; }

std::vector<Message> OneOfEach() {
  Hello hello;
  hello.job_uid = "5a1c";
  hello.machine = 3;
  hello.attempt = 4;
  hello.silence = milliseconds(1500);
  hello.counters.process_failures = 2;
  hello.report = SomeReport();
  hello.address = "10.0.0.4";
  Start start;
  start.generation = {1, 2};
  start.master_address = "10.0.0.1";
  start.master_port = 20000;
  start.lease = {true, seconds(5), milliseconds(20), seconds(15)};
  start.ports = {{"10.0.0.1", 20001}, {"fd00::2", 20001}};
  start.code = "5eed";
  start.members = Members::Of({0, 1, 3});
  FailureRule rule;
  rule.metric = "loss";
  rule.above = 10;
  rule.action = FailureAction::kRestartFromEarlier;
  start.rules = {rule};
  start.skip_steps = "498-502";
  Verdict verdict;
  verdict.generation = {1, 2};
  verdict.exit_code = 70;
  verdict.failure.cause = Cause::kProcessExit;
  verdict.failure.rank = -1;
  verdict.failure.message = "rank 3 exited with code 1";
  GenerationRecord ended;
  ended.generation = {1, 1};
  ended.announced = seconds(1);
  ended.ended = seconds(2);
  ended.stop_reason = StopReason::kFailure;
  ended.failure = verdict.failure;
  ended.members = Members::Of({0, 2});
  verdict.ended = {ended};
  return {hello,
          Pong{seconds(1), seconds(2), {1, 2}, MemberPhase::kRunning},
          ReportMessage{SomeReport()},
          StopRequest{StopReason::kDraining, seconds(30)},
          CommitRequest{9, {1, 2}, true, "step-7", "memory is full"},
          Progress{{1, 2},
                   {{0,
                     10,
                     100,
                     2.5,
                     4096,
                     10,
                     0.5,
                     0.25,
                     {31.5, 0.375, 0.9375},
                     3,
                     {1.2e9, 1.98e9, 2},
                     {{"accuracy", 0.875}, {"val/f1", 0.5}}}}},
          VerdictAck{{1, 2}},
          Welcome{2, {}},
          Refused{RefusalCode::kLowerAttempt, "attempt 5 has joined"},
          Ping{seconds(3), 1, {true, seconds(5), milliseconds(20), seconds(15)}},
          start,
          Stop{{1, 2}, StopReason::kFailure, {}, {}, true},
          CommitReply{9, true, 1, ""},
          verdict,
          HeldParts{"10.0.0.2:7070", {SomePart()}},
          FetchFailed{SomePart(), "it is torn"},
          Persisted{{{1, 2}, 3}, "no space left", {{1, 2}, 3}, {0, 1}},
          Fetch{SomePart(), "10.0.0.3:7070"},
          Keep{{{{1, 2}, 3}}},
          Persist{{{1, 1}, 3}, {{1, 2}, 0}, "step-7", {1}},
          Dismiss{{1, 2}},
          Measure{4, true, false, {{2, "10.0.0.2:41000", "5eed"}}},
          Measured{4,
                   true,
                   {41.5, 12, 0.5},
                   "10.0.0.1:41000",
                   "f00d",
                   {1.25},
                   {{3, 650.5, {1.2e9, 1.98e9, kSlowedByHeat}, "2 uncorrected errors"}}},
          Run{{1, 2}, 5, 3, "orted -mca ess \"env\""},
          Ran{{1, 2}, 5, 3, 127, "sh: orted: not found"},
          Fence{{1, 2}, 3, 0, true, {{"P0-businesscard", "10.0.0.1$4711"}}},
          FenceMore{{1, 2}, 3, 1},
          TryPorts{{1, 2}, 20001, 4},
          PortsTried{{1, 2}, 20001, 20003},
          StartAgain{{1, 2}, 3, seconds(7)},
          UsageMessage{{2500, 4096, -1, 7}, {4, 2, 1, 9}},
          Look{{1, 2}, seconds(5)},
          Looked{{1, 2}, {{3, "load (train.py:30)"}}},
          HeldCode{"10.0.0.2:7070", {"5eed", "f00d"}, {1, 2}, "5eed"},
          FetchCode{"5eed", "10.0.0.2:7070"},
          CodeFailed{"5eed", "the disk is full"}};
}

TEST(MessagesTest, EveryMessageReadsBackAsItWasWritten) {
  std::vector<Message> messages = OneOfEach();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].index(), i);
    std::string bytes = Encode(messages[i]);
    EXPECT_EQ(static_cast<size_t>(bytes[0]), i + 1);
    Result<Message> read = Decode(bytes);
    ASSERT_TRUE(read.ok()) << NameOf(messages[i]) << ": " << read.error().message;
    EXPECT_EQ(Encode(*read), bytes) << NameOf(messages[i]);
  }
}

TEST(MessagesTest, TheFuzzersSeedsAreMessages) {
  for (const Message& message : OneOfEach()) {
    const std::string path = std::string("tests/fuzz/corpus/protocol/") + NameOf(message);
    const Result<std::string> seed = ReadFile(path, 4096);  // ctest runs it in the root
    ASSERT_TRUE(seed.ok()) << seed.error().message;
    const Result<Message> read = Decode(*seed);
    ASSERT_TRUE(read.ok()) << path << ": " << read.error().message;
    EXPECT_EQ(read->index(), message.index()) << path;
  }
}

TEST(MessagesTest, EveryTruncatedMessageIsRefused) {
  for (const Message& message : OneOfEach()) {
    std::string bytes = Encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(Decode(std::string_view(bytes).substr(0, size)).ok())
          << NameOf(message) << " cut to " << size;
    }
    EXPECT_FALSE(Decode(bytes + "x").ok()) << NameOf(message);
  }
}

TEST(MessagesTest, UnknownTypesAndEnumsOutOfRangeAreRefused) {
  EXPECT_FALSE(Decode("").ok());
  EXPECT_FALSE(Decode(std::string(1, '\0')).ok());
  EXPECT_FALSE(Decode(std::string(1, '\x7f')).ok());
  std::string pong = Encode(Pong{});
  pong.back() = static_cast<char>(kMemberPhaseCount);
  EXPECT_FALSE(Decode(pong).ok());
}

TEST(MessagesTest, MembersInAnotherFormThanTheirsAreRefused) {
  Start start;
  start.members = Members::Of({0, 1});
  std::string bytes = Encode(start);
  const size_t members = bytes.rfind("0-1");  // then come no rules and no steps to leave out
  ASSERT_EQ(members, bytes.size() - 7);
  ASSERT_TRUE(Decode(bytes).ok());
  for (const char* form : {"0,1", "1,0", "0-0", "1-0", " 01", "0-x"}) {
    bytes.replace(members, 3, form);
    EXPECT_FALSE(Decode(bytes).ok()) << form;
  }
}

TEST(MessagesTest, TimesThatNoClockShowsAreRefused) {
  for (const Time time : {Time::max(), Time::min(), Time((int64_t{1} << 60) + 1)}) {
    EXPECT_FALSE(Decode(Encode(Pong{time, {}, {}, MemberPhase::kIdle})).ok());
  }
  EXPECT_TRUE(Decode(Encode(Pong{Time(int64_t{1} << 60), {}, {}, MemberPhase::kIdle})).ok());
}

TEST(MessagesTest, TheLargestReportFitsAFrame) {
  Report report(Generation{1, 1}, MemberPhase::kStopped);
  for (size_t i = 0; i < kMaxDeathsInReport; ++i) {
    Failure death;
    death.stderr_tail = std::string(kMaxStderrTail, 'x');
    report.deaths.push_back(death);
  }
  report.down = report.deaths;
  ASSERT_EQ(kMaxDownInReport, kMaxDeathsInReport);
  report.whereabouts.assign(kMaxWhereaboutsInReport, {1, std::string(kMaxPlace, 'x')});
  EXPECT_LT(Encode(ReportMessage{report}).size(), kMaxMessage);
}

TEST(MessagesTest, TheStartOfTheLargestJobFitsAFrame) {
  Start start;
  start.resume = std::string(4096, 'x');
  start.ports.assign(1024, {"2001:0db8:0000:0000:0000:ff00:0042:8329", 20001});
  const std::string bytes = Encode(start);
  EXPECT_LT(bytes.size(), kMaxMessage);
  const Result<Message> read = Decode(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(std::get<Start>(*read).ports, start.ports);
}

TEST(MessagesTest, AnyMembersOfTheLargestGangAreTold) {
  std::vector<uint32_t> every_second;
  for (uint32_t machine = 0; machine < Members::kMost; machine += 2) {
    every_second.push_back(machine);
  }
  Start start;
  start.resume = std::string(4096, 'x');
  start.members = Members::Of(every_second);
  const std::string bytes = Encode(start);
  EXPECT_LT(bytes.size(), kMaxMessage);
  const Result<Message> read = Decode(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(std::get<Start>(*read).members, start.members);
}

// The wire's form is a promise: docs/reference/protocol.md shows these bytes.
TEST(MessagesTest, PingHasTheBytesOfTheProtocolDocument) {
  std::string bytes =
      Encode(Ping{nanoseconds(1), 2, {true, nanoseconds(3), nanoseconds(4), seconds(15)}});
  std::string expected(
      "\x0a"
      "\0\0\0\0\0\0\0\x01"
      "\0\0\0\x02"
      "\x01"
      "\0\0\0\0\0\0\0\x03"
      "\0\0\0\0\0\0\0\x04"
      "\0\0\0\x03\x7e\x11\xd6\x00",
      38);
  EXPECT_EQ(bytes, expected);
}

TEST(MessagesTest, ReportHasTheBytesOfTheProtocolDocument) {
  const std::string expected(
      "\x03"
      "\0\0\0\x02\0\0\0\x05"
      "\x05"
      "\x01"
      "\0\0\0\x01\x65\xa0\xbc\x00"
      "\0\0\0\0\0\0\0\x0b"
      "\0\0\0\0\0\0\0\x14"
      "\0"
      "\x02"
      "\0\x18sched_setaffinity: EPERM"
      "\0\x01"
      "\0\0\0\x03"
      "\x02"
      "\xff\xff\xff\xff"
      "\0\0\0\x09"
      "\0\0\0\x01\xa1\x3b\x86\x00"
      "\x01"
      "\0\x0a"
      "CUDA error"
      "\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\xff\xff\xff\xff"
      "\0\x01"
      "\0\0\0\x03"
      "\0\x18load_batch (train.py:30)"
      "\0"
      "\0\0\0\0\0\0\0\0"
      "\0\0\0\x08"
      "\0\x08it ended"
      "\0\0\0\0\x65\x53\xf1\x00"
      "\x01"
      "\x01"
      "\0\x01"
      "\0\0\0\x03"
      "\x02"
      "\xff\xff\xff\xff"
      "\0\0\0\x09"
      "\0\0\0\x01\xa1\x3b\x86\x00"
      "\x01"
      "\0\x0a"
      "CUDA error"
      "\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\xff\xff\xff\xff"
      "\0\x02"
      "\0\0\0\x02"
      "\0\0\0\x05"
      "\0\0",
      252);
  EXPECT_EQ(Encode(ReportMessage{SomeReport()}), expected);
}

TEST(MessagesTest, FenceHasTheBytesOfTheProtocolDocument) {
  const std::string expected(
      "\x1a"
      "\0\0\0\x01\0\0\0\x02"
      "\0\0\0\x03"
      "\0\0\0\0"
      "\x01"
      "\0\x01"
      "\0\x02k0"
      "\0\x05value",
      31);
  EXPECT_EQ(Encode(Fence{{1, 2}, 3, 0, true, {{"k0", "value"}}}), expected);
}

TEST(MessagesTest, PortsHaveTheBytesOfTheProtocolDocument) {
  EXPECT_EQ(Encode(TryPorts{{1, 2}, 20001, 4}), std::string("\x1c"
                                                            "\0\0\0\x01\0\0\0\x02"
                                                            "\0\0\x4e\x21"
                                                            "\0\0\0\x04",
                                                            17));
  EXPECT_EQ(Encode(PortsTried{{1, 2}, 20001, 20003}), std::string("\x1d"
                                                                  "\0\0\0\x01\0\0\0\x02"
                                                                  "\0\0\x4e\x21"
                                                                  "\0\0\x4e\x23",
                                                                  17));
}

TEST(MessagesTest, UsageHasTheBytesOfTheProtocolDocument) {
  EXPECT_EQ(Encode(UsageMessage{{2500, 4096, -1, 7}, {4, 2, 1, 9}}),
            std::string("\x1f"
                        "\0\0\0\0\0\0\x09\xc4"
                        "\0\0\0\0\0\0\x10\0"
                        "\xff\xff\xff\xff\xff\xff\xff\xff"
                        "\0\0\0\0\0\0\0\x07"
                        "\0\0\0\x04\0\0\0\x02\0\0\0\x01\0\0\0\x09",
                        49));
}

TEST(MessagesTest, LookAndLookedHaveTheBytesOfTheProtocolDocument) {
  EXPECT_EQ(Encode(Look{{1, 2}, seconds(7)}), std::string("\x20"
                                                          "\0\0\0\x01\0\0\0\x02"
                                                          "\0\0\0\x01\xa1\x3b\x86\x00",
                                                          17));
  EXPECT_EQ(Encode(Looked{{1, 2}, {{3, "load"}}}), std::string("\x21"
                                                               "\0\0\0\x01\0\0\0\x02"
                                                               "\0\x01"
                                                               "\0\0\0\x03"
                                                               "\0\x04load",
                                                               21));
}

TEST(MessagesTest, ProgressOfAFullMachineWithAllItsFiguresFitsAMessage) {
  Progress progress{{1, 2}, {}};
  for (uint32_t rank = 0; rank < 64; ++rank) {
    RankProgress& each = progress.ranks.emplace_back();
    each.rank = rank;
    each.figures.assign(kMaxNamedFigures, {std::string(kMaxFigureName, 'n'), 0.5});
  }
  EXPECT_LE(Encode(progress).size(), kMaxMessage);
}

TEST(MessagesTest, StartAgainHasTheBytesOfTheProtocolDocument) {
  EXPECT_EQ(Encode(StartAgain{{1, 2}, 3, seconds(7)}), std::string("\x1e"
                                                                   "\0\0\0\x01\0\0\0\x02"
                                                                   "\0\0\0\x03"
                                                                   "\0\0\0\x01\xa1\x3b\x86\x00",
                                                                   21));
}

TEST(CountersTest, MergeTakesTheMaximumOfEach) {
  Counters a;
  a.process_failures = 3;
  a.stops = 1;
  Counters b;
  b.process_failures = 2;
  b.replacements = 4;
  a.Merge(b);
  EXPECT_EQ(a.process_failures, 3U);
  EXPECT_EQ(a.replacements, 4U);
  EXPECT_EQ(a.stops, 1U);
}

}  // namespace
}  // namespace lockstep::core
