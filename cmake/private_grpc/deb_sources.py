"""Gets the sources of Debian packages, without root and without a change to the system.

apt may ask for sources only where its own lists say deb-src, which is rare. So apt gets lists, and
all that it writes, in a folder of ours: the system's own entries, as source entries.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

SYSTEM_APT = Path("/etc/apt")

# For -c, which apt reads after the system's own configuration, so that proxies and keys stay in
# force, but no hook of the system's runs: Docker's images delete the system's packages by one. What
# APT_CONFIG in the environment names is read before, too early to clear anything.
CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources.list.d";
Dir::State::lists "{folder}/lists";
"""


class BuildError(Exception):
    """What could not be done, why, and what to do about it."""


def source_lines(text: str) -> str:
    """Turn the one-line entries of a sources.list into entries of sources."""
    lines = []
    for line in text.splitlines():
        entry = re.match(r"\s*deb(?:-src)?(\s+.*)", line)
        if entry and not re.search(r"\bcdrom:", line):
            lines.append(f"deb-src{entry[1]}")
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def source_stanzas(text: str) -> str:
    """Turn the deb822 entries of a .sources file into entries of sources."""
    stanzas = []
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text):
        changed, count = re.subn(
            r"^Types:.*(?:\n[ \t].*)*", "Types: deb-src", stanza, flags=re.M | re.I
        )
        if count and not re.search(r"^URIs:[^\n]*\bcdrom:", stanza, re.M | re.I):
            stanzas.append(changed.strip("\n"))
    return "".join(f"{stanza}\n\n" for stanza in dict.fromkeys(stanzas))


def source_entries(apt: Path) -> dict[str, str]:
    """Return the files that a sources.list.d needs for the sources of what `apt` names."""
    files = [(apt / "sources.list", source_lines)]
    parts = apt / "sources.list.d"
    files += [(it, source_lines) for it in sorted(parts.glob("*.list"))]
    files += [(it, source_stanzas) for it in sorted(parts.glob("*.sources"))]
    entries = {}
    for file, convert in files:
        text = convert(file.read_text(errors="replace")) if file.is_file() else ""
        if text:
            name = "system.list" if file.name == "sources.list" else file.name
            entries[name] = text
    return entries


def _configure(folder: Path, entries: dict[str, str]) -> Path:
    for name in ("cache/archives/partial", "lists/partial", "sources.list.d"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for stale in (folder / "sources.list.d").iterdir():
        stale.unlink()
    for name, text in entries.items():
        (folder / "sources.list.d" / name).write_text(text)
    configuration = folder / "apt.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder))
    return configuration


def fetch(sources: dict[str, str], folder: Path, apt: Path = SYSTEM_APT) -> None:
    """Download sources, given as package -> version, into `folder`; what is there stays."""
    entries = source_entries(apt)
    if not entries:
        raise BuildError(
            f"there is nowhere to get sources from: neither {apt}/sources.list nor a file of"
            f" {apt}/sources.list.d names an archive of packages. Add Debian's there."
        )
    configuration = _configure(folder / "apt", entries)

    def apt_get(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["apt-get", "-c", configuration, *arguments],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    wanted = [f"{package}={version}" for package, version in sources.items()]
    print("lists of sources", flush=True)
    update = apt_get("update")
    print(f"sources of {', '.join(wanted)}", flush=True)
    got = apt_get("source", "--download-only", "--only-source", *wanted)
    if got.returncode != 0:
        said = [
            line
            for line in (update.stdout + got.stdout).splitlines()
            if line.startswith(("E: ", "W: ", "Err:"))
        ]
        raise BuildError(
            f"apt gave no sources of {' and '.join(wanted)}:\n"
            + "".join(f"  {line}\n" for line in said)
            + "If the network is down, try again when it is up. If the archive has other versions,"
            " install those first: apt-get update && apt-get upgrade."
        )


def unpack(package: str, version: str, folder: Path) -> Path:
    """Unpack downloaded sources, with Debian's patches; return the folder that they are in."""
    tree = folder / f"{package}-{version}"
    if not tree.is_dir():
        # apt has compared the files with what the archive's signed lists say.
        file_version = version.partition(":")[2] or version
        partial = tree.with_name(f"{tree.name}.partial")
        subprocess.run(["rm", "-rf", partial], check=True)
        unpacked = subprocess.run(
            ["dpkg-source", "--no-check", "-x", f"{package}_{file_version}.dsc", partial.name],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if unpacked.returncode != 0:
            raise BuildError(f"the sources of {package} do not unpack:\n{unpacked.stdout}")
        partial.rename(tree)
    return tree
