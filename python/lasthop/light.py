"""Dataclasses that take little time to load: a short run loads some seventy.

The standard library writes, parses and compiles seven methods for each frozen dataclass, which took an eighth of a
short run. Here all share `__repr__`, `__eq__` and `__hash__`, and only `__init__` is their own. Mypy and Pyright see
dataclasses of the standard library and refuse to assign to a frozen one; at run time nothing does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    def dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Callable[[type], type]:
        """Return what makes a class a dataclass."""

        def made(plain: type) -> type:
            whole: Any = dataclasses.dataclass(repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
            whole.__repr__, whole.__eq__ = _repr, _eq
            whole.__hash__ = _hash if frozen else None
            return whole

        return made

    def _repr(self: object) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _eq(self: object, other: object) -> bool:
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def _hash(self: object) -> int:
        return hash(_values(self))

    def _values(self: object) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)
