// Calls about arrays and names, those that end with an error, memleasectl's, and ends of sessions.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "client/session/interrupt.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/memory_operations.h"
#include "tests/integration/raw_control.h"
#include "tests/support/eventually.h"

namespace memlease::testing {

using internal::kNoInterrupts;

namespace {

// The second session has a hold in each of `slots` slots.
void hold_all(Scene& scene, wire::ArrayId id, std::uint32_t slots, std::uint32_t most) {
  const auto row = scene.second().calls().subscribe(id, kNoInterrupts);
  ASSERT_TRUE(row.ok()) << row.status();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    ASSERT_TRUE(scene.second().hold(row->row, most, slot).ok());
  }
}

}  // namespace

Operations calls_about_arrays() {
  struct Call {
    const char* name;
    std::function<absl::Status(Scene&, wire::ArrayId)> call;
  };
  const Call calls[] = {
      {"subscribe",
       [](Scene& s, wire::ArrayId id) {
         return s.second().calls().subscribe(id, kNoInterrupts).status();
       }},
      {"ask for writer ownership",
       [](Scene& s, wire::ArrayId id) {
         return s.second().calls().acquire_writer(id, kNoInterrupts).status();
       }},
      {"become the writer",
       [](Scene& s, wire::ArrayId id) { return s.second().become_writer(id); }},
      {"cancel", [](Scene& s, wire::ArrayId id) { return s.second().calls().cancel_writer(id); }},
      {"leave", [](Scene& s, wire::ArrayId id) { return s.second().leave(id); }},
      {"leave as its creator", [](Scene& s, wire::ArrayId id) { return s.first().leave(id); }},
      {"holders",
       [](Scene& s, wire::ArrayId id) {
         return s.second().calls().holders(id, kNoInterrupts).status();
       }},
      {"withdraw",
       [](Scene& s, wire::ArrayId) { return s.second().calls().withdraw("a", kNoInterrupts); }},
  };
  const std::pair<const char*, std::function<void(Scene&, wire::ArrayId)>> states[] = {
      {"nobody writes", [](Scene&, wire::ArrayId) {}},
      {"its creator writes",
       [](Scene& s, wire::ArrayId id) { EXPECT_TRUE(s.first().become_writer(id).ok()); }},
      {"who calls writes",
       [](Scene& s, wire::ArrayId id) { EXPECT_TRUE(s.second().become_writer(id).ok()); }},
      {"its creator has asked",
       [](Scene& s, wire::ArrayId id) {
         EXPECT_TRUE(s.first().calls().acquire_writer(id, kNoInterrupts).ok());
       }},
  };
  Operations all;
  for (const Call& one : calls) {
    for (const auto& [state, make] : states) {
      for (const std::uint32_t slots : {1U, 3U}) {
        all.push_back(
            {fmt::format("{} where {}, {} slots", one.name, state, slots),
             [=, make = make](Scene& scene) {
               scene.create("a", slots);
               make(scene, scene.open("a"));
             },
             [call = one.call](Scene& scene) { return call(scene, scene.opened.back().id); }});
      }
    }
  }
  for (const std::uint32_t most : {2U, 4U}) {
    all.push_back({fmt::format("add a slot, {} at most", most),
                   [=](Scene& scene) {
                     wire::ArraySpec spec = spec_of_memory("a", 2);
                     spec.max_slots = most;
                     const wire::ArrayId id = scene.create(spec);
                     scene.open("a");
                     EXPECT_TRUE(scene.first().become_writer(id).ok());
                     hold_all(scene, id, 2, most);
                   },
                   [](Scene& scene) {
                     return scene.first().calls().add_slot(scene.opened.front().id, 2,
                                                           std::chrono::seconds(10), kNoInterrupts);
                   }});
  }
  return all;
}

Operations calls_about_names() {
  Operations all;
  for (const int arrays : {0, 3, 20}) {
    const auto prepare = [=](Scene& scene) {
      scene.connect();
      scene.create_many(arrays);
    };
    const auto add = [&](const std::string& name, std::function<absl::Status(Scene&)> act) {
      all.push_back({fmt::format("{} of {}", name, arrays), prepare, std::move(act)});
    };
    for (const char* pattern : {"*", "many/*", "m?ny/1*", "none"}) {
      add(fmt::format("list {}", pattern), [=](Scene& scene) {
        return scene.second().calls().list(pattern, kNoInterrupts).status();
      });
    }
    for (const char* name : {"many/0", "none"}) {
      for (const bool to_wait : {false, true}) {
        add(fmt::format("look {} up{}", name, to_wait ? " to wait" : ""), [=](Scene& scene) {
          return scene.second().calls().look_up(name, to_wait, kNoInterrupts).status();
        });
      }
      add(fmt::format("withdraw {}", name),
          [=](Scene& scene) { return scene.second().calls().withdraw(name, kNoInterrupts); });
    }
  }
  return all;
}

Operations calls_in_vain() {
  Operations all;
  const auto refused = [&](const std::string& name, bool exist_ok, internal::OwnerUid owner,
                           const std::function<void(wire::ArraySpec&)>& change) {
    wire::ArraySpec spec = spec_of_memory("b");
    change(spec);
    all.push_back(
        {name, [](Scene& scene) { scene.create("a"); },
         [=](Scene& scene) { return scene.first().create(spec, {}, exist_ok, owner).status(); }});
  };
  const std::uint32_t another = geteuid() + 1;
  refused("create what exists", false, {}, [](wire::ArraySpec& s) { s.name = "a"; });
  refused("create another than exists", true, {}, [](wire::ArraySpec& s) {
    s.name = "a";
    s.shape = {3};
  });
  refused("create for another", true, another, [](wire::ArraySpec&) {});
  refused("create what another should own", true, another,
          [](wire::ArraySpec& s) { s.name = "a"; });
  refused("create with an owner", false, another, [](wire::ArraySpec&) {});
  refused("create beyond the quota of bytes", false, {},
          [](wire::ArraySpec& s) { s.shape = {1 << 28}; });
  refused("create without a name", false, {}, [](wire::ArraySpec& s) { s.name = ""; });
  refused("create with a wrong name", false, {}, [](wire::ArraySpec& s) { s.name = "a//b"; });
  refused("create without slots", false, {}, [](wire::ArraySpec& s) { s.slots = 0; });
  refused("create a negative shape", false, {}, [](wire::ArraySpec& s) { s.shape = {-1}; });
  const auto add = [&](const std::string& name, std::function<void(Scene&)> prepare,
                       std::function<absl::Status(Scene&)> act) {
    all.push_back({name, std::move(prepare), std::move(act)});
  };
  add(
      "create beyond the quota of arrays", [](Scene& scene) { scene.create_many(30); },
      [](Scene& scene) { return scene.first().create(spec_of_memory("one_more")).status(); });
  add("open what is not there", connects,
      [](Scene& scene) { return scene.first().open("none").status(); });
  add(
      "open another's", [](Scene& scene) { scene.create("a"); },
      [=](Scene& scene) { return scene.first().open("a", another).status(); });
  const auto withdrawn = [](Scene& scene) {
    scene.create("a");
    scene.open("a");
    EXPECT_TRUE(scene.first().become_writer(scene.opened.back().id).ok());
    hold_all(scene, scene.opened.back().id, 1, 3);
    EXPECT_TRUE(scene.first().calls().withdraw("a", kNoInterrupts).ok());
  };
  add("open what was withdrawn", withdrawn,
      [](Scene& scene) { return scene.second().open("a").status(); });
  add("subscribe to what was withdrawn", withdrawn, [](Scene& scene) {
    return scene.second().calls().subscribe(scene.opened.back().id, kNoInterrupts).status();
  });
  add("write what was withdrawn", withdrawn,
      [](Scene& scene) { return scene.second().become_writer(scene.opened.back().id); });
  add("leave what is held", withdrawn,
      [](Scene& scene) { return scene.second().leave(scene.opened.back().id); });
  add("leave what is not open", connects,
      [](Scene& scene) { return scene.second().leave(wire::ArrayId{77}); });
  add(
      "write what has an exclusive writer",
      [](Scene& scene) {
        wire::ArraySpec spec = spec_of_memory("a");
        spec.writer = wire::Writer::kExclusive;
        scene.create(spec);
        scene.open("a");
      },
      [](Scene& scene) { return scene.second().become_writer(scene.opened.back().id); });
  add(
      "confirm what was not offered", [](Scene& scene) { scene.create("a"); },
      [](Scene& scene) {
        return scene.first().calls().confirm_writer(scene.opened.back().id, 77, kNoInterrupts);
      });
  add(
      "add a slot where none is held",
      [](Scene& scene) { EXPECT_TRUE(scene.first().become_writer(scene.create("a")).ok()); },
      [](Scene& scene) {
        return scene.first().calls().add_slot(scene.opened.back().id, 3, std::chrono::seconds(10),
                                              kNoInterrupts);
      });
  add(
      "a replica on no device", [](Scene& scene) { scene.create("a"); },
      [](Scene& scene) {
        return scene.first()
            .calls()
            .open_replica(scene.opened.back().id, std::uint32_t{3}, kNoInterrupts)
            .status();
      });
  add("a call without a session", connects,
      [](Scene& scene) { return RawControl(scene.daemon.directory(), geteuid()).list(""); });
  add("a call with a token that is none", connects, [](Scene& scene) {
    return RawControl(scene.daemon.directory(), geteuid()).list(std::string(36, 'x'));
  });
  return all;
}

Operations calls_of_ctl() {
  using internal::AdminStub;
  struct Call {
    const char* name;
    std::function<absl::Status(AdminStub&)> call;
  };
  const Call calls[] = {
      {"status", [](AdminStub& admin) { return admin.status().status(); }},
      {"ls", [](AdminStub& admin) { return admin.list_arrays("").status(); }},
      {"ls with attributes", [](AdminStub& admin) { return admin.list_arrays("", true).status(); }},
      {"ls of a pattern", [](AdminStub& admin) { return admin.list_arrays("m?ny/*").status(); }},
      {"holders", [](AdminStub& admin) { return admin.list_holders("").status(); }},
      {"holders of one", [](AdminStub& admin) { return admin.list_holders("a").status(); }},
      {"holders of none", [](AdminStub& admin) { return admin.list_holders("none").status(); }},
      {"sessions", [](AdminStub& admin) { return admin.list_sessions().status(); }},
      {"metrics", [](AdminStub& admin) { return admin.metrics().status(); }},
      {"withdraw", [](AdminStub& admin) { return admin.withdraw("a"); }},
      {"withdraw none", [](AdminStub& admin) { return admin.withdraw("none"); }},
      {"evict none", [](AdminStub& admin) { return admin.evict(4'000'000'000); }},
      {"events", [](AdminStub& admin) { return admin.history(0, false).status(); }},
      {"sample", [](AdminStub& admin) { return admin.sample(0).status(); }},
      {"health", [](AdminStub& admin) { return admin.serving().status(); }},
      {"doctor --verify", [](AdminStub& admin) { return admin.verify().status(); }},
  };
  Operations all;
  for (const Call& one : calls) {
    for (const int arrays : {0, 1, 12}) {
      all.push_back({fmt::format("{} beside {} arrays", one.name, arrays),
                     [=](Scene& scene) {
                       if (arrays == 0) return;
                       const wire::ArrayId id =
                           scene.create(spec_of_memory("a"), some_attributes());
                       scene.create_many(arrays - 1);
                       EXPECT_TRUE(scene.first().become_writer(id).ok());
                       scene.open("a");
                     },
                     [call = one.call](Scene& scene) { return call(scene.daemon.admin()); }});
    }
  }
  return all;
}

namespace {

// Does it, and waits until the daemon has closed what it had open for the session; asks it nothing.
absl::Status end_session(Scene& scene, const std::function<void()>& end) {
  const std::size_t before = scene.daemon.open_files();
  end();
  EXPECT_TRUE(eventually([&] { return scene.daemon.open_files() < before; }));
  return absl::OkStatus();
}

}  // namespace

Operations ends_of_sessions() {
  Operations all;
  for (const int arrays : {0, 1, 12}) {
    for (const bool used : {false, true}) {
      const auto prepare = [=](Scene& scene) {
        scene.connect();
        scene.create_many(arrays);
        if (!used) return;
        for (const OpenAnswer& array : std::vector(scene.opened)) {
          EXPECT_TRUE(scene.first().become_writer(array.id).ok());
          hold_all(scene, scene.open(array.spec.name), 1, 3);
        }
      };
      const std::string of = fmt::format(" of {} arrays{}", arrays, used ? " that are used" : "");
      all.push_back({"goodbye" + of, prepare,
                     [](Scene& scene) { return end_session(scene, [&] { scene.end_first(); }); },
                     1});
    }
  }
  for (const int arrays : {0, 1, 12}) {
    all.push_back({fmt::format("eviction of {} arrays", arrays),
                   [=](Scene& scene) {
                     scene.peer.emplace(scene.daemon.directory());
                     scene.evicted =
                         static_cast<std::uint32_t>(scene.peer->ask("connect").number());
                     for (int i = 0; i < arrays; ++i) {
                       const std::string create = fmt::format("create many/{} 3 600 8 session", i);
                       EXPECT_TRUE(scene.peer->ask(create).ok());
                       EXPECT_TRUE(scene.peer->ask(fmt::format("put many/{} 1000", i)).ok());
                     }
                   },
                   [](Scene& scene) { return scene.daemon.admin().evict(scene.evicted); }});
  }
  for (const char* last : {"exists a", "read a 0 1000", "write a 1000"}) {
    all.push_back(
        {fmt::format("death after '{}'", last),
         [=](Scene& scene) {
           scene.peer.emplace(scene.daemon.directory());
           for (const char* command : {"connect", "create a 3 600 8 session",
                                       "create b 3 600 8 persistent", "put a 1000", last}) {
             EXPECT_TRUE(scene.peer->ask(command).ok()) << command;
           }
         },
         [](Scene& scene) { return end_session(scene, [&] { scene.peer->kill(); }); }, 0});
  }
  return all;
}

}  // namespace memlease::testing
