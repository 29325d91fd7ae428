"""A value that is computed on first use. As functools.cached_property, but without its lock: that costs more than most
facts do, and they are asked for by one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """The result of a method without arguments, kept in the object under the method's name."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        """Called until the object has the value itself."""
        if instance is None:
            return self
        value = self._method(instance)
        instance.__dict__[self._name] = value
        return value
