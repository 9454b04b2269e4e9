"""What the stand-in exports is what the real runtime library exports."""

import re
import subprocess
import sysconfig
from pathlib import Path

from fakecuda_build import FOLDER, require_stand_in

require_stand_in()

REAL = Path(sysconfig.get_path("purelib"), "nvidia/cu13/lib/libcudart.so.13")
VARIANT = re.compile(r"_(ptsz|ptds)$")


def exports(library):
    """Tell the names that a library defines, with their versions: "cudaFree@@libcudart.so.13"."""
    command = ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listing.splitlines()}
    return {name for name in names if name.startswith("cuda")}


def base(name):
    return VARIANT.sub("", name.partition("@")[0])


def test_every_function_is_the_real_librarys_with_its_version():
    assert exports(FOLDER / "libcudart.so.13") - exports(REAL) == set()


def test_every_function_has_its_per_thread_variant():
    ours = exports(FOLDER / "libcudart.so.13")
    bases = {base(name) for name in ours}
    expected = {name for name in exports(REAL) if base(name) in bases}
    assert expected - ours == set()


def test_the_library_bears_the_real_name():
    command = ["readelf", "-d", str(FOLDER / "libcudart.so.13")]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "soname: [libcudart.so.13]" in listing
    assert "(RPATH)" not in listing


def test_the_driver_is_the_same_file():
    assert (FOLDER / "libcuda.so.1").resolve() == (FOLDER / "libcudart.so.13").resolve()
