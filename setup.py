"""Build the compiled loops; everything else is in pyproject.toml."""

from sys import platform

from setuptools import Extension, setup

FOLDER = "src/unlabel/_method/compiled"
# The same bits on every processor: no fused multiply-adds, which only some have.
EXACT_AND_FAST = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

loops = Extension(
    "unlabel._method.compiled._loops",
    sources=[f"{FOLDER}/loops.c"],
    depends=[f"{FOLDER}/loops.h", f"{FOLDER}/rows.h"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    extra_compile_args=["/O2", "/fp:precise"] if platform == "win32" else EXACT_AND_FAST,
    optional=True,  # without a compiler, plain NumPy does the work
)
setup(ext_modules=[loops], options={"bdist_wheel": {"py_limited_api": "cp311"}})
