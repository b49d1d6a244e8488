"""Models by name, for the command line: an ONNX file or `package.module:object`.

A pickle runs whatever code its author put into it while it is being read, and joblib and
`torch.save` files are pickles: they are refused by what they contain, whatever their name.
"""

from __future__ import annotations

import hashlib
import io
import pickletools
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.input_file import read_file
from voile.core.optional import optional
from voile.models.inspection import graphs
from voile.models.outputs import DeclaredOutputs, Simplex, Unbounded
from voile.models.wrapped import Forward, InspectedForward, Rows, WrappedModel

_COMPRESSED: Final = {  # joblib writes any of these around its pickle
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x5d\x00\x00": "lzma",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x78\x01": "zlib",
    b"\x78\x5e": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
}
_NAMES: Final = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin", ".sav"}
_WAY_OUT: Final = (
    "export the model to ONNX (skl2onnx, torch.onnx.export), or import it from your own code with "
    "package.module:object"
)

_FILES_OF_A_MODULE: Final = (
    ". If this is about a file that the module reads: name it relative to the module's own, "
    "Path(__file__).parent / ..., and it is found from any folder"
)


def load_model(reference: str, folder: Path | None = None) -> Any:
    """What `reference` names: the path of an ONNX file, or an object in an importable module.

    Importing a module runs it, too; but it is code that was written as code.

    Args:
        folder: where modules are looked for first; the current folder if not stated.
    """
    if names_object(reference):
        module, _, name = reference.partition(":")
        return _imported(module, name, Path.cwd() if folder is None else folder.absolute())
    return load_file(Path(reference))


def names_object(reference: str, folder: Path = Path()) -> bool:
    """Whether it names an object in a module, and no file in this folder."""
    module, colon, _ = reference.partition(":")
    is_module = module.replace(".", "").isidentifier()
    return bool(colon) and is_module and not (folder / reference).exists()


def names_model(reference: str) -> bool:
    """Whether it is called as models are: an object, an ONNX file, a pickle (which is refused)."""
    return names_object(reference) or Path(reference).suffix.lower() in {".onnx", *_NAMES}


def load_file(path: Path) -> WrappedModel:
    """An ONNX file, whatever its name; pickles in any wrapping are refused."""
    refuse_pickle(path)
    return load_onnx(path)


def refuse_pickle(path: Path) -> None:
    """Refuse a file that would run code while it is being read."""
    kind = _pickle_inside(path)
    if kind is not None:
        raise Refused(
            f"{path}: this is a {kind}; reading it would run any code that somebody put into it. "
            f"Instead, {_WAY_OUT}"
        )


def _imported(module: str, name: str, folder: Path) -> Any:
    try:
        with _folder_first(folder):
            found: Any = import_module(module)
    except Exception as error:
        raise InvalidInput(_why_not(module, name, folder, error)) from error
    _check_from(folder, module.partition(".")[0])
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput(f"the module {module!r} has no object {name!r}")
        found = getattr(found, part)
    return found


def _why_not(module: str, name: str, folder: Path, error: Exception) -> str:
    """It is not there, or its own code raised something."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return (
            f"there is no module {error.name!r} to import {name!r} from, neither installed nor in "
            f"{folder}{_if_here(module.partition('.')[0], folder)}"
        )
    hint = _FILES_OF_A_MODULE if _is_about_a_file(error) else ""
    raised = f"{type(error).__name__}: {error}"
    return f"the module {module!r} failed while it was imported: {raised}{hint}"


def _if_here(module: str, folder: Path) -> str:
    """A workspace that was started with a module of the current folder would work from there only,
    and its account would be open by then."""
    here = PathFinder.find_spec(module, [str(Path.cwd())])
    if here is None or here.origin is None:
        return ""
    return f"; a workspace looks beside its own file: move {here.origin} to {folder}, or install it"


def _is_about_a_file(error: BaseException | None) -> bool:
    """It, or what it came from; a library that is missing is none of the module's files."""
    kinds = (OSError, UnreadableFile)
    return error is not None and (isinstance(error, kinds) or _is_about_a_file(error.__cause__))


@contextmanager
def _folder_first(folder: Path) -> Iterator[None]:
    """As `python -m` looks for modules; an installed command does not."""
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _check_from(folder: Path, module: str) -> None:
    """Refuse a module that was loaded earlier, under the same name, from another folder: it would
    be explained in place of the one that lies here."""
    here = PathFinder.find_spec(module, [str(folder)])
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if here is None or here.origin is None or loaded is None:
        return
    if Path(here.origin).resolve() != Path(loaded).resolve():
        raise InvalidInput(
            f"{here.origin}: a module {module!r} from {loaded} is loaded already, and Python knows "
            "one of a name; give one of them another name, or use another process"
        )


def _pickle_inside(path: Path) -> str | None:
    content = read_file(path)
    head = content[:4096]
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return f"{name}-compressed file, as joblib writes them around a pickle"
    if zipfile.is_zipfile(io.BytesIO(content)):
        return _zip_kind(content)
    if _begins_as_pickle(head):
        return "pickle (joblib and old torch.save files are pickles, too)"
    if path.suffix.lower() in _NAMES and not _begins_as_onnx(head):
        return f"file named {path.suffix!r}, as pickles are"
    return None


def _zip_kind(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except Exception:  # damaged as well, which makes it no model either
        names = []
    if any(name.endswith("data.pkl") for name in names):
        return "torch.save file, which holds a pickle"
    return "zip file, not an ONNX model (torch.save and numpy files are zips that may hold pickles)"


def _begins_as_pickle(head: bytes) -> bool:
    """Protocol 2 and later begin with an opcode of their own; older ones parse as opcodes.

    An ONNX file is a protobuf that begins with its version (0x08), which is no pickle opcode.
    """
    if head[:1] == b"\x80":
        return True
    try:
        for number, _ in enumerate(pickletools.genops(head)):
            if number >= 3:
                return True
    except Exception:
        return False
    return bool(head)


def _begins_as_onnx(head: bytes) -> bool:
    return head[:1] == b"\x08"


# --- ONNX models through onnxruntime: a file, its bytes, or an open session -----------------------


_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_SILENT = 4
"""Only what ends the process is written to standard error."""


def is_session(source: Any) -> bool:
    return type(source).__name__ == "InferenceSession" and hasattr(source, "get_inputs")


def load_onnx(path: Path) -> WrappedModel:
    """A file with one input and one output of numbers."""
    return wrap_session(*open_onnx(path))


def open_onnx(path: Path) -> tuple[Any, bytes]:
    """A session and the file; one thread, so that results do not depend on the machine's load."""
    runtime = optional("onnxruntime", extra="explain")
    content = read_file(path)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    try:
        session = runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime's errors have no common base of their own
        raise UnreadableFile(f"{path}: not an ONNX model that can be run: {error}") from error
    return session, content


@digest_name("voile.models.onnx_files.OfSession")
@dataclass(frozen=True, eq=False)
class SessionForward(InspectedForward):
    """What a graph says.

    Args:
        session: runs it.
        given, answer: names of its input and output.
        dtype: of the input.
        options: of every run.
        content: the file, where it is known: an open session does not show it.
    """

    session: Any
    given: str
    answer: str
    dtype: Any
    options: Any
    content: bytes | None = field(repr=False)

    def __call__(self, rows: Rows) -> Any:
        rows = rows.astype(self.dtype)
        (found,) = self.session.run([self.answer], {self.given: rows}, self.options)
        return found

    def steady(self) -> Forward | None:
        known = self.content is not None and graphs.is_row_wise(self.content, self.answer)
        return self if known else None

    def class_labels(self) -> tuple[str, ...] | None:
        found = None if self.content is None else graphs.class_labels(self.content)
        if found is None:
            return None
        words = any(each.type == "tensor(string)" for each in self.session.get_outputs())
        # A file that answers in words and does not state their order may have any order.
        unknown = words and not any(isinstance(each, str) for each in found)
        return None if unknown else tuple(map(str, found))


def wrap_session(session: Any, content: bytes | None = None) -> WrappedModel:
    """What goes wrong in a run is told by its exception, not in lines on standard error.

    Such a line holds what was found in a row.
    """
    inputs, answers = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].type not in _TYPES:
        found = [f"{item.name}: {item.type}{item.shape}" for item in inputs]
        raise InvalidInput(
            "an ONNX model must take one input of numbers with shape (rows, features), "
            f"found {found}; export with zipmap off and one input tensor"
        )
    chosen = _answer(answers)
    width = inputs[0].shape[1]
    options = optional("onnxruntime", extra="explain").RunOptions()
    options.log_severity_level = _SILENT
    forward = SessionForward(
        session, inputs[0].name, chosen.name, _TYPES[inputs[0].type], options, content
    )

    def identity() -> str:
        if content is None:
            raise InvalidInput(
                "an open session does not show its content; pass `digest=` to `wrap` or wrap the "
                "path of the file"
            )
        return hashlib.sha256(content).hexdigest()

    probable = chosen.name in ("probabilities", "output_probability")
    outputs: DeclaredOutputs = Simplex() if probable else Unbounded()
    return WrappedModel(
        forward=forward,
        identity=identity,
        width=width if isinstance(width, int) else None,
        outputs=outputs,
        source=session,
    )


def _answer(answers: Any) -> Any:
    """The only output of numbers, or the probabilities beside the label of a classifier."""
    tensors = [item for item in answers if item.type in ("tensor(float)", "tensor(double)")]
    probable = [item for item in tensors if "prob" in item.name.lower()]
    if len(probable) == 1 or len(tensors) == 1:
        return (probable or tensors)[0]
    found = [f"{item.name}: {item.type}" for item in answers]
    raise InvalidInput(
        f"expected one output of floating-point numbers, found {found}; "
        "export classifiers with zipmap off"
    )
