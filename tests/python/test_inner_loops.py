"""What the compiler makes of loops over an array's elements: instructions, not times."""

import re
import subprocess

import pytest
from test_docs import ROOT, blocks

pytestmark = pytest.mark.no_asan  # compiles alone

KERNEL = """
#include <memlease/kernels.h>
void kernel(const memlease::Span<float, 2>& cells) { memlease::add_index_tuple(cells); }
"""


def assembly(source, *flags):
    """Return what -O2 makes of it, as lines."""
    include = f"-I{ROOT / 'client/include'}"
    command = ["c++", "-std=c++17", "-O2", "-S", include, *flags, "-x", "c++", "-", "-o", "-"]
    run = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def innermost_loop(lines, function):
    """Return the instructions of a function's shortest way back."""
    body = lines[lines.index(f"{function}:") :]
    body = body[: next(i for i, line in enumerate(body) if line.strip().startswith(".size"))]
    labels, instructions, loops = {}, [], []
    for line in body:
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = len(instructions)
        elif re.match(r"\s+[a-z]", line):
            instructions.append(line.strip())
            target = re.search(r"(\.L\w+)$", line)
            if target and target[1] in labels:
                loops.append(instructions[labels[target[1]] :])
    return min(loops, key=len)


def adds_several(lines):
    """Tell whether there is an instruction that adds several floats, of x86-64 or ARM."""
    return any(re.search(r"\bv?addps\b|\bfadd\tv\d+\.4s", line) for line in lines)


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
def test_an_indexers_loop_has_no_more_instructions_than_one_by_hand(layout):
    lines = assembly("#include <memlease/indexer.h>\n" + blocks("cpp", "performance.md"))
    by_hand = innermost_loop(lines, f"{layout}_by_hand")
    by_indexer = innermost_loop(lines, f"{layout}_by_indexer")
    assert len(by_hand) >= 5
    assert len(by_indexer) <= len(by_hand), by_indexer


def test_a_slower_loop_has_more_instructions():
    """The negative control of the test above."""
    code = blocks("cpp", "performance.md")
    checked = code.replace("cells(i, j)", "cells.at(i, j)")
    assert checked != code
    lines = assembly("#include <memlease/indexer.h>\n" + checked)
    by_hand = innermost_loop(lines, "contiguous_by_hand")
    assert len(innermost_loop(lines, "contiguous_by_indexer")) > len(by_hand)


def test_a_kernel_adds_several_elements_by_one_instruction():
    assert adds_several(assembly(KERNEL, "-fopenmp-simd", "-DMEMLEASE_OPENMP_SIMD"))
    assert not adds_several(assembly(KERNEL, "-fno-tree-vectorize")), "the negative control"
