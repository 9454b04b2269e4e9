"""What works between namespaces is what docs/containers.md says."""

from __future__ import annotations

import functools
import os

import matrix
import pytest
import spaces
from cells import SIDES, Cell, all_cells, plain, shared_folder, try_between
from processes import BUILD, Daemon, Peer, Refused

CELLS = list(all_cells())


@pytest.fixture(scope="module", name="tried")
def _tried():
    try:
        spaces.require()
    except spaces.UnavailableError as error:
        pytest.fail(f"namespaces cannot be made here, so nothing of this was tried: {error}")
    return matrix.try_all()


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_is_as_the_page_says(tried, cell):
    assert matrix.text_of(tried[cell].result()) == matrix.written()[cell]


def test_a_user_without_a_number_in_the_daemons_namespace_is_refused():
    """A control: the daemon's namespace has a number for root alone."""
    with shared_folder() as folder:
        folder.chmod(0o755)
        (folder / "run").mkdir(mode=0o755)
        command = spaces.unshared({"user"}, folder, BUILD / "bin/memleased")
        daemon = Daemon(folder, command, "--socket-mode=0666")
        peer = Peer(folder, plain(folder, BUILD / "tests/memlease_peer"), user=1000)
        with pytest.raises(Refused, match=r"Denied: .* no number in the daemon's user namespace"):
            peer.ask("connect")
        peer.end()
        daemon.end()


def test_the_page_has_each_cell_in_its_place():
    assert len(set(CELLS)) == len(SIDES) * 2**5
    assert list(matrix.written()) == CELLS
    assert matrix.table_of(matrix.written()) in matrix.PAGE.read_text()


def test_host_arrays_need_no_common_namespace():
    assert all(text.split(" ")[0].strip(",") == "host" for text in matrix.written().values())


if "MEMLEASE_PROVE" in os.environ:  # ./dev prove namespaces, which installs these

    def expect_as_the_page_says(runtime, cell):
        daemon_in = plain if cell.side == "clients" else runtime
        clients_in = plain if cell.side == "daemon" else runtime
        assert matrix.text_of(try_between(daemon_in, clients_in)) == matrix.written()[cell]

    # Half of them: the others share mounts.
    @pytest.mark.parametrize("cell", [c for c in CELLS if "mount" in c.private], ids=str)
    def test_bubblewraps_containers_have_the_same(cell):
        expect_as_the_page_says(functools.partial(spaces.bubblewrapped, cell.private), cell)

    @pytest.mark.parametrize("side", SIDES)
    def test_nspawns_containers_have_the_same(side):
        private = frozenset(("pid", "ipc", "mount", "network"))
        expect_as_the_page_says(spaces.nspawned, Cell(side, private))
