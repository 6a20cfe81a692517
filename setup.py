"""Build the C backend if there is a compiler: one library for every version of Python."""

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FOLDER = "src/nextloc_metrics/core/backends"
NAMES = ["survey", "first", "bins", "repeats", "find", "tally", "tally_lists"]
FUNCTIONS = [f"nextloc_{name}" for name in NAMES]


class BuildKernels(build_ext):
    """Build a library that Python loads with ctypes, not an extension module."""

    def build_extension(self, extension: Extension) -> None:
        """Set the compiler options of the kernels, which may differ from those of Python."""
        if self.compiler.compiler_type == "msvc":
            extension.extra_compile_args = ["/O2", "/fp:precise"]
        else:
            options = ["-O3", "-g0", "-std=c11", "-ffp-contract=off", "-fvisibility=hidden"]
            extension.extra_compile_args = [*options, *extension.extra_compile_args]
        super().build_extension(extension)

    def get_ext_filename(self, fullname: str) -> str:
        """Return a file name without a version of Python."""
        return "/".join(fullname.split(".")) + ".so"

    def get_export_symbols(self, extension: Extension) -> list[str]:
        """Export the functions, and no `PyInit_`."""
        return FUNCTIONS


class WheelOfAnyPython(bdist_wheel):
    """A wheel for a platform that serves every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return a tag with the platform, and without a version of Python."""
        *_, platform = super().get_tag()
        return "py3", "none", platform


kernels = Extension(
    "nextloc_metrics.core.backends._kernels",
    [f"{FOLDER}/kernels.c"],
    depends=[f"{FOLDER}/{name}.h" for name in ("rows", "lists")],
    optional=True,
)
setup(ext_modules=[kernels], cmdclass={"build_ext": BuildKernels, "bdist_wheel": WheelOfAnyPython})
