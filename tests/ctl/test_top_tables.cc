#include "client/ctl/top_tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kAll = 1000;

// Three arrays of two sessions on two devices, at two moments one second apart.
class TopTables : public ::testing::Test {
 protected:
  struct Array {
    std::uint64_t id;
    const char* name;
    const char* device;
    std::uint64_t slot_bytes;
    std::uint32_t writer;
    std::uint64_t versions_per_s;
  };
  static constexpr Array kArrays[] = {{1, "slow", "host", 1000, 3, 1},
                                      {2, "fast", "GPU-1", 10, 3, 50},
                                      {3, "idle", "host", 2000, 0, 0},
                                      {4, "other", "host", 100, 4, 5}};

  TopTables() {
    for (std::uint64_t second = 0; second < 2; ++second) {
      v1::SampleReply sample;
      for (const Array& array : kArrays) {
        sample.add_array_ids(array.id);
        sample.add_versions(100 * array.id + second * array.versions_per_s);
        sample.add_writer_sessions(array.writer);
        sample.add_open_sessions(static_cast<std::uint32_t>(array.id));
        sample.add_slots(2);
        v1::ArrayInfo& info = *sample.add_described();
        info.set_array_id(array.id);
        info.mutable_spec()->set_name(array.name);
        info.mutable_spec()->set_device(array.device);
        info.set_slots(2);
        info.set_bytes(2 * array.slot_bytes);
      }
      live_.add(sample, static_cast<double>(second));
    }
    for (const std::uint32_t id : {3U, 4U, 5U}) {
      v1::SessionInfo& session = *sessions_.add_sessions();
      session.set_session_id(id);
      session.set_pid(static_cast<int>(1000 + id));
      session.set_command("command" + std::to_string(id));
      session.set_bytes_created(id == 5 ? 10'000 : 1);
    }
  }

  // The column's plain text, row by row.
  static std::vector<std::string> column(const Ranked& shown, std::string_view key) {
    EXPECT_EQ(shown.ranks.size(), shown.table.columns.size());
    std::vector<std::string> out;
    for (std::size_t i = 0; i < shown.table.columns.size(); ++i) {
      if (shown.table.columns[i].key != key) continue;
      for (const Row& row : shown.table.rows) out.push_back(to_plain(row[i]));
    }
    return out;
  }
  std::vector<std::string> names(SortKey key, std::size_t rows = kAll) const {
    return column(top_arrays(live_, sessions_, key, rows), "name");
  }

  Live live_;
  v1::ListSessionsReply sessions_;
};

TEST_F(TopTables, ArraysAreInTheOrderOfEachKey) {
  EXPECT_THAT(names(SortKey::kRate), ElementsAre("fast", "other", "slow", "idle"));
  EXPECT_THAT(names(SortKey::kBandwidth), ElementsAre("slow", "fast", "other", "idle"));
  EXPECT_THAT(names(SortKey::kBytes), ElementsAre("idle", "slow", "other", "fast"));
  EXPECT_THAT(names(SortKey::kVersion), ElementsAre("other", "idle", "fast", "slow"));
  EXPECT_THAT(names(SortKey::kOpen), ElementsAre("other", "idle", "fast", "slow"));
  EXPECT_THAT(names(SortKey::kName), ElementsAre("fast", "idle", "other", "slow"));
}

TEST_F(TopTables, ThereAreNoMoreRowsThanFit) {
  EXPECT_THAT(names(SortKey::kRate, 2), ElementsAre("fast", "other"));
  EXPECT_THAT(names(SortKey::kRate, 0), IsEmpty());
}

TEST_F(TopTables, ArraysHaveRatesAndTheirWritersPid) {
  const Ranked shown = top_arrays(live_, sessions_, SortKey::kName, kAll);
  EXPECT_THAT(column(shown, "versions_per_s"), ElementsAre("50.000", "0.000", "5.000", "1.000"));
  EXPECT_THAT(column(shown, "bytes_per_s"), ElementsAre("500", "0", "500", "1000"));
  EXPECT_THAT(column(shown, "writer_pid"), ElementsAre("1003", "-", "1004", "1003"));
}

TEST_F(TopTables, SessionsHaveWhatTheyWrite) {
  const Ranked shown = top_sessions(live_, sessions_, SortKey::kRate, kAll);
  EXPECT_THAT(column(shown, "pid"), ElementsAre("1003", "1004", "1005"));
  EXPECT_THAT(column(shown, "versions_per_s"), ElementsAre("51.000", "5.000", "0.000"));
  EXPECT_THAT(column(shown, "writes"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(column(top_sessions(live_, sessions_, SortKey::kBytes, 1), "pid"),
              ElementsAre("1005"));
}

TEST_F(TopTables, DevicesHaveTheSumsOfTheirArrays) {
  const Ranked shown = top_devices(live_, SortKey::kRate, kAll);
  EXPECT_THAT(column(shown, "device"), ElementsAre("GPU-1", "host"));
  EXPECT_THAT(column(shown, "arrays"), ElementsAre("1", "3"));
  EXPECT_THAT(column(shown, "bytes"), ElementsAre("20", "6200"));
  EXPECT_THAT(column(shown, "versions_per_s"), ElementsAre("50.000", "6.000"));
}

TEST_F(TopTables, TheSumsAreOfAll) {
  const Table sums = top_sums(live_, sessions_);
  EXPECT_EQ(as_json_object(sums),
            "{\"total_arrays\": 4, \"total_bytes\": 6220, \"total_sessions\": 3, "
            "\"versions_per_s\": 56.000, "
            "\"bytes_per_s\": 2000}\n");
}

}  // namespace
}  // namespace memlease::ctl
