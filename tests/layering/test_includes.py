"""The tree keeps its include rules, and the checker sees each way to break them."""

from __future__ import annotations

import unittest
from pathlib import Path

import include_rules
from planting import planted

ROOT = Path(__file__).resolve().parents[2]

# file -> its text, and a part of what must be said about it
PLANTED = {
    "server/core/a.cc": ('#include "server/rpc/b.h"\n', "server/core may not include server/rpc"),
    "server/core/b.cc": ('#include "client/session/session.h"\n', "may not include client/session"),
    "server/core/c.cc": ("#include <grpcpp/server.h>\n", "may not include grpc"),
    "server/core/d.cc": ('#include "wire/grpc/convert.h"\n', "may not include wire/grpc"),
    "server/core/deep/e.cc": ("", "is in no known layer"),
    "server/channel/a.cc": ('#  include "server/rpc/b.h"\n', "may not include server/rpc"),
    "server/rpc/a.cc": ('#include "server/daemon.h"\n', "may not include server ("),
    "server/device/a.cc": ("#include <spdlog/spdlog.h>\n", "may not include spdlog"),
    "server/device/b.cc": ("#include <cuda_runtime_api.h>\n", "may not include cudart"),
    "cuda/plugin/a.cc": ('#include "wire/error.h"\n', "cuda/plugin may not include wire"),
    "cuda/a.cc": ("#include <cuda_runtime_api.h>\n", "cuda may not include cudart"),
    "client/slots/a.cc": (
        '#include "client/session/session.h"\n',
        "may not include client/session",
    ),
    "client/session/a.cc": ('#include "client/arrays/pin.h"\n', "may not include client/arrays"),
    "client/session/b.cc": ('#include "client/rpc/control_stub.h"\n', "may not include client/rpc"),
    "client/session/c.cc": (
        '#include "session.h"\n',
        "includes session.h, which is in no known layer",
    ),
    "client/ordering/a.cc": ('#include "client/arrays/pin.h"\n', "may not include client/arrays"),
    "client/arrays/a.cc": ('#include "client/connect.h"\n', "may not include client ("),
    "client/arrays/b.cc": ('#include "client/api/throw.h"\n', "may not include client/api"),
    "client/arrays/c.h": (
        '#include "client/arrays/d.h"\n',
        "is in a circle of includes: client/arrays/c, client/arrays/d",
    ),
    "client/rpc/a.cc": ('#include "client/channel/b.h"\n', "may not include client/channel"),
    "client/ctl/a.cc": ('#include "client/session/session.h"\n', "may not include client/session"),
    "client/ctl/b.cc": ('#include "client/rpc/control_stub.h"\n', "may not include client/rpc ("),
    "client/views/a.cc": ('#include "wire/ids.h"\n', "may not include wire"),
    "client/include/memlease/a.h": ("#include <fcntl.h>\n", "may not include system"),
    "client/include/memlease/b.h": ("#include <fmt/format.h>\n", "may not include fmt"),
    "client/gpu/a.cc": ("", "is in no known layer"),
    "wire/a.h": ('#include "memlease/v1/types.pb.h"\n', "may not include proto"),
    "wire/b.h": ('#include "server/core/array.h"\n', "may not include server/core"),
    "wire/c.h": ("#include <boost/any.hpp>\n", "which is in no known layer"),
    "python/bindings/a.cc": (
        '#include "client/session/session.h"\n',
        "may not include client/session",
    ),
    "plugins/cuda/a.cu": ("", "is in no known layer"),
}
INNOCENT = {
    "server/core/good.cc": '#include <vector>\n#include <fcntl.h>\n#include "server/core/a.h"\n',
    "server/rpc/good.cc": '#include "server/core/a.h"\n#include "memlease/v1/control.pb.h"\n',
    "client/arrays/d.h": "",
    "client/arrays/d.cc": '#include "client/arrays/d.h"\n#include "client/arrays/c.h"\n',
    "client/ctl/good.cc": '#include "client/socket/directory.h"\n',
    "tests/any/good.cc": '#include "server/core/a.h"\n#include "client/slots/b.h"\n',
    "build/x/generated.cc": '#include "whatever.h"\n',
}


class IncludeRules(unittest.TestCase):
    def test_the_tree_keeps_them(self) -> None:
        found = list(include_rules.violations(ROOT))
        assert found == [], "\n" + "\n".join(map(str, found))

    def test_the_tree_was_looked_at(self) -> None:
        layers = {
            include_rules.layer_of(path.relative_to(ROOT).as_posix())
            for top in ("wire", "cuda", "server", "client", "python")
            for path in (ROOT / top).rglob("*.cc")
        }
        expected = set(include_rules.ALLOWED) - {"client/include", "wire/hooks"}  # headers alone
        assert expected - layers == set(), "layers of the table without a file"

    def test_nothing_is_allowed_that_no_file_needs(self) -> None:
        assert include_rules.unused(ROOT) == {}

    def test_what_no_file_needs_is_found(self) -> None:
        core = {"server/core/a.h": '#include <fcntl.h>\n#include "wire/error.h"\n'}
        with planted(core | {"tests/any/a.h": '#include "wire/hooks/test_hooks.h"\n'}) as root:
            left = include_rules.unused(root)
        assert left["server/core"] == {"absl", "fmt", "wire/hooks"}

    def test_the_drawing_has_each_layer_with_its_libraries(self) -> None:
        page = include_rules.DRAWING.read_text()
        assert include_rules.drawn(page).keys() == include_rules.LIBRARIES.keys()

    def test_a_drawing_is_read(self) -> None:
        page = "a -> sentence\n```\nx/y   -> x,\n  z\n\nx     ->\nz -> x\n```\n"
        assert include_rules.drawn(page) == {"x/y": {"x", "z"}, "x": set(), "z": {"x"}}

    def test_each_planted_violation_is_found(self) -> None:
        texts = {name: text for name, (text, _) in PLANTED.items()} | INNOCENT
        with planted(texts) as root:
            found = {violation.file: violation.what for violation in include_rules.violations(root)}
        for name, (_, expected) in PLANTED.items():
            with self.subTest(name):
                assert expected in found.pop(name, "nothing")
        assert found == {}, "the innocent are not accused"


if __name__ == "__main__":
    unittest.main()
