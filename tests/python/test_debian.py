"""What ./dev deb puts into packages beside an installation's files. Tried by ./dev prove debs."""

import gzip
import importlib
import os
import subprocess
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # sanitized builds are never packaged

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ["MEMLEASE_BUILD_DIR"])
MAINTAINER = "Somebody Else <somebody@example.org>"


@pytest.fixture
def documents(monkeypatch):
    for folder in ("deploy/wheel", "deploy/debian"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("documents")


def test_the_copyright_has_the_licences_of_all_that_is_linked_in(documents):
    projects = documents.linked.projects_in(BUILD)
    text = documents.copyright_of(projects)
    assert {"grpc", "protobuf", "pybind11"} <= {it.name for it in projects}
    head, *texts = text.split(documents.RULE)
    assert "/usr/share/common-licenses/Apache-2.0" in head
    assert len(texts) == len(projects)
    for project, of_it in zip(projects, texts, strict=True):
        assert f" {project.name} {project.version}: " in head
        assert "licen" in of_it.lower()
    assert "END OF TERMS AND CONDITIONS" not in text, "Debian has that licence once for all"


def test_the_changelog_is_one_that_debian_reads(documents, monkeypatch, tmp_path):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    file = tmp_path / "changelog"
    text = documents.debian_changelog("1.2.3-4", MAINTAINER)
    documents.write_compressed(file, text)
    assert gzip.decompress(file.read_bytes()).decode() == text
    file.write_text(text)
    said = subprocess.check_output(["dpkg-parsechangelog", "-l", file], text=True)
    fields = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    assert fields["Version"] == "1.2.3-4"
    assert fields["Maintainer"] == MAINTAINER
    assert fields["Date"].startswith("Thu, 01 Jan 1970 00:00:00")


def test_pythons_tools_know_the_package_which_has_no_scripts(documents, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    documents.write_dist_info(tmp_path / "info")
    [info] = (tmp_path / "info").iterdir()
    package = PathDistribution(info)
    assert package.version == (ROOT / "VERSION").read_text().strip()
    assert {it.group for it in package.entry_points} == {"pytest11"}


def test_the_maintainer_is_whom_cpack_was_told(documents, tmp_path):
    config = tmp_path / "CPackConfig.cmake"
    config.write_text(f'set(CPACK_DEBIAN_PACKAGE_MAINTAINER "{MAINTAINER}")\n')
    assert documents.told_to_cpack(tmp_path, "CPACK_DEBIAN_PACKAGE_MAINTAINER") == MAINTAINER
