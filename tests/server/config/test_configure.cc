#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "server/config/config_option.h"
#include "server/config/configure.h"
#include "tests/server/config/config_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_F(ConfigTest, DefaultsComeFromTheTable) {
  const Config config = this->config();
  EXPECT_EQ(config.directory, "/run/user/7/memlease");
  EXPECT_EQ(config.socket_mode, 0600U);
  EXPECT_EQ(config.warm_bytes, 256U << 20U);
  EXPECT_EQ(config.quota_bytes, 0U);
  EXPECT_EQ(config.drain_timeout_s, 25U);
  EXPECT_EQ(config.idle_exit_s, 0U);
  EXPECT_EQ(config.huge_pages, HugePages::kAuto);
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  EXPECT_EQ(config.log_format, LogFormat::kText);
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GT(config.memory_limit_bytes, 0U);
  EXPECT_LE(config.memory_limit_bytes, memory / 2);
}

TEST_F(ConfigTest, WithoutARuntimeDirectoryTheDefaultIsInTmp) {
  environment_.erase("XDG_RUNTIME_DIR");
  EXPECT_EQ(config().directory, "/tmp/memlease-" + std::to_string(::geteuid()));
}

TEST_F(ConfigTest, ARelativeRuntimeDirectoryIsIgnoredAsByClients) {
  environment_["XDG_RUNTIME_DIR"] = "relative";
  EXPECT_EQ(config().directory, "/tmp/memlease-" + std::to_string(::geteuid()));
}

TEST_F(ConfigTest, AFlagBeatsAVariableThatBeatsTheFileThatBeatsTheDefault) {
  const std::string path = file("drain_timeout_s = 1\nidle_exit_s = 1\nquota_arrays = 1\n");
  environment_["MEMLEASE_DRAIN_TIMEOUT_S"] = "2";
  environment_["MEMLEASE_IDLE_EXIT_S"] = "2";
  const Config config = this->config({"--drain-timeout-s", "3"});
  EXPECT_EQ(config.drain_timeout_s, 3U);
  EXPECT_EQ(config.idle_exit_s, 2U);
  EXPECT_EQ(config.quota_arrays, 1U);
  EXPECT_EQ(config.quota_sessions, 512U);

  const std::string listing = run({"--drain-timeout-s=3", "--print-config"}).output;
  EXPECT_THAT(listing, ::testing::ContainsRegex("drain_timeout_s = 3 +# --drain-timeout-s\n"));
  EXPECT_THAT(listing, ::testing::ContainsRegex("idle_exit_s = 2 +# MEMLEASE_IDLE_EXIT_S\n"));
  EXPECT_THAT(listing, ::testing::ContainsRegex("quota_arrays = 1 +# " + path + ":3\n"));
  EXPECT_THAT(listing, ::testing::ContainsRegex("quota_sessions = 512 +# default\n"));
}

// Every option, by every source.
TEST_F(ConfigTest, EachOptionCanBeSetByFlagVariableAndFile) {
  const std::map<std::string, std::pair<std::string, std::string>> samples = {
      {"directory", {"/run/x", "\"/run/x\""}},
      {"socket_mode", {"0660", "0o660"}},
      {"memory_limit_bytes", {"3GiB", "\"3GiB\""}},
      {"warm_bytes", {"64K", "\"64KiB\""}},
      {"quota_bytes", {"1000", "1000"}},
      {"quota_arrays", {"7", "7"}},
      {"quota_sessions", {"8", "8"}},
      {"quota_descriptors", {"9", "9"}},
      {"quota_page_bytes", {"1GiB", "\"1GiB\""}},
      {"quota_file_numbers", {"1000", "1000"}},
      {"quota_open_arrays", {"21", "21"}},
      {"quota_waiting_calls", {"12", "12"}},
      {"quota_requests", {"13", "13"}},
      {"quota_request_bytes", {"1MiB", "\"1MiB\""}},
      {"quota_log_lines", {"14", "14"}},
      {"gpu_memory_limit_bytes", {"40GiB", "\"40GiB\""}},
      {"gpu_quota_bytes", {"2GiB", "\"2GiB\""}},
      {"event_waits", {"host", "\"host\""}},
      {"event_wait_timeout_s", {"11", "11"}},
      {"drain_timeout_s", {"9", "9"}},
      {"idle_exit_s", {"10", "10"}},
      {"huge_pages", {"never", "\"never\""}},
      {"metrics", {"127.0.0.1:9464", "\"127.0.0.1:9464\""}},
      {"log_level", {"debug", "\"debug\""}},
      {"log_format", {"journal", "\"journal\""}},
  };
  for (const Option& option : options()) {
    const std::string name(option.name);
    SCOPED_TRACE(name);
    ASSERT_TRUE(samples.contains(name)) << "this test needs a sample for the new option";
    const auto& [text, printed] = samples.at(name);
    const std::string line = name + " = " + printed;
    const std::string flag = flag_of(option) + "=" + text;
    EXPECT_THAT(run({flag.c_str(), "--print-config"}).output, HasSubstr(line));

    const std::string variable(option.variable);
    environment_[variable] = text;
    EXPECT_THAT(run({"--print-config"}).output, HasSubstr(line));
    environment_.erase(variable);

    file(line + "\n");
    EXPECT_THAT(run({"--print-config"}).output, HasSubstr(line));
    file("");
  }
}

TEST_F(ConfigTest, MetricsAreServedToThisMachineAlone) {
  EXPECT_EQ(config().metrics, "off");
  for (const char* address : {"unix", "127.0.0.1:0", "127.0.0.1:65535", "[::1]:9464"}) {
    environment_["MEMLEASE_METRICS"] = address;
    EXPECT_EQ(config().metrics, address);
  }
  for (const char* address : {"0.0.0.0:9464", "9464", "localhost:9464", "127.0.0.1", "127.0.0.1:",
                              "127.0.0.1:65536", "127.0.0.1:94x", "[::]:9464", "Unix", "/a/b"}) {
    environment_["MEMLEASE_METRICS"] = address;
    const Startup startup = run({});
    EXPECT_EQ(startup.exit_code, kExitConfig) << address;
    EXPECT_THAT(startup.error, HasSubstr("MEMLEASE_METRICS: '" + std::string(address) +
                                         "' is not off, unix, 127.0.0.1:PORT or [::1]:PORT."));
  }
}

TEST_F(ConfigTest, WhatIsPrintedCanBeReadBack) {
  environment_["MEMLEASE_DIR"] = "/run/with \"quotes\" and \\";
  environment_["MEMLEASE_SOCKET_MODE"] = "666";
  environment_["MEMLEASE_QUOTA_BYTES"] = "12345";
  const std::string printed = run({"--print-config"}).output;
  environment_.erase("MEMLEASE_DIR");
  environment_.erase("MEMLEASE_SOCKET_MODE");
  environment_.erase("MEMLEASE_QUOTA_BYTES");
  file(printed);
  const Config config = this->config();
  EXPECT_EQ(config.directory, "/run/with \"quotes\" and \\");
  EXPECT_EQ(config.socket_mode, 0666U);
  EXPECT_EQ(config.quota_bytes, 12345U);
}

TEST_F(ConfigTest, StringsAndCommentsHaveAnyCharacters) {
  file(
      "directory = \"/run/\u00e4 \\\"\u00e4\"  # \u00e4\n# \u00e4\nlog_level = 'info'  # \u00e4\n");
  EXPECT_EQ(config().directory, "/run/\u00e4 \"\u00e4");
}

struct BadFile {
  const char* text;
  const char* where_and_what;
};

class BadFileTest : public ConfigTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadFileTest, IsRefusedWithFileAndLine) {
  const std::string path = file(GetParam().text);
  const Startup startup = run({"--check-config"});
  EXPECT_FALSE(startup.config.has_value());
  EXPECT_EQ(startup.exit_code, kExitConfig);
  EXPECT_THAT(startup.error, HasSubstr(path + GetParam().where_and_what));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadFileTest,
    ::testing::Values(
        BadFile{"\nwarm_byte = 1", ":2: unknown key 'warm_byte'. Did you mean 'warm_bytes'?"},
        BadFile{"zebra_stripes = 1", ":1: unknown key 'zebra_stripes'.\n"},
        BadFile{"zebra = 1\nantelope = 1", ":1: unknown key 'zebra'."},
        BadFile{"[limits]\nwarm_bytes = 1", ":1: the line is not KEY = VALUE"},
        BadFile{"\n[,", ":2: the line is not KEY = VALUE"},
        BadFile{"[\u00e4]", ":1: the line is not KEY = VALUE"},
        BadFile{"[names]\nwarm_bytes = 1", ":2: the line is not \"PATTERN\" = {owner = \"USER\"}"},
        BadFile{"[names]\n\"a\" = {owner = \"root\", group = \"root\"}", ":2: the line is not"},
        BadFile{"[names]\n\"a\" = {,", ":2: the line is not"},
        BadFile{"[names]\n\"a\" = {user = \"root\"}", ":2: the line is not"},
        BadFile{"[names]\n\"a\" = {owner = \"\u00e4\"}", ":2: the line is not"},
        BadFile{"[names]\n[names]", ":2: the line is not"},
        BadFile{"[names]\n\"a\" = {owner = 0}\n\"a\" = {owner = 0}", ":3: "},
        BadFile{"[names]\n\"a\" = {owner = 007}", ":2: "},
        BadFile{"\n[names]\n\"a b\" = {owner = 0}", ":3: the pattern has byte 0x20"},
        BadFile{"[names]\n\"\" = {owner = 0}", ":2: no name matches \"\""},
        BadFile{"[names]\n\"/sim/*\" = {owner = 0}", ":2: no name matches \"/sim/*\""},
        BadFile{"[names]\n\"sim//*\" = {owner = 0}", ":2: no name matches \"sim//*\""},
        BadFile{"[names]\n\"*/\" = {owner = 0}", ":2: no name matches \"*/\""},
        BadFile{"[names]\n\"b\" = {owner = \"no-such-user\"}\n\"a\" = {owner = \"nor-this\"}",
                ":2: this machine has no user 'no-such-user': give one of 'getent passwd', or a"},
        BadFile{"[names]\n\"a\" = {group = \"no-such-group\"}",
                ":2: this machine has no group 'no-such-group'"},
        BadFile{"[names]\n\"a\" = {owner = 4294967295}", ":2: '4294967295' is not the number"},
        BadFile{"names = {owner = 1}", ":1: unknown key 'names'."},
        BadFile{"a.b = 1", ":1: the line is not KEY = VALUE"},
        BadFile{"warm_bytes = \u00e4", ":1: a character beyond ASCII is outside quotes and"},
        BadFile{"warm_bytes = 1 \u00e4", ":1: a character beyond ASCII"},
        BadFile{"warm_bytes = 1'\u00e4'", ":1: a character beyond ASCII"},
        BadFile{"log_level = \"info\"\u00e4", ":1: a character beyond ASCII"},
        BadFile{"log_level = 'info\\'\u00e4", ":1: a character beyond ASCII"},
        BadFile{"log_level = \"\"\"info\"\"\"", ":1: the string begins with three quotes"},
        BadFile{"warm_bytes = {,",
                ":1: warm_bytes must be an integer, or a string such as \"2GiB\", not a table."},
        BadFile{"wram_bytes = [1]", ":1: unknown key 'wram_bytes'. Did you mean 'warm_bytes'?"},
        BadFile{"warm_bytes = ", ":1: "}, BadFile{"warm_bytes = 1\nwarm_bytes = 2", ":2: "},
        BadFile{"warm_bytes = 1.5",
                ":1: warm_bytes must be an integer, or a string such as \"2GiB\", "
                "not a fraction."},
        BadFile{"warm_bytes = \"2GB\"", ":1: '2GB' is not a size such as"},
        BadFile{"warm_bytes = \"-1\"", ":1: '-1' is not a size"},
        BadFile{"warm_bytes = -1", ":1: '-1' is not a size"},
        BadFile{"warm_bytes = \"101%\"", ":1: '101%' is not a size"},
        BadFile{"warm_bytes = \"16777216TiB\"", ":1: '16777216TiB' is not a size"},
        BadFile{"warm_bytes = \"5000000TiB\"", ":1: 5000000TiB is out of range: 0 to 46"},
        BadFile{"warm_bytes = [1]",
                ":1: warm_bytes must be an integer, or a string such as \"2GiB\", not an array."},
        BadFile{"quota_arrays = \"7\"", ":1: quota_arrays must be an integer, not a string."},
        BadFile{"quota_arrays = true", ":1: quota_arrays must be an integer, not a boolean."},
        BadFile{"quota_arrays = 1000000001", ":1: 1000000001 is out of range: 0 to 1000000000."},
        BadFile{"drain_timeout_s = 86401", ":1: 86401 is out of range: 0 to 86400."},
        BadFile{"socket_mode = 660", ":1: socket_mode must be an octal integer such as 0o660"},
        BadFile{"socket_mode = 0o777", ":1: 0777 is not a mode for sockets"},
        BadFile{"socket_mode = \"0060\"", ":1: 0060 is not a mode for sockets"},
        BadFile{"socket_mode = \"0680\"", ":1: '0680' is not an octal mode"},
        BadFile{"log_level = 1", ":1: log_level must be a string, not a decimal integer."},
        BadFile{"log_level = \"wanring\"",
                ":1: 'wanring' is not one of debug, info, warning, "
                "error. Did you mean 'warning'?"},
        BadFile{"directory = \"run\"", ":1: 'run' is not an absolute path."},
        BadFile{"directory = 1979-05-27", ":1: directory must be a string, not a date or time."}));

TEST_F(ConfigTest, AWrongFileIsRefusedEvenWhereAFlagOverridesIt) {
  file("idle_exit_s = 86401");
  EXPECT_EQ(run({"--idle-exit-s", "1"}).exit_code, kExitConfig);
}

TEST_F(ConfigTest, AWrongVariableIsNamed) {
  environment_["MEMLEASE_LOG_FORMAT"] = "jsno";
  const Startup startup = run();
  EXPECT_EQ(startup.exit_code, kExitConfig);
  EXPECT_THAT(startup.error, HasSubstr("MEMLEASE_LOG_FORMAT: 'jsno' is not one of text, json, "
                                       "journal. Did you mean 'json'?"));
}

TEST_F(ConfigTest, AWrongVariableGivesTheTerminalNoOrders) {
  environment_["MEMLEASE_LOG_FORMAT"] = "\x1b[2J\x9b\n";
  EXPECT_THAT(run().error, HasSubstr("MEMLEASE_LOG_FORMAT: '?[2J?\?' is not one of text, "));
}

TEST_F(ConfigTest, AnEmptyVariableIsNone) {
  environment_["MEMLEASE_LOG_FORMAT"] = "";
  EXPECT_EQ(config().log_format, LogFormat::kText);
}

struct BadFlags {
  std::vector<const char*> arguments;
  const char* what;
};

class BadFlagsTest : public ConfigTest, public ::testing::WithParamInterface<BadFlags> {};

TEST_P(BadFlagsTest, AreWrongUsage) {
  const Startup startup = run(GetParam().arguments);
  EXPECT_FALSE(startup.config.has_value());
  EXPECT_EQ(startup.exit_code, kExitUsage);
  EXPECT_THAT(startup.error, StartsWith("memleased: "));
  EXPECT_THAT(startup.error, HasSubstr(GetParam().what));
  EXPECT_THAT(startup.error, HasSubstr("Try: memleased --help\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadFlagsTest,
    ::testing::Values(BadFlags{{"--warm-byte=1"},
                               "unknown argument '--warm-byte=1'. Did you mean '--warm-bytes'?"},
                      BadFlags{{"--chek-config"}, "Did you mean '--check-config'?"},
                      BadFlags{{"stray"}, "unknown argument 'stray'."},
                      BadFlags{{"--warm-bytes", "many"}, "--warm-bytes: 'many' is not a size"},
                      BadFlags{{"--warm-bytes"}, "--warm-bytes"},
                      BadFlags{{"--warm-bytes", "1", "--warm-bytes", "2"}, "--warm-bytes"},
                      BadFlags{{"--socket-mode", "777"},
                               "--socket-mode: 0777 is not a mode for sockets"},
                      BadFlags{{"--directory", ""}, "--directory: '' is not an absolute path."}));

TEST_F(ConfigTest, ARelativeDirectoryIsOneOfTheFolderThatTheDaemonWasStartedIn) {
  EXPECT_EQ(config({"--directory", "run/"}).directory, folder_ + "/run");
  environment_["MEMLEASE_DIR"] = "job/run";
  const Config started = config();
  EXPECT_EQ(started.directory, folder_ + "/job/run");
  const auto again = reread(started);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->changes.empty());
}

TEST_F(ConfigTest, ADirectoryTooLongForSocketsIsExplained) {
  const std::string fits = "/" + std::string(93, 'd');
  EXPECT_EQ(config({"--directory", fits.c_str()}).directory, fits);
  const std::string longer = fits + "d";
  const Startup startup = run({"--directory", longer.c_str()});
  EXPECT_EQ(startup.exit_code, kExitUsage);
  EXPECT_THAT(startup.error, HasSubstr("has 108 bytes, and a socket's path can have 107."));
}

TEST_F(ConfigTest, ANamedFileMustExist) {
  const std::string missing = folder_ + "/missing.toml";
  const Startup by_flag = run({"--config", missing.c_str()});
  EXPECT_EQ(by_flag.exit_code, kExitConfig);
  EXPECT_THAT(by_flag.error, HasSubstr(missing));
  environment_["MEMLEASE_CONFIG"] = missing;
  EXPECT_EQ(run().exit_code, kExitConfig);
}

TEST_F(ConfigTest, AFileWithoutAnEndIsNotRead) {
  const std::string fifo = folder_ + "/fifo.toml";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& file : {fifo, std::string("/dev/zero")}) {
    const Startup startup = run({"--config", file.c_str()});
    EXPECT_EQ(startup.exit_code, kExitConfig);
    EXPECT_THAT(startup.error, HasSubstr(file + ": this is not a regular file."));
  }
}

TEST_F(ConfigTest, ANamedFileReplacesTheUsersOne) {
  file("idle_exit_s = 1");
  const std::string named = folder_ + "/named.toml";
  std::ofstream(named) << "idle_exit_s = 2";
  EXPECT_EQ(config({"--config", named.c_str()}).idle_exit_s, 2U);
  environment_["MEMLEASE_CONFIG"] = named;
  EXPECT_EQ(config().idle_exit_s, 2U);
}

TEST_F(ConfigTest, RightSettingsPassTheCheckAndStartNothing) {
  file("warm_bytes = \"1GiB\"");
  const Startup startup = run({"--check-config"});
  EXPECT_EQ(startup.exit_code, 0);
  EXPECT_FALSE(startup.config.has_value());
  EXPECT_THAT(startup.output, HasSubstr("right"));
}

TEST_F(ConfigTest, HelpNamesEveryOption) {
  const Startup startup = run({"--help"});
  EXPECT_EQ(startup.exit_code, 0);
  for (const Option& option : options()) {
    EXPECT_THAT(startup.output, HasSubstr(flag_of(option) + " " + placeholder_of(option)));
  }
  EXPECT_THAT(run({"--version"}).output, StartsWith("memleased "));
}

// The two documents that a person writes say of each option what the table says.
TEST_F(ConfigTest, TheManualDocumentsEveryOption) {
  const std::string manual = read_text(MEMLEASE_SOURCE_DIR "/docs/man/memleased.8.scd");
  for (const Option& option : options()) {
    const std::string entry = "*" + flag_of(option) + "* _" + placeholder_of(option) + "_, *" +
                              std::string(option.variable) + "*, *" + std::string(option.name) +
                              "*\n";
    EXPECT_THAT(manual, HasSubstr(entry));
    if (option.default_text.empty()) continue;
    const auto end = manual.find("\n*", manual.find(entry) + 1);
    EXPECT_THAT(manual.substr(manual.find(entry), end - manual.find(entry)),
                HasSubstr("Default: " + std::string(option.default_text) + "."));
  }
}

TEST_F(ConfigTest, TheExampleFileSetsEveryOptionToItsDefault) {
  std::string example = read_text(MEMLEASE_SOURCE_DIR "/deploy/memleased.example.toml");
  for (const Option& option : options()) {
    EXPECT_THAT(example, HasSubstr("\n#" + std::string(option.name) + " = "));
  }
  // Without the comment signs before its settings.
  for (std::size_t at = 0; (at = example.find("\n#", at)) != std::string::npos; ++at) {
    if (example.at(at + 2) != ' ') example.erase(at + 1, 1);
  }
  const std::string defaults = run({"--print-config"}).output;
  environment_["XDG_RUNTIME_DIR"] = "/elsewhere";
  file(example);
  const std::string from_example = run({"--print-config"}).output;
  const auto values = [](const std::string& listing) {
    std::vector<std::string> lines;
    std::istringstream stream(listing);
    for (std::string line; std::getline(stream, line);) {
      if (!line.starts_with("directory")) lines.push_back(line.substr(0, line.find('#')));
    }
    return lines;
  };
  EXPECT_EQ(values(from_example), values(defaults));
}

// ---- SIGHUP.

TEST_F(ConfigTest, AReloadSaysWhatIsDifferentNow) {
  file("quota_arrays = 5\n");
  const Config before = config({"--warm-bytes=1MiB"});
  const std::string path = file("quota_arrays = 7\nwarm_bytes = 0\nlog_level = \"debug\"\n");
  const auto reloaded = reread(before, {"--warm-bytes=1MiB"});
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  ASSERT_EQ(reloaded->changes.size(), 2U) << "the flag still beats the file";
  const SettingChange& quota = reloaded->changes[0];
  EXPECT_EQ(quota.name, "quota_arrays");
  EXPECT_EQ(quota.before, "5");
  EXPECT_EQ(quota.after, "7");
  EXPECT_EQ(quota.origin, path + ":1");
  EXPECT_TRUE(quota.applied);
  EXPECT_EQ(reloaded->changes[1].after, "\"debug\"");
  EXPECT_EQ(reloaded->config.quota_arrays, 7U);
  EXPECT_EQ(reloaded->config.log_level, LogLevel::kDebug);
  EXPECT_EQ(reloaded->config.warm_bytes, 1U << 20U);
}

TEST_F(ConfigTest, WhatCannotChangeWhileTheDaemonRunsStaysAsItWas) {
  const Config before = config();
  file(
      "directory = \"/run/elsewhere\"\nsocket_mode = 0o666\nhuge_pages = \"never\"\n"
      "log_format = \"json\"\nidle_exit_s = 3\nmetrics = \"unix\"\n");
  const auto reloaded = reread(before);
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  std::vector<std::string> refused;
  for (const SettingChange& change : reloaded->changes) {
    if (!change.applied) refused.emplace_back(change.name);
  }
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("directory", "socket_mode", "huge_pages",
                                                       "log_format", "metrics"));
  EXPECT_EQ(reloaded->config.directory, before.directory);
  EXPECT_EQ(reloaded->config.socket_mode, before.socket_mode);
  EXPECT_EQ(reloaded->config.idle_exit_s, 3U);
}

TEST_F(ConfigTest, AReloadOfAWrongFileNamesTheLine) {
  const Config before = config();
  const std::string path = file("\nquota_arrays = \"many\"\n");
  const auto reloaded = reread(before);
  ASSERT_FALSE(reloaded.ok());
  EXPECT_THAT(wire::message_of(reloaded.status()), StartsWith(path + ":2: "));
}

TEST_F(ConfigTest, ARelativeFileIsFoundAgainFromElsewhere) {
  std::ofstream(folder_ + "/mine.toml") << "quota_arrays = 9\n";
  const auto reloaded = reread(config(), {"--config=mine.toml"});
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  EXPECT_EQ(reloaded->config.quota_arrays, 9U);
}

}  // namespace
}  // namespace memlease::server
