"""The site that ./dev docs makes: each page and each public name has its place there."""

import importlib
import re
from pathlib import Path

import memlease
import pytest

pytestmark = pytest.mark.no_asan  # runs Python alone

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs/site"
HEADERS = ROOT / "client/include/memlease"
NOT_PUBLIC = {"for_bindings.h", "stop.h"}


@pytest.fixture
def load(monkeypatch):
    """Import a script of the site's."""
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module


def places():
    """Return the patterns of the pages that the site shows, from its lists of contents."""
    for page in (SITE / "index.md", SITE / "decisions.md"):
        for lists in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.M | re.S):
            for line in re.findall(r"^[^:\n].*$", lists, re.M):
                yield re.search(r"[^<>]+(?=>?$)", line)[0]


def pages():
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.scd")]
    names = {f"/{page.relative_to(ROOT).with_suffix('')}" for page in found}
    return names - {"/docs/site/index"}


def test_each_page_has_one_place_on_the_site():
    patterns = [place if place[0] == "/" else f"/docs/site/{place}" for place in places()]
    wrong = {page: sum(Path(page).match(one) for one in patterns) for page in pages()}
    assert {page: count for page, count in wrong.items() if count != 1} == {}


def test_each_place_on_the_site_has_a_page():
    for place in places():
        path = SITE / place if place[0] != "/" else ROOT / place[1:]
        assert [*path.parent.glob(f"{path.name}.*")], place


def test_the_reference_of_python_has_each_public_name():
    text, fixtures = (SITE / "python.rst").read_text().split("Fixtures for pytest\n")
    entry = r"^\.\. (?:auto(?:class|function|exception)|py:data):: (\w+)"
    assert sorted(re.findall(entry, text, re.M)) == sorted(memlease.__all__)
    assert {"Daemon", "memlease_daemon"} <= set(re.findall(entry, fixtures, re.M))


def public_names():
    """Return what the headers declare in the namespace memlease itself."""
    for header in sorted(HEADERS.glob("*.h")):
        if header.name in NOT_PUBLIC:
            continue
        text = header.read_text()
        for end in (r"\}  // namespace internal", r"\}"):  # where it is short, without its name
            text = re.sub(rf"^namespace internal \{{\n.*?^{end}$", "", text, flags=re.M | re.S)
        for line in re.findall(r"^(?:class|struct|enum class|using) .*[{=].*$", text, re.M):
            if named := re.search(r"(\w+) (?:[:{=]|final)", line):  # no specialisation
                yield named[1]
        yield from re.findall(r"^(?:\[\[nodiscard\]\] )?MEMLEASE_API .*?(\w+)\(", text, re.M)
        yield from re.findall(r"^(?:inline )?constexpr .*?(\w+)(?:\(| =)", text, re.M)
        for line in re.findall(r"^template <[^;{]*?>\n(?!inline|constexpr)(\w.*)", text, re.M):
            yield from re.findall(r" (\w+)\(", line)  # but members, defined outside of their class


def test_the_reference_of_cpp_has_each_public_name():
    shown = re.findall(r"^\.\. doxygen\w+:: memlease::(\w+)", (SITE / "cpp.rst").read_text(), re.M)
    names = set(public_names())
    assert {"Array", "Pin", "ErrorCode", "wait", "dtype_of", "kForever"} <= names
    assert set(shown) == names


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("  // Waits for it.", "  /// Waits for it."),
        ("  int slots() const;  // 1 to 64", "  int slots() const;  ///< 1 to 64"),
        ("  // Of <uid>, in `a<b>`.", r"  /// Of \<uid\>, in `a<b>`."),
        ("  // NOLINTBEGIN(some-check)", ""),
        ("  friend class Client;", ""),
        ("}  // namespace memlease", "}  // namespace memlease"),
        ("  void wait(internal::StopToken auto stop);", "  void wait(std::stop_token stop);"),
    ],
)
def test_doxygen_sees_the_comments_of_a_header(load, line, seen):
    filtered = load("header_comments").filtered
    assert filtered(f"#pragma once\n{line}\n") == f"#pragma once\n{seen}\n"


HEADER = """\
// About the file.
namespace internal {

struct B {};

}  // namespace internal

class A {
 public:
  template <typename T>
  T get() const;

 private:
  int a_;
};

template <typename T>
T A::get() const {
  return a_;
}

int b;
"""

SEEN = """\







class A {
 public:
  template <typename T>
  T get() const;



};






int b;
"""


def test_doxygen_sees_only_what_users_of_a_header_see(load):
    assert load("header_comments").filtered(HEADER) == SEEN


def test_doxygen_sees_each_line_of_a_header_at_its_number(load):
    for header in HEADERS.glob("*.h"):
        text = header.read_text()
        assert load("header_comments").filtered(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.html", None),
        ("other.html#here", None),
        ("#own", None),
        ("https://example.org/none", None),
        ("none.html", "there is no such file"),
        ("other.html#none", "there is no such place"),
        ("#none", "there is no such place"),
    ],
)
def test_links_of_the_site_lead_somewhere(load, tmp_path, link, problem):
    (tmp_path / "page.html").write_text(f'<p id="own"><a href="{link}">there</a></p>')
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    found = [] if problem is None else [f"page.html: {link}: {problem}"]
    assert list(load("links").broken(tmp_path)) == found
