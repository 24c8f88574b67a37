"""Conversion of nested state to JSON and plain arrays, and back: arrays, numbers, text, lists and known dataclasses.

State that is read back has the same bits and types: a NumPy scalar stays one, and an object that occurs twice is one
object again. Objects that the reader has, such as engines, are referred to by name and not written. Reading makes
objects of the known classes only, each with exactly its fields, and each field of its declared type.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from .._arrays import Array
from .._checks import is_number, is_whole

ClassesByName = Mapping[str, type[Any]]
JSON_TYPES = (bool, int, float, str, NoneType)
NUMBERS = ("bool", "int32", "int64", "uint32", "uint64", "float32", "float64")


class UnknownPart(TypeError):
    """An object of a type that cannot be stored."""


class Packer:
    """Converts nested state to JSON and arrays.

    `classes` are the dataclasses that may occur, by their names in the file; objects that are `outside` are referred to
    by name and not written.
    """

    def __init__(self, classes: ClassesByName, outside: Mapping[str, Any]) -> None:
        self.names = {kind: name for name, kind in classes.items()}
        self.outside = {id(thing): name for name, thing in outside.items()}
        self.arrays: dict[str, Array] = {}
        self._places: dict[int, Any] = {}  # references to objects and arrays that have occurred
        self._n_objects = 0

    def plain(self, thing: Any) -> Any:
        """Return the state as JSON; add its arrays to `arrays`."""
        if type(thing) in JSON_TYPES:
            return thing
        if id(thing) in self.outside:
            return {"outside": self.outside[id(thing)]}
        if id(thing) in self._places:
            return self._places[id(thing)]
        if isinstance(thing, np.generic) and str(thing.dtype) in NUMBERS:
            return {"number": [str(thing.dtype), thing.item()]}
        if type(thing) in (list, tuple):
            return {type(thing).__name__: [self.plain(part) for part in thing]}
        if type(thing) is dict and all(type(key) is str for key in thing):
            return {"dict": {key: self.plain(part) for key, part in thing.items()}}
        if type(thing) is np.ndarray and thing.dtype.kind in "biuf":
            return self._array(thing, thing)
        if hasattr(thing, "__array__") and not isinstance(thing, np.ndarray | np.generic):  # an array that is elsewhere
            return self._array(thing, np.asarray(thing))
        if type(thing) in self.names:
            return self._object(thing)
        raise UnknownPart(type(thing).__name__)

    def _array(self, thing: Any, array: Array) -> Any:
        name = f"array{len(self.arrays)}"
        self.arrays[name] = array
        self._places[id(thing)] = {"array": name}
        return {"array": name}

    def _object(self, thing: Any) -> Any:
        number = self._n_objects
        self._n_objects += 1
        parts = {field.name: self.plain(getattr(thing, field.name)) for field in fields(thing)}
        self._places[id(thing)] = {"same": number}
        return {"class": self.names[type(thing)], "fields": parts}


class Unpacker:
    """Converts JSON and arrays back; raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` if it cannot.

    The functions `outside` return the objects that were referred to by name.
    """

    def __init__(
        self, classes: ClassesByName, outside: Mapping[str, Callable[[], Any]], arrays: dict[str, Array]
    ) -> None:
        self.classes, self.outside, self.arrays = classes, outside, arrays
        self._made: dict[int, Any] = {}
        self._n_objects = 0

    def thing(self, plain: Any) -> Any:
        """Return the state that the JSON stands for."""
        if type(plain) in JSON_TYPES:
            return plain
        if set(plain) == {"class", "fields"}:
            return self._object(plain["class"], plain["fields"])
        ((kind, content),) = plain.items()
        if kind == "number":
            name, value = content
            return np.dtype(NUMBERS[NUMBERS.index(name)]).type(value)
        if kind in ("list", "tuple"):
            parts = [self.thing(part) for part in content]
            return parts if kind == "list" else tuple(parts)
        if kind == "dict":
            return {key: self.thing(part) for key, part in content.items()}
        if kind == "array":
            return self.arrays[content]
        if kind == "same":
            return self._made[content]
        if kind == "outside":
            return self.outside[content]()
        raise ValueError(f"{kind!r} is not a kind of state")

    def _object(self, name: str, content: dict[str, Any]) -> Any:
        kind: Any = self.classes[name]
        number = self._n_objects
        self._n_objects += 1
        parts = {key: self.thing(part) for key, part in content.items()}
        declared = _declared(kind)
        if parts.keys() != declared.keys():
            raise ValueError(f"{name} has the fields {', '.join(declared)}")
        for key, part in parts.items():
            if not is_of(part, declared[key]):
                raise ValueError(f"{name}.{key} is a {type(part).__name__}")
        self._made[number] = kind(**parts)
        return self._made[number]


@cache
def _declared(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def is_of(part: Any, hint: Any) -> bool:
    """Return whether `part` is of a declared type; the contents of arrays are not checked."""
    if hint is Any:
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(is_of(part, each) for each in inner)
    if origin is list:
        return type(part) is list and all(is_of(each, inner[0]) for each in part)
    if origin is tuple:
        fits = type(part) is tuple and len(part) == len(inner)
        return fits and all(is_of(each, kind) for each, kind in zip(part, inner, strict=True))
    if hint is float:
        return is_number(part)
    if hint is int:
        return is_whole(part)
    return isinstance(part, origin or hint)
