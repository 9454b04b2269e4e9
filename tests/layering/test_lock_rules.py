"""Each mutex is in the table of docs/locks.md, and the checker sees what is not."""

from __future__ import annotations

import unittest
from pathlib import Path

import lock_rules
from planting import planted

ROOT = Path(__file__).resolve().parents[2]

TABLE = """
| mutex | guards | taken under it |
|---|---|---|
| **Client** | | |
| `Good::mutex_`, `client/good.h` | a number | leaf |
| `Good::other_mutex_` | another | leaf |
| `start`'s, `client/good.cc` | a third | leaf |
| `Waits::mutex_`, `client/waits.h` | a fourth | leaf |
| `Over::mutex_`, `server/over.h` | a fifth | leaf |
| `Nests::mutex_`, `client/nests.h` | a sixth | 1: `Good::mutex_` |
| `Forks::mutex_` | a seventh | 2. A fork takes it |
| `Outer::mutex_`, `server/outer.h` | an eighth | 1: `Good::mutex_` |
| `Leaf::mutex_`, `server/leaf.h` | a ninth | leaf |
| `Late::mutex_`, `server/late.h` | a tenth | 3: `Forks::mutex_` |
| `Gone::mutex_`, `client/gone.h` | nothing any more | leaf |

## Exceptions

- **`Waits::mutex_`, while it waits.**
"""
INNOCENT = {
    lock_rules.PAGE: TABLE,
    "client/good.h": """
class MEMLEASE_API Good final : public Base {
 private:
  wire::Mutex mutex_;
  mutable wire::Mutex other_mutex_ ABSL_ACQUIRED_AFTER(mutex_);  // std::mutex is another thing
};
void take(wire::Mutex& mutex);
""",
    "client/good.cc": """
void start(int count) {
  static wire::Mutex& mutex = *new wire::Mutex;
}
""",
    "client/waits.h": "struct Waits {\n  wire::Mutex mutex_{wire::kHeldOverWaits};\n};\n",
    "client/nests.h": """
struct Nests {
  wire::Mutex mutex_{wire::HeldOverLocks(1)};
};
struct Forks {
  wire::Mutex mutex_{wire::HeldOverLocks(2)};  // a fork takes it
};
""",
    "wire/mutex.h": "std::mutex mutex_;\n",
}
# file -> its text, and what must be said about it
PLANTED = {
    "server/a.h": ("class Bad {\n  wire::Mutex mutex_;\n};\n", ":2: `Bad::mutex_` has no row"),
    "server/b.cc": ("wire::Mutex first;\n", ":1: `first` has no row"),
    "server/c.h": ("struct Good {\n  wire::Mutex mutex_;\n};\n", ":2: `Good::mutex_` has no row"),
    "client/d.cc": ("void f() {\n  static wire::Mutex m;\n}\n", ":2: `f`'s has no row"),
    "client/e.h": ("class E {\n  std::mutex mutex_;\n};\n", ":2: not a wire::Mutex"),
    "server/over.h": (
        "struct Over {\n  wire::Mutex mutex_{wire::kHeldOverWaits};\n};\n",
        ":2: `Over::mutex_` is not among the exceptions",
    ),
    "server/outer.h": (
        "struct Outer {\n  wire::Mutex mutex_;\n};\n",
        ":2: `Outer::mutex_` has another place in docs/locks.md",
    ),
    "server/leaf.h": (
        "struct Leaf {\n  wire::Mutex mutex_{wire::HeldOverLocks(1)};\n};\n",
        ":2: `Leaf::mutex_` has another place in docs/locks.md",
    ),
    "server/late.h": (
        "struct Late {\n  wire::Mutex mutex_{wire::HeldOverLocks(3)};\n};\n",
        ":2: `Late::mutex_` comes after `Forks::mutex_`",
    ),
    "server/g.h": ("class G {\n  wire::Mutex mutex_{};\n};\n", ":2: `G::mutex_` has no row"),
    "cuda/f.cc": ("std::shared_mutex shared;\n", ":1: not a wire::Mutex"),
}


class LockRules(unittest.TestCase):
    def test_each_mutex_has_a_row_and_each_row_a_mutex(self) -> None:
        found = list(lock_rules.violations(ROOT))
        assert found == [], "\n" + "\n".join(found)

    def test_the_tree_was_looked_at(self) -> None:
        there = {mutex.name for mutex in lock_rules.mutexes(ROOT)}
        assert {
            "`Daemon::mutex_`",
            "`MembershipLock::mutex`",
            "`first_use`",
            "`load_plugin`'s",
        } <= there
        assert len(there) >= 30

    def test_each_planted_violation_is_found(self) -> None:
        with planted({name: text for name, (text, _) in PLANTED.items()} | INNOCENT) as root:
            found = list(lock_rules.violations(root))
        for name, (_, wanted) in PLANTED.items():
            assert any(it.startswith(name) and wanted in it for it in found), (name, found)
        assert f"{lock_rules.PAGE}: `Gone::mutex_` is not in client/gone.h" in found
        assert len(found) == len(PLANTED) + 1, found


if __name__ == "__main__":
    unittest.main()
