"""docs/protocol.md agrees with the code: layouts as the compiler makes them, frames, calls."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocol.md").read_text()
STRUCTS = ("BoardRecord", "SubscriberChunk", "SessionCounts", "ReaderRow", "WriterRow")

PROBE = r"""
#include <bit>
#include <cstddef>
#include <cstdio>
#include <utility>
#include "wire/board.h"
using namespace memlease::wire;

void bits(const char* name, std::uint64_t mask) {
  const int low = std::countr_zero(mask), high = 63 - std::countl_zero(mask);
  low == high ? std::printf("%s %d\n", name, low) : std::printf("%s %d..%d\n", name, low, high);
}

int main() {
  bits("MOVING", kWriterMoving);
  bits("WITHDRAWN", kWriterWithdrawn);
  bits("VACANT", kWriterVacant);
  bits("DRAINING", kWriterDraining);
  bits("unit", pack_writer({FileId{0}, kSessionPageUnits - 1}, 0, 0));
  bits("page", pack_writer({FileId{kMaxFileId}, 0}, 0, 0));
  bits("generation", pack_writer({}, (1U << kWriterGenerationBits) - 1, 0));
  bits("entry.set", pack_subscriber({}));
  bits("entry.unit", pack_subscriber({FileId{0}, kSessionPageUnits - 1}) & ~std::uint64_t{1});
  bits("entry.page", pack_subscriber({FileId{kMaxFileId}, 0}) & ~std::uint64_t{1});
  bits("next.offset", pack_chunk({FileId{0}, 0xffffffff}));
  bits("next.file", pack_chunk({FileId{kMaxFileId}, 0}));
  bits("the", kVersionMask);
  bits("HANDED_OUT", kHandedOut);
  bits("WRITING", kWriting);
  for (const unsigned slots : {1U, 3U, 64U}) {
    std::printf("units.%u %u,%u,%u\n", slots, board_record_units(slots), reader_row_units(slots),
                writer_row_units(slots));
  }
  const SlotLayout grows{3, 64};
  std::printf("units.3, of an array that may grow %u,%u,%u\n", board_record_units(grows),
              reader_row_units(grows.most), writer_row_units(grows.most));
  bits("CLOSING", kSlotsClosing);
  bits("place.file", pack_place({FileId{kMaxFileId}, 0}));
  bits("place.offset", pack_place({FileId{0}, kMaxPlaceOffset}));
  std::printf("file.2 %llu\n", static_cast<unsigned long long>(kBoardBytes));
  std::printf("file.3 %llu\n", static_cast<unsigned long long>(kSessionPageBytes));
  std::printf("counts %llu\n", static_cast<unsigned long long>(kSessionCountsBytes));
  std::printf("publication.7.5 %llu\n", static_cast<unsigned long long>(pack({7, 5})));
  BoardRecord board;
  WriterRow writer;
  ReaderRow reader;
  const auto at = [](const auto& row, const void* place) {
    return static_cast<int>(static_cast<const char*>(place) - reinterpret_cast<const char*>(&row));
  };
  std::printf("poisoned %d\n", at(board, std::as_const(board).poisoned()));
  std::printf("slot_words %d\n", at(writer, std::as_const(writer).slot_words()));
  std::printf("holds %d\n", at(reader, std::as_const(reader).holds()));
  // MEMBERS
}
"""


def section(heading):
    """Return what stands below the heading, up to the next one."""
    return re.split(r"^#+ ", PAGE.split(f"\n{heading}\n")[1], flags=re.M)[0]


def rows(text):
    """Cells of all tables' lines, without the lines of their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {n for i, line in enumerate(lines) if line.startswith("|---") for n in (i - 1, i)}
    kept = [line for i, line in enumerate(lines) if i not in heads]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in kept]


def members(struct):
    """(offset, bytes, field) as the page has them."""
    listed = rows(section(f"### {struct}"))
    return [(int(row[0]), int(row[1]), row[2]) for row in listed if len(row) == 4]


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    """Compile what prints places and sizes; return them by name."""
    lines = [
        f'  std::printf("{struct}.{field} %zu,%zu\\n", offsetof({struct}, {field}), '
        f"sizeof({struct}::{field}));"
        for struct in STRUCTS
        for _, _, field in members(struct)
    ]
    lines += [f'  std::printf("{s}.size %zu\\n", sizeof({s}));' for s in STRUCTS]
    folder = tmp_path_factory.mktemp("probe")
    source = folder / "probe.cc"
    source.write_text(PROBE.replace("  // MEMBERS", "\n".join(lines)))
    program = folder / "probe"
    command = ["c++", "-std=c++20", f"-I{ROOT}", source, "-o", program]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(command, check=True, timeout=120, env=plain)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return dict(line.rsplit(" ", 1) for line in output.splitlines())


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_tables_fields_are_where_the_compiler_puts_them(struct, laid_out):
    end = 0
    for offset, size, field in members(struct):
        assert laid_out[f"{struct}.{field}"] == f"{offset},{size}"
        assert offset == end, "a gap, or the wrong order"
        end = offset + size
    assert str(end) == laid_out[f"{struct}.size"]


@pytest.mark.parametrize("name", ["poisoned", "slot_words", "holds"])
def test_what_stands_behind_a_header_is_where_the_page_says(name, laid_out):
    struct, words = {
        "poisoned": ("BoardRecord", "one word per slot, `poisoned`"),
        "slot_words": ("WriterRow", "one slot word per slot"),
        "holds": ("ReaderRow", "`holds`"),
    }[name]
    assert f"Behind it, at {laid_out[name]}: {words}" in section(f"### {struct}")


def test_bits_are_where_the_page_says(laid_out):
    listed = rows(section("### BoardRecord")) + rows(section("### WriterRow"))
    bits = {re.split(r"[ :]", row[1])[0]: row[0] for row in listed if len(row) == 2}
    assert len(bits) == 10
    assert {name: laid_out[name] for name in bits} == bits


def test_added_slots_are_told_of_as_the_page_says(laid_out):
    text = " ".join(section("### BoardRecord").split())
    assert f"bit {laid_out['CLOSING']}: CLOSING" in text
    file, offset = laid_out["place.file"], laid_out["place.offset"]
    assert f"`places`: bits {file} file, {offset} offset" in text


def test_references_on_the_board_are_packed_as_the_page_says(laid_out):
    text = section("### SubscriberChunk")
    low, unit, page = (laid_out[f"entry.{part}"] for part in ("set", "unit", "page"))
    assert f"bit {low} set, {unit} unit of the reader row, {page} page" in text
    assert f"bits {laid_out['next.offset']} offset, {laid_out['next.file']} file" in text


def test_sizes_are_what_the_page_says(laid_out):
    units = {row[0]: ",".join(row[1:]) for row in rows(section("## Layouts"))}
    assert units == {slots: laid_out[f"units.{slots}"] for slots in units}
    assert {"1", "3", "64", "3, of an array that may grow"} == set(units)
    files = {row[0]: row[2] for row in rows(section("## Shared files"))}
    assert [files["2"], files["3"]] == [laid_out["file.2"], laid_out["file.3"]]
    assert laid_out["publication.7.5"] == str(7 * 64 + 5)
    assert "version times 64 plus its slot" in section("### WriterRow")


# ---- Frames and calls, read from their sources.

FRAME_H = (ROOT / "wire/attach_frame.h").read_text()
FRAME_CC = (ROOT / "wire/attach_frame.cc").read_text()
PROTOCOL_H = (ROOT / "wire/protocol.h").read_text()
IDS_H = (ROOT / "wire/ids.h").read_text()
NUMBERS = {
    "std::uint8_t": "u8",
    "std::uint16_t": "u16",
    "std::uint32_t": "u32",
    "std::uint64_t": "u64",
    "SessionId": "u32",
    "FileId": "u32",
}


def constant(name, text=FRAME_H):
    return re.search(rf"\b{name} = (\w+)", text)[1]


def payload_of(frame):
    """Return 'code u32, message text', as the code writes it."""
    body = re.search(rf"struct {frame} \{{(.*?)\n\}};", FRAME_H, re.S)[1]
    types = {name: kind for kind, name in re.findall(r"^ +([\w:]+) (\w+)[ {;]", body, re.M)}
    writes = re.search(rf"operator\(\)\(const {frame}&[^)]*\) \{{(.*?)\}}\n", FRAME_CC, re.S)[1]
    several = re.search(r"for \(const \w+::File& file : f\.files\)", writes)
    fields = []
    for how, what in re.findall(r"out\.(\w+)\((.*)\);", writes):
        found = re.search(r"\b(?:f|file)\.(\w+)|\((file)\)", what)
        name = found[1] or found[2]
        cast = re.search(r"std::uint\d+_t", what)
        if how in ("text", "message"):
            fields.append(f"{name} text")
        elif how == "bytes":
            size = re.search(rf"using {types[name]} = std::array<std::uint8_t, (\d+)>", FRAME_H)[1]
            fields.append(f"{name} {size} bytes")
        else:
            fields.append(f"{name} {NUMBERS[cast[0] if cast else types[name]]}")
    most = constant("kMaxFetchedFiles", IDS_H)
    if "FileFrame{f.files}" in writes:
        fields.append(f"then 0 to {most} times as FILE")
    return (f"1 to {most} times: " if several else "") + ", ".join(fields)


def test_frames_have_the_payloads_that_the_page_says():
    types = re.search(r"enum class FrameType[^{]*\{(.*?)\}", FRAME_H, re.S)[1]
    expected = [
        [number, name.upper(), payload_of(f"{name}Frame")]
        for name, number in re.findall(r"k(\w+) = (\d+)", types)
    ]
    assert len(expected) == 11
    assert [row for row in rows(section("## Attach channel")) if row[0].isdigit()][5:] == expected


def test_the_header_of_a_frame_is_what_the_page_says():
    listed = [row for row in rows(section("## Attach channel")) if row[0].isdigit()][:5]
    written = re.findall(r"  header\.number\((.*)\);", FRAME_CC)
    sizes = ["4", "2", "2", "4", "4"]
    assert [row[1] for row in listed] == sizes
    assert [row[0] for row in listed] == [str(sum(map(int, sizes[:i]))) for i in range(5)]
    assert sum(map(int, sizes)) == int(constant("kFrameHeaderBytes"))
    words = ["kFrameMagic", "protocol", "type_of", "payload.size", "request_id"]
    assert [word for word, code in zip(words, written, strict=True) if word in code] == words
    assert constant("kFrameMagic") in listed[0][2]
    assert listed[1][2].endswith(f"now {constant('kMaxProtocol', PROTOCOL_H)}")


def test_the_release_speaks_the_protocol_that_the_page_of_compatibility_says():
    head = "| protocol | releases |"
    table = (ROOT / "docs/compatibility.md").read_text().split(head)[1].split("\n\n")[0]
    protocol, releases = rows(head + table)[-1]
    assert protocol == constant("kMaxProtocol", PROTOCOL_H)
    assert (ROOT / "VERSION").read_text().rsplit(".", 1)[0] in releases.split(", ")


def test_limits_of_frames_are_what_the_page_says():
    text = section("## Attach channel")
    assert f"at most\n{constant('kMaxFrameBytes')} bytes" in text
    assert f"at most {constant('kMaxVersionTextBytes')} bytes of printable ASCII" in text
    assert f"the messages of a call {constant('kMaxCallBytes')}" in text
    assert f"the request of `Create` {constant('kMaxCreateBytes')}" in text
    assert f"error texts at most {constant('kMaxErrorTextBytes')} bytes" in text


@pytest.mark.parametrize("service", ["control", "admin"])
def test_each_call_is_listed_in_its_order(service):
    proto = (ROOT / f"proto/memlease/v1/{service}.proto").read_text()
    first, second = section("## Calls").split("`memlease.v1.Admin`")
    listed = rows(first if service == "control" else second)
    assert [row[0] for row in listed] == re.findall(r"^  rpc (\w+)\(", proto, re.M)
