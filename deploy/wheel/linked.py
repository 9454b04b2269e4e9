#!/usr/bin/env python3
"""Lists what of other people's is in the files that a wheel takes out of a build tree.

    linked.py BUILD_DIR FOLDER

Ninja knows of each file which archives are linked into it and, of each of its objects, which
headers were compiled; the system's package manager and pip's metadata know whose they are. FOLDER
becomes what the wheel's .dist-info takes: licenses/third_party/NAME.txt for each project, with the
texts that these refer to, and sboms/memlease.cdx.json, a CycloneDX list. A file that belongs to
nobody is an error.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = (
    "bin/memleased",
    "bin/memleasectl",
    "lib/libmemlease.so.[0-9].[0-9]*.[0-9]*",
    "lib/libmemlease_cuda.so",
    "python/_core.*.so",
)
# What every system has of its own, and what is loaded and not taken along: their headers say only
# how to call it. The C++ library's terms let programs take what is compiled of its headers.
INTERFACES = re.compile(
    r"(libc6|linux-libc|libpython3\.\d+|libstdc\+\+-\d+|libgcc-\d+)-dev|nvidia-cuda-\w+"
)
# The same, of a Python or a toolkit that no package manager put there.
INTERFACE_FOLDERS = re.compile(r"/include/python3\.\d+/|/cuda[-\d.]*/")
PRIVATE_GRPC = re.compile(r"/private-grpc/[^/]+/libmemlease_private_grpc\.a$")
BUILT_FOR_IT = ("libabsl-dev", "libprotobuf-dev")  # as cmake/private_grpc/private_grpc.py has them
COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")


@dataclasses.dataclass(frozen=True, order=True)
class Project:
    """One project of other people's, in one version."""

    name: str
    version: str
    purl: str
    texts: tuple[Path, ...]  # its licences, as it came

    def licence_names(self) -> list[str]:
        """Return what a machine-readable copyright file calls them."""
        found = re.findall(r"^License: *(\S.*)$", self.text(), re.M)
        return sorted({it.strip() for it in found}) or [f"see {self.file()}"]

    def file(self) -> str:
        """Return where its licences are, below the wheel's .dist-info."""
        return f"licenses/third_party/{self.name}.txt"

    def text(self) -> str:
        """Return all its licences."""
        return "\n".join(it.read_text(errors="replace") for it in self.texts)


def output_of(*command: str | Path) -> str:
    """Return what a command prints, which must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files_in(build: Path, made: Iterable[str]) -> set[Path]:
    """Return all files not ours that are linked or compiled into these."""
    inputs = output_of("ninja", "-C", build, "-t", "inputs", *made).splitlines()
    objects = [it for it in inputs if it.endswith(".o")]
    found = {Path(it) for it in inputs if it.startswith("/") and it.endswith(".a")}
    recorded = output_of("ninja", "-C", build, "-t", "deps", *objects)
    missing = re.findall(r"^(\S+): deps not found", recorded, re.M)
    if missing:
        raise SystemExit(f"linked.py: {build} is not built yet: there is no {missing[0]}")
    for line in recorded.splitlines():
        if line.startswith("    "):
            found.add((build / line.strip()).resolve())
    return {it for it in found if not it.is_relative_to(build) and not _is_ours(it)}


def _is_ours(file: Path) -> bool:
    return file.is_relative_to(ROOT) and "site-packages" not in file.parts


def _debian(packages: Iterable[str]) -> set[Project]:
    form = "${binary:Package} ${source:Package} ${source:Version}\\n"
    names = sorted({it for it in packages if not INTERFACES.fullmatch(it)})
    projects: dict[tuple[str, str], list[Path]] = {}
    for line in output_of("dpkg-query", "-W", "-f", form, *names).splitlines():
        package, source, version = line.split()
        text = Path("/usr/share/doc", package.partition(":")[0], "copyright")
        projects.setdefault((source, version), []).append(text)
    return {
        # The packages of one source have one text.
        Project(source, version, f"pkg:deb/debian/{source}@{version}?arch=source", (texts[0],))
        for (source, version), texts in projects.items()
    }


def _owners(files: Sequence[Path]) -> dict[Path, str]:
    """Return the Debian packages of these files."""
    asked = subprocess.run(
        ["dpkg-query", "-S", *files], capture_output=True, text=True, check=False
    ).stdout
    return {
        Path(path): packages.split(", ")[0].partition(":")[0]
        for packages, path in re.findall(r"^(?!diversion)(\S.*): (/.*)$", asked, re.M)
    }


def _of_python(files: Iterable[Path]) -> set[Project]:
    """Return the packages that pip installed these files with."""
    projects, wanted = set(), set(files)
    for site in sorted({_site(it) for it in files}):
        here = {it for it in wanted if _site(it) == site}
        for package in importlib.metadata.distributions(path=[str(site)]):
            paths = {Path(str(package.locate_file(it))).resolve(): it for it in package.files or []}
            if not here & paths.keys():
                continue
            wanted -= paths.keys()
            name = package.metadata["Name"]
            if INTERFACES.fullmatch(name):
                continue
            texts = tuple(
                sorted(it for it in paths if re.search(r"\.dist-info/.*LICEN[CS]E", str(it)))
            )
            purl = f"pkg:pypi/{name}@{package.version}"
            projects.add(Project(name, package.version, purl, texts))
    if wanted:
        raise SystemExit(f"linked.py: no package of pip's owns {min(wanted)}")
    return projects


def _site(file: Path) -> Path:
    return next(it for it in file.parents if it.name == "site-packages")


def projects_in(build: Path) -> list[Project]:
    """Return whose work is in what is packaged of this build tree."""
    made = [str(it.relative_to(build)) for form in PACKAGED for it in build.glob(form)]
    files = files_in(build, made)
    private = {it for it in files if PRIVATE_GRPC.search(str(it))}
    python = {it for it in files if "site-packages" in it.parts}
    system = sorted(files - private - python)
    owners = _owners(system)
    lost = [it for it in system if it not in owners and not INTERFACE_FOLDERS.search(str(it))]
    if lost:
        raise SystemExit(f"linked.py: no Debian package owns {lost[0]}, which is compiled in")
    packages = {*owners.values(), *(BUILT_FOR_IT if private else ())}
    projects = sorted(_debian(packages) | _of_python(python))
    for project in projects:
        if not project.texts or not project.text().strip():
            raise SystemExit(f"linked.py: {project.name} came without the text of its licence")
    return projects


def write_notices(projects: Iterable[Project], metadata: Path) -> None:
    """Write each project's licences, and those that these only name by a path of Debian's."""
    common = metadata / "licenses/third_party/common-licenses"
    common.mkdir(parents=True, exist_ok=True)
    named: set[str] = set()
    for project in projects:
        text = project.text()
        named.update(COMMON_LICENCE.findall(text))
        (metadata / project.file()).write_text(
            f"{project.name} {project.version} is linked or compiled into memlease's programs and"
            " libraries.\nFiles that its licence names under /usr/share/common-licenses lie in the"
            f" folder common-licenses beside this one.\n\n{text}"
        )
    for name in sorted(named):
        (common / name).write_text(Path("/usr/share/common-licenses", name).read_text())


def bill_of(projects: Sequence[Project], version: str) -> dict[str, object]:
    """Return a CycloneDX bill of materials: the same for the same projects."""
    identity = "\n".join([version, *(it.purl for it in projects)])
    own = f"pkg:pypi/memlease@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "memlease",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": it.purl,
                "name": it.name,
                "version": it.version,
                "purl": it.purl,
                "description": "The licences are those of all files of its source.",
                "licenses": [{"license": {"name": name}} for name in it.licence_names()],
            }
            for it in projects
        ],
        "dependencies": [{"ref": own, "dependsOn": [it.purl for it in projects]}],
    }


def main(arguments: Sequence[str]) -> None:
    """Write the folder."""
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    build, folder = (Path(it).resolve() for it in arguments)
    projects = projects_in(build)
    write_notices(projects, folder)
    bill = bill_of(projects, (ROOT / "VERSION").read_text().strip())
    (folder / "sboms").mkdir(parents=True, exist_ok=True)
    (folder / "sboms/memlease.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    for it in projects:
        print(f"{it.name} {it.version}: {', '.join(it.licence_names())}")


if __name__ == "__main__":
    main(sys.argv[1:])
