"""Python's subinterpreters are refused, where the import would wait for ever for its own lock."""

import subprocess
import sys

IN_ONE = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import sys

if "first" in sys.argv:
    import memlease
other = interpreters.create(*(["legacy"] if sys.version_info >= (3, 13) else []))
interpreters.run_string(other, '''
try:
    import memlease
except ImportError as error:
    print(error, flush=True)
''')
import memlease
"""


def refused(*arguments):
    ended = subprocess.run(
        [sys.executable, "-c", IN_ONE, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_the_import_in_a_subinterpreter_is_refused():
    assert refused().startswith("memlease cannot be used in a subinterpreter")


def test_also_where_the_main_interpreter_has_it():
    assert refused("first").startswith("memlease cannot be used in a subinterpreter")
