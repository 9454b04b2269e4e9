#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "server/telemetry/log.h"
#include "server/telemetry/log_sink.h"
#include "tests/server/telemetry/log_pipe.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

using ::testing::MatchesRegex;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LogTest : public LogPipe {
 protected:
  int fd() const { return write_.get(); }
};

TEST_F(LogTest, TextIsForPeople) {
  Log log(LogLevel::kInfo, LogFormat::kText, fd());
  log.warning("array reclaimed",
              {{"pid", 12}, {"array", "run42/u"}, {"held_s", 1.5}, {"ok", true}});
  EXPECT_THAT(written(), MatchesRegex("20[0-9T:.-]+Z warning array reclaimed pid=12 array=run42/u "
                                      "held_s=1.5 ok=true\n"));
}

TEST_F(LogTest, JsonIsOneObjectALine) {
  Log log(LogLevel::kInfo, LogFormat::kJson, fd());
  log.error("array reclaimed", {{"pid", 12U}, {"array", "a \"b\"\n"}});
  EXPECT_THAT(written(), MatchesRegex("\\{\"time\":\"20[0-9T:.-]+Z\",\"level\":\"error\",\"event\":"
                                      "\"array reclaimed\",\"pid\":12,\"array\":\"a .\"b.\".u000a\""
                                      "\\}\n"));
}

TEST_F(LogTest, TheJournalGetsItsPriorities) {
  Log log(LogLevel::kDebug, LogFormat::kJournal, fd());
  log.debug("a");
  log.info("b", {{"n", -1}});
  log.warning("c");
  log.error("d");
  EXPECT_EQ(written(), "<7>a\n<6>b n=-1\n<4>c\n<3>d\n");
}

// A client chooses its process's name: it must not be able to forge a line or drive a terminal.
TEST_F(LogTest, AFieldCannotEndTheLine) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  log.info("gone",
           {{"command", "x\n<3>forged"}, {"escape", "\x1b[2J"}, {"empty", ""}, {"eq", "a=b"}});
  EXPECT_EQ(written(),
            "<6>gone command=\"x\\u000a<3>forged\" escape=\"\\u001b[2J\" empty=\"\" eq=\"a=b\"\n");
}

TEST_F(LogTest, LevelsBelowTheLimitAreSilent) {
  Log log(LogLevel::kWarning, LogFormat::kJournal, fd());
  log.info("no");
  log.set_level(LogLevel::kInfo);
  log.info("yes");
  EXPECT_EQ(written(), "<6>yes\n");
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log] {
      for (int n = 0; n < 100; ++n) log.info("event", {{"text", "0123456789"}});
    });
  }
  for (auto& thread : threads) thread.join();
  std::string expected;
  for (int n = 0; n < 400; ++n) expected += "<6>event text=0123456789\n";
  EXPECT_EQ(written(), expected);
}

TEST_F(LogTest, AFloodIsCountedInsteadOfWritten) {
  LogLimiter limiter(2, std::chrono::hours(1));
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  for (int i = 0; i < 5; ++i) log.write(limiter, LogLevel::kInfo, "refused", {{"i", i}});
  EXPECT_EQ(written(), "<6>refused i=0\n<6>refused i=1\n");
}

// Before, the daemon stood still in write(2) until somebody read.
TEST_F(LogTest, AFullPipeHoldsUpNobodyAndIsCounted) {
  ASSERT_EQ(::fcntl(fd(), F_SETFL, 0), 0);  // blocks, as standard error does
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  constexpr int kLines = 5000;
  const std::string text(100, 'x');
  for (int i = 0; i < kLines; ++i) log.info("event", {{"text", text}});
  std::string lines;
  for (std::string more = written(); !more.empty(); more = written()) lines += more;
  const auto kept = std::count(lines.begin(), lines.end(), '\n');
  EXPECT_LT(kept, kLines);
  EXPECT_TRUE(lines.ends_with("x\n")) << "the last line was cut";
  log.info("next");
  EXPECT_EQ(written(),
            fmt::format("<4>lines of this log were dropped: nobody took them count={}\n<6>next\n",
                        kLines - kept));
}

// As many bytes as a pipe takes in one piece: a longer line would be cut, or mixed with others.
TEST_F(LogTest, ALineThatAPipeWouldNotTakeAtOnceHasItsLongTextsShortened) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  const std::string text(10'000, 'x');
  log.info("event", {{"text", text}, {"pid", 12}});
  const std::string line = written();
  EXPECT_LE(line.size(), static_cast<std::size_t>(PIPE_BUF));
  EXPECT_GT(line.size(), static_cast<std::size_t>(PIPE_BUF) / 3);
  EXPECT_THAT(line, MatchesRegex("<6>event text=x+[.][.][.] pid=12\n"));
}

TEST_F(LogTest, AShortenedLineOfJsonIsJson) {
  Log log(LogLevel::kInfo, LogFormat::kJson, fd());
  const std::string text(5'000, '\x1b');  // grows sixfold
  log.info("event", {{"text", text}, {"array", "u"}});
  const std::string line = written();
  EXPECT_LE(line.size(), static_cast<std::size_t>(PIPE_BUF));
  EXPECT_THAT(
      line, MatchesRegex("[{]\"time\":.*\"text\":\"([\\]u001b)+[.][.][.]\",\"array\":\"u\"[}]\n"));
}

TEST_F(LogTest, ATextIsShortenedBetweenItsCharacters) {
  Log log(LogLevel::kInfo, LogFormat::kJson, fd());
  std::string text = "x";
  while (text.size() < 10'000) text += "\xc3\xb6";
  log.info("event", {{"text", text}});
  EXPECT_THAT(written(), ::testing::HasSubstr("\xc3\xb6...\"}\n"));
}

TEST_F(LogTest, ALineOfManyTextsEndsInANewlineAllTheSame) {
  LogSink sink(fd());
  sink.write(std::string(10'000, 'x') + '\n');
  const std::string line = written();
  EXPECT_EQ(line.size(), static_cast<std::size_t>(PIPE_BUF));
  EXPECT_TRUE(line.ends_with("x...\n"));
}

// A terminal, and the end that shows it.
struct Terminal {
  Terminal() : reader(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    EXPECT_TRUE(reader);
    EXPECT_EQ(::grantpt(reader.get()), 0);
    EXPECT_EQ(::unlockpt(reader.get()), 0);
    terminal.reset(::open(::ptsname(reader.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_TRUE(terminal);
  }
  int fd() const { return terminal.get(); }
  // What is to be seen since the last look.
  std::string seen() const {
    std::string text;
    char part[4096];
    for (ssize_t size = 0; (size = ::read(reader.get(), part, sizeof part)) > 0;) {
      text.append(part, static_cast<std::size_t>(size));
    }
    return text;
  }

  wire::UniqueFd reader;
  wire::UniqueFd terminal;
};

// More than there is room for. Returns how many lines were dropped: 10, or fewer by then.
std::uint64_t fill(LogSink& sink) {
  std::uint64_t dropped = 0;
  for (int n = 0; n < 100 && dropped < 10; ++n) {
    sink.write(std::string(997, 'x') + '\n');
    dropped += sink.take_dropped().lines;
  }
  return dropped;
}

// Poll says that there is room in a terminal that a line would wait in.
TEST(LogSinkTest, ATerminalThatNobodyReadsDelaysNobody) {
  const Terminal terminal;
  LogSink sink(terminal.fd());
  EXPECT_EQ(fill(sink), 10U);
  std::string seen = terminal.seen();
  sink.write("and on it goes\n");
  seen += terminal.seen();
  EXPECT_THAT(seen, ::testing::EndsWith("and on it goes\r\n"));
  EXPECT_EQ(::fcntl(terminal.fd(), F_GETFL) & O_NONBLOCK, 0) << "others write there, too";
}

// Under sudo or su: the terminal is another user's, who may not open it once more by its name.
TEST(LogSinkTest, NorDoesOneOfAnotherUserWhoseOwnOneItIs) {
  ASSERT_EQ(::geteuid(), 0U) << "this test becomes another user: run it as root";
  for (const bool own : {true, false}) {
    const Terminal terminal;
    ASSERT_EQ(::fchmod(terminal.fd(), 0600), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::setsid();
      const bool ready = (!own || ::ioctl(terminal.fd(), TIOCSCTTY, 0) == 0) &&
                         ::setgid(12345) == 0 && ::setuid(12345) == 0;
      LogSink sink(terminal.fd());
      const std::uint64_t dropped = ready ? fill(sink) : 0;
      ::_exit(dropped == 10 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << own;
    EXPECT_EQ(terminal.seen().empty(), !own) << "what cannot be written without a wait is dropped";
  }
}

TEST_F(LogTest, LongLinesOfThreadsDoNotMix) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, fd());
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&log, letter] {
      for (int n = 0; n < 4; ++n) log.info("event", {{"text", std::string(10'000, letter)}});
    });
  }
  for (auto& thread : threads) thread.join();
  std::istringstream lines(written());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, MatchesRegex("<6>event text=(a+|b+|c+)[.][.][.]"));
  }
  EXPECT_EQ(count, 12U);
}

// A log in a file of at most kMostBytes.
class LogFile : public ::testing::Test {
 protected:
  LogFile() {
    EXPECT_TRUE(file_);
    log_.info("of the run before");
    log_.bound_file(path_, kMostBytes);
  }
  void fill_many_times() {
    for (int i = 0; i < 1000; ++i) log_.info("event", {{"i", i}});
  }
  // What is in the file that it began with, wherever that is now.
  std::string text() const {
    std::string kept(2 * kMostBytes, ' ');
    kept.resize(static_cast<std::size_t>(::pread(file_.get(), kept.data(), kept.size(), 0)));
    return kept;
  }
  void expect_begun_anew() const {
    EXPECT_LT(text().size(), kMostBytes);
    EXPECT_TRUE(text().ends_with("i=999\n")) << text();
  }

  static constexpr std::size_t kMostBytes = 1000;
  const memlease::testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/log";
  const wire::UniqueFd file_{::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  Log log_{LogLevel::kInfo, LogFormat::kJournal, file_.get()};
};

TEST_F(LogFile, BeginsAgainOnceItHasBeenMovedAwayIfItIsTold) {
  log_.reopen_file();
  EXPECT_EQ(text_of(path_), text()) << "it is there";
  const std::string moved = folder_.path() + "/moved";
  ASSERT_EQ(::rename(path_.c_str(), moved.c_str()), 0);
  log_.info("still there");
  log_.reopen_file();
  log_.info("here");
  EXPECT_TRUE(text_of(moved).ends_with("still there\n")) << text_of(moved);
  EXPECT_TRUE(text_of(path_).ends_with("here\n")) << text_of(path_);
  EXPECT_EQ(text_of(path_).find('\n'), text_of(path_).size() - 1) << "a line of its own";
}

TEST_F(LogFile, BeginsAgainWhenItIsFullAndKeepsTheOneBefore) {
  fill_many_times();
  const std::string now = text_of(path_);
  const std::string before = text_of(path_ + ".1");
  EXPECT_LT(now.size(), kMostBytes);
  EXPECT_GE(before.size(), kMostBytes);
  EXPECT_LT(before.size(), kMostBytes + 100);
  EXPECT_TRUE(now.ends_with("i=999\n"));
  EXPECT_TRUE(before.starts_with("<6>event i=")) << before;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 2U);
}

// As on a full file system.
TEST_F(LogFile, TellsWhatItLostAndWhyOnceThereIsRoom) {
  const auto lose_lines = [&](rlim_t room_bytes) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit full{text().size() + room_bytes, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int i = 0; i < 5; ++i) log_.info("lost", {{"i", i}});
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  };
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room_bytes : {0, 7}) {
    ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
    lose_lines(room_bytes);
    EXPECT_EQ(text(), room_bytes == 0 ? "" : "<6>lost");
    log_.error("next");
    EXPECT_EQ(text(), std::string(room_bytes == 0 ? "" : "<6>lost...\n") +
                          "<4>lines of this log were dropped: File too large count=5\n<3>next\n");
  }
  ::signal(SIGXFSZ, handler);
}

TEST_F(LogFile, BeginsAnewWhereTheOneBeforeCannotBeKept) {
  std::filesystem::create_directory(path_ + ".1");
  fill_many_times();
  expect_begun_anew();
}

TEST_F(LogFile, BeginsAnewWhereItsFolderHasGone) {
  std::filesystem::remove_all(folder_.path());
  fill_many_times();
  expect_begun_anew();
}

// In a folder that has come in the place of ours.
TEST_F(LogFile, LeavesAnothersAlone) {
  std::filesystem::remove(path_);
  std::ofstream(path_) << "another's";
  fill_many_times();
  EXPECT_EQ(text_of(path_), "another's");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
  expect_begun_anew();
}

TEST(LogLimiterTest, TheFirstEventOfAPeriodTellsHowManyWereHeldBack) {
  LogLimiter limiter(1, std::chrono::seconds(10));
  const LogLimiter::Clock::time_point start = LogLimiter::Clock::now();
  EXPECT_EQ(limiter.admit(start), 0U);
  EXPECT_EQ(limiter.admit(start + std::chrono::seconds(1)), std::nullopt);
  EXPECT_EQ(limiter.admit(start + std::chrono::seconds(9)), std::nullopt);
  EXPECT_EQ(limiter.admit(start + std::chrono::seconds(10)), 2U);
  EXPECT_EQ(limiter.admit(start + std::chrono::seconds(20)), 0U);
}

}  // namespace
}  // namespace memlease::server
