from typing import Final

__all__ = ["Error", "InputError", "__version__", "document", "machine", "machines"]

__version__: Final[str]

class Error(Exception): ...

class InputError(Error):
    line: int | None
    column: int | None

def document(command: str, arguments: list[str]) -> str: ...
def machines() -> list[tuple[str, str]]: ...
def machine(name: str) -> str: ...
