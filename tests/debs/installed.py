"""What tests of a machine with the packages share: names, users, and looks at its daemon."""

from machine import until

SERVICE, SOCKET = "memleased.service", "memleased.socket"
DIRECTORY = "/run/memlease"
SETTINGS = "etc/memlease/memleased.toml"
# The first is in the group memlease, the other is not.
ALICE, CAROL = 2001, 2003


def show(machine, name, unit=SERVICE):
    """Return a property of a unit."""
    return machine.must("systemctl", "show", "--value", f"--property={name}", unit).strip()


def nobody_is_connected(machine):
    """Wait until the daemon has nothing more to do."""
    until(
        lambda: show(machine, "StatusText") in ("", "serving 0 arrays, 0 B, 0 sessions"),
        "the daemon has nothing more to do",
    )
