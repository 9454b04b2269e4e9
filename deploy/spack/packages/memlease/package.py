"""Spack's recipe for memlease: library, programs, headers. How it is used: docs/installing.md."""

import contextlib

from spack.package import *

with contextlib.suppress(ImportError):  # before Spack 1 it is in spack.package
    from spack_repo.builtin.build_systems.cmake import CMakePackage


class Memlease(CMakePackage):
    """Named arrays in host and GPU memory, which a daemon owns and leases to processes."""

    # Built of a clone, or of the unpacked source distribution, by `spack dev-build`: no checksum.
    version("0.1.0")

    license("Apache-2.0", checked_by="memlease")

    variant("cuda", default=False, description="Arrays on NVIDIA's GPUs")
    variant("manual", default=True, description="Manual pages")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("scdoc", type="build", when="+manual")
    depends_on("pkgconfig", type="build")

    # memlease is tested most with the gRPC of Debian, linked in; here it is that of Spack.
    depends_on("grpc@1.51 +codegen +shared")
    depends_on("protobuf@3.21 +shared")
    depends_on("abseil-cpp@20220623: cxxstd=17 +shared")
    depends_on("fmt@9.1:")
    depends_on("spdlog@1.10: +fmt_external")
    depends_on("cli11@2.1:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("cuda@13", when="+cuda")

    requires("%cxx=gcc@12:", "%cxx=clang@14:", policy="one_of", msg="memlease is C++20")
    conflicts("platform=darwin", msg="memlease needs Linux")
    conflicts("target=aarch64:", msg="memlease has been tried on x86-64 alone")

    generator("ninja")

    def cmake_args(self):
        """Return what the preset `install` says, with Spack's gRPC."""
        return [
            self.define("MEMLEASE_GRPC", "shared"),
            self.define("MEMLEASE_BUILD_TESTS", False),
            self.define("MEMLEASE_BUILD_EXAMPLES", False),
            self.define("MEMLEASE_BUILD_BENCH", False),
        ]

    def setup_build_environment(self, env):
        """Tell memlease where CUDA is."""
        if self.spec.satisfies("+cuda"):
            env.set("CUDA_PATH", self.spec["cuda"].prefix)
