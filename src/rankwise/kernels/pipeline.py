"""Compilation of functions that kernels inline.

Numba optimizes every function and makes machine code of it, then links it to its callers and optimizes it again with
each of them, so that code which is nested four deep is optimized five times. Functions that are always inlined need
neither: they are linked as they are, and optimized once, with the kernel that they end up in.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _NoMachineCode:
    """Takes the place of the code generator where Numba wants to bind machine code to its Python environment."""

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing; kernels have no use for the environment of a function that they inline."""


class PartLibrary(JITCodeLibrary):
    """LLVM code of a function that is linked to its callers, and not used by itself."""

    @property
    def codegen(self) -> Any:
        """Code generator without machine code."""
        return _NoMachineCode()

    def get_pointer_to_function(self, name: str) -> int:
        """Return a null pointer."""
        self._ensure_finalized()
        return 0

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class PartCompiler(Compiler):
    """Numba's compiler with a `PartLibrary`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.state.library is None:
            self.state.library = PartLibrary(self.state.targetctx.codegen(), "part")
            self.state.library.enable_object_caching()
