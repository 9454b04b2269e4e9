#!/usr/bin/env python3
"""Writes what each .deb package has beside the files of an installation.

    documents.py BUILD_DIR FOLDER

FOLDER becomes: copyright, with the licences of all that is linked or compiled in; changelog.gz,
which is the project's; changelog.Debian.gz; and dist-info, by which Python's tools know the
package.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "deploy/wheel"))

import linked  # noqa: E402

HEAD = """\
memlease, packaged by its authors of their own repository.

Copyright: the authors of memlease
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.

What follows is linked or compiled into its programs and libraries:

"""
# Debian has it once for all packages.
APACHE = re.compile(
    r"^ *Apache License\n *Version 2\.0, January 2004\n.*?"
    r"^ *END OF TERMS AND CONDITIONS *$(.*?^ *limitations under the License\.$)?",
    re.M | re.S,
)
RULE = "\n" + "-" * 78 + "\n\n"


def copyright_of(projects: Sequence[linked.Project]) -> str:
    """Return the file `copyright`: ours, a list of the others', and their texts."""
    listed = [f" {it.name} {it.version}: {', '.join(it.licence_names())}\n" for it in projects]
    texts = [f"{RULE}{it.name} {it.version}\n\n{it.text()}" for it in projects]
    return APACHE.sub(" /usr/share/common-licenses/Apache-2.0", "".join([HEAD, *listed, *texts]))


def changed_at() -> int:
    """Return the time of the last commit: packages of one commit are the same."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    command = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(asked.stdout) if asked.returncode == 0 else int(time.time())


def debian_changelog(version: str, maintainer: str) -> str:
    """Return the changelog of the packaging, which follows the project's."""
    return (
        f"memlease ({version}) unstable; urgency=medium\n\n"
        f"  * memlease {version.partition('-')[0]}: what has changed is in changelog.gz.\n\n"
        f" -- {maintainer}  {format_datetime(datetime.fromtimestamp(changed_at(), UTC))}\n"
    )


def write_compressed(path: Path, text: str) -> None:
    """Write a file as gzip -9n does: without name and time."""
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def write_dist_info(folder: Path) -> None:
    """Write what pip would: but the programs are Debian's, and so no scripts of the package's."""
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(ROOT)
    info = folder / prepare_metadata_for_build_wheel(str(folder))
    points = (info / "entry_points.txt").read_text()
    kept = re.sub(r"^\[console_scripts\]\n(?:[^\[\n].*\n|\n)*", "", points, flags=re.M)
    (info / "entry_points.txt").write_text(kept)
    shutil.rmtree(info / "licenses", ignore_errors=True)  # in the file `copyright`


def told_to_cpack(build: Path, variable: str) -> str:
    """Return what CMake has told CPack."""
    text = (build / "CPackConfig.cmake").read_text()
    [said] = re.findall(rf'^set\({variable} "(.+)"\)', text, re.M)
    return said.replace("\\", "")


def main(arguments: Sequence[str]) -> None:
    """Write the folder."""
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    build, folder = (Path(it).resolve() for it in arguments)
    folder.mkdir(parents=True, exist_ok=True)
    revision = told_to_cpack(build, "CPACK_DEBIAN_PACKAGE_RELEASE")
    version = f"{(ROOT / 'VERSION').read_text().strip()}-{revision}"
    maintainer = told_to_cpack(build, "CPACK_DEBIAN_PACKAGE_MAINTAINER")
    (folder / "copyright").write_text(copyright_of(linked.projects_in(build)))
    write_compressed(folder / "changelog.gz", (ROOT / "CHANGELOG.md").read_text())
    write_compressed(folder / "changelog.Debian.gz", debian_changelog(version, maintainer))
    write_dist_info(folder / "dist-info")


if __name__ == "__main__":
    main(sys.argv[1:])
