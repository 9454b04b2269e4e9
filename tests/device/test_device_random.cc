// Random turns of a writer and two readers, on two streams each: events are recorded over and over,
// and the checker finds that nobody records one that somebody has yet to wait for.
#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceRandom : public DeviceTest {
 protected:
  // A reader, and the version that it holds; 0: none.
  struct Reader {
    explicit Reader(const PrivateDaemon& daemon) : client(daemon) {}
    Client client;
    int version = 0;
    std::string stream;
  };

  // `left_out` is a step of the writer's.
  void play(int turns, const std::string& left_out, const std::string& slots = "4") {
    // Kernels are late, so that streams have to wait.
    if (fakecuda::is_loaded()) world->set(fakecuda::Knob::kDelayUs, 5000);
    Client writer(daemon);
    std::array<Reader, 2> readers = {Reader(daemon), Reader(daemon)};
    if (!left_out.empty()) writer.is_ok("leave_out " + left_out);
    // A slot for the current version, one for each that is held, and one to write.
    writer.is_ok("create a " + slots + " 1000 cuda:0");
    std::mt19937 random(1);  // the same turns each time
    write(writer, 1, random);
    for (int turn = 0, version = 1; turn < turns; ++turn) {
      const auto who = random() % 3;
      if (who == 2) {
        write(writer, ++version, random);
      } else if (Reader& reader = readers[who]; reader.version == 0) {
        read(reader, version, random);
      } else {
        look(reader);
        release(reader, random);
      }
    }
    for (Reader& reader : readers) {
      if (reader.version != 0) release(reader, random);
      const int wrong = std::stoi(reader.client.is_ok("mismatches r")) +
                        std::stoi(reader.client.is_ok("mismatches q"));
      EXPECT_TRUE(wrong == 0 || !left_out.empty()) << wrong;
    }
    writer.is_ok("synchronize s");
    writer.is_ok("synchronize t");
  }

 private:
  static void write(Client& writer, int version, std::mt19937& random) {
    const std::string stream = random() % 2 == 0 ? " s" : " t";
    writer.is_ok("write a" + stream);
    writer.is_ok("fill a " + std::to_string(version) + stream);
    writer.is_ok("publish a" + stream);
  }
  static void read(Reader& reader, int version, std::mt19937& random) {
    reader.stream = random() % 2 == 0 ? " r" : " q";
    reader.client.is_ok("read a" + reader.stream);
    reader.version = version;
    look(reader);
  }
  static void look(Reader& reader) {
    reader.client.is_ok("look a " + std::to_string(reader.version) + reader.stream);
  }
  static void release(Reader& reader, std::mt19937& random) {
    reader.client.is_ok("release a" + (random() % 4 == 0 ? " -" : reader.stream));
    reader.version = 0;
  }
};

// R-SYNC-4, 5, 6: whatever the turns.
TEST_F(DeviceRandom, TurnsAreOrdered) { play(400, ""); }

// The same in slots that come and go.
TEST_F(DeviceRandom, TurnsInAddedSlotsAreOrdered) { play(400, "", "2:8"); }

// R-SYNC-4, 5: a control; the same turns race where the writer does not wait for readers.
TEST_F(DeviceRandom, AMissingWaitIsFound) {
  FAKECUDA_STAND_IN_ONLY();
  play(400, "wait for readers");
  const auto findings = world.findings();
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(),
                          [](const fakecuda::Finding& found) { return found.race(); }));
}

}  // namespace
}  // namespace memlease::testing
