"""What `name` in a docstring means: an argument, or something that has a place on the site.

Anything else is a mistake, which Sphinx warns of.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import memlease
from docutils import nodes

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

CLASSES = (
    memlease.Client,
    memlease.Array,
    memlease.Follower,
    memlease.ReadLease,
    memlease.WriteLease,
)


def arguments_of(call: Any) -> set[str]:
    """Return the names of a call's arguments; none for what is not a call."""
    try:
        return set(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return set()


ALL_ARGUMENTS = {
    name
    for cls in CLASSES
    for _, member in inspect.getmembers(cls, callable)
    for name in arguments_of(member)
}


def show_arguments(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Show the call's own arguments as code, also where something else has that name."""
    own = "|".join(arguments_of(obj)) if what in ("function", "method") else ""
    if own:
        lines[:] = [re.sub(rf"(?<!`)`({own})`(?!`)", r"``\1``", line) for line in lines]


def show_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Show a call of the bindings as it is in Python, without its self and its ends of lines."""
    if what != "method" or not getattr(obj, "__text_signature__", None):
        return None
    whole = inspect.signature(obj)
    return str(whole.replace(parameters=list(whole.parameters.values())[1:])), ""


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element
) -> nodes.Node | None:
    """Let the arguments of other calls be."""
    if node.get("refdomain") == "py" and node["reftarget"] in ALL_ARGUMENTS:
        return nodes.literal("", node["reftarget"])
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register them; Sphinx calls this."""
    app.connect("autodoc-process-signature", show_signature, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", show_arguments)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
