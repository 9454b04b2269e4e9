"""Turn the plain comments of a public header into ones that Doxygen reads: its INPUT_FILTER.

``// text`` above a declaration becomes ``/// text``, and behind one ``///< text``. What only the
compiler needs is left out: private members, friends, definitions of what a class has declared, what
is internal, and how a std::stop_token is spelt so that C++17 does not need it.
"""

import re
import sys
from pathlib import Path

NOT_PROSE = re.compile(r"\s*//\s*(NOLINT.*|namespace.*)?$")
OWN_LINE = re.compile(r"(\s*)//\s?(.*)$")
BEHIND = re.compile(r"(.*[;,{}])\s+// (?!NOLINT)(.*)$")
# Of a template, which its class has declared.
DEFINITION = re.compile(r"^template <.*>\n\S.* \w+::\w+\(.*\n(?:  .*\n)*\}\n", re.M)
INTERNAL = re.compile(r"^namespace internal \{\n(?:.*\n)*?\}  // namespace internal\n", re.M)


def escaped(text: str) -> str:
    """Return the comment's text without what Doxygen would take for a command or a tag."""
    parts = text.split("`")  # every other one is code, which Doxygen leaves alone
    parts[::2] = [re.sub(r"[\\@<>#%]", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def filtered(text: str) -> str:
    """Return the header as Doxygen is to see it, with each line at its number."""
    for unwanted in (DEFINITION, INTERNAL):
        text = unwanted.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = text.splitlines()
    result = []
    private = False  # inside the private part of a class
    opening = True  # in the comment that opens the file, which is about all of it
    for line in lines:
        comment, behind = OWN_LINE.match(line), BEHIND.match(line)
        opening = opening and comment is not None
        private = (private or line == " private:") and not line.startswith("}")
        if private or opening or NOT_PROSE.match(line) or line.startswith("  friend class "):
            result.append("")
        elif comment:
            result.append(f"{comment[1]}/// {escaped(comment[2])}")
        elif behind and not line.startswith("}"):
            result.append(f"{behind[1]}  ///< {escaped(behind[2])}")
        else:
            result.append(line.replace("internal::StopToken auto", "std::stop_token"))
    return "\n".join([*result, ""])


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text()))
