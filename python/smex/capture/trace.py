"""Tracing a model into one functional FX graph, forward and backward together."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._higher_order_ops import effects
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree as pytree

from smex._logging import quiet_fakes
from smex.capture.attributes import Attributes
from smex.capture.decompositions import decomposition_table
from smex.capture.gradients import own_gradients
from smex.capture.memory import overlapping
from smex.capture.objects import (
    Objects,
    flatten_with_paths,
    refuse_hidden_tensors,
    refuse_layout,
)
from smex.capture.origin import OriginMode, error_line, script_line, user_stacklevel
from smex.capture.outside import OutsideMode, attribute_tensors
from smex.capture.random_ops import NO_GENERATOR
from smex.capture.recurrent import library_layers
from smex.capture.repeats import Bodies, NotRepeatedError, Repeats
from smex.capture.side_effects import Ledger
from smex.capture.sizes import Symbols
from smex.capture.swap import StateSlot, all_slots, swapped
from smex.capture.user_code import prepared, replaced
from smex.errors import CaptureError, CaptureWarning, SmexError

NOBODY = -1


@dataclasses.dataclass
class Trace:
    """An FX graph whose placeholders are the slots' tensors, the inputs, then the tangents.

    `tangent_of[j]` is the position among the tensor outputs that tangent `j` belongs to, or NOBODY.
    `results` describe the FX outputs: ("output", k), ("gradient", i), ("update", i) with `i` the
    position of a placeholder, state or input, or None.
    """

    graph: torch.fx.Graph
    module: torch.fx.GraphModule
    fake_mode: contextlib.AbstractContextManager[Any]  # for calls on what nodes have made
    slots: list[StateSlot]
    input_names: list[str]
    input_requires_grad: list[bool]
    tangent_of: list[int]
    results: list[tuple[str, int] | None]
    in_spec: pytree.TreeSpec
    flat_args: list[Any]
    out_spec: pytree.TreeSpec
    changes_spec: pytree.TreeSpec
    flat_outputs: list[Any]
    training: bool  # gradients are wanted
    outside: dict[int, str]  # by id of a parameter that is not the model's: whose it is
    bodies: Bodies  # calls that are traced once and copied
    shared: list[torch.Tensor]  # constants of which there is one for all calls
    num_carriers: int  # placeholders between inputs and tangents whose sizes stand for ints


class _Caller(torch.nn.Module):
    """Calls the model on tensors given flat, so that the tracer sees one plain function.

    The model is kept out of the module tree: its state arrives as arguments. After the leaves of
    what the model returns come those of the objects, by number, that it was given and has changed.
    """

    def __init__(
        self, model, loss_fn, slots, in_spec, flat_args, input_names, repeats, ints
    ) -> None:
        super().__init__()
        self._ints = ints  # by position among the leaves: which tensor at the end has it as size
        self._run = (model, loss_fn, slots, in_spec, flat_args)
        self._given = [slot.names[0] for slot in slots] + input_names
        names = {}
        if isinstance(model, torch.nn.Module):
            names = {id(module): name for name, module in model.named_modules()}
        self.ledger = Ledger(num_state=len(slots))
        self.outside = OutsideMode(model, loss_fn)
        self.origins = OriginMode(names, self.ledger.note, self.outside.call)
        self.repeats = Repeats(self.origins, self.ledger) if repeats else None
        self.warnings: dict[str, None] = {}
        self._assigned: set[int] = set()
        self.out_spec: pytree.TreeSpec | None = None
        self.changes_spec: pytree.TreeSpec | None = None
        self.flat_outputs: list[Any] = []

    @property
    def copies(self) -> bool:
        """Whether calls were copied."""
        return self.repeats is not None and self.repeats.used

    def bodies(self, graph: torch.fx.Graph) -> Bodies:
        """What is copied in the graph."""
        if self.repeats is None:
            return Bodies(graph)
        return Bodies(graph, self.repeats.origins, self.repeats.additions)

    @property
    def shared(self) -> list[torch.Tensor]:
        """Constants that the calls which are copied read and do not make."""
        held = {} if self.repeats is None else self.repeats.held
        return [self.outside.moved(tensor) for tensor in held.values()]

    def forget(self) -> None:
        """Lets the tensors of the trace go."""
        if self.repeats is not None:
            self.repeats.close()

    def tell(self, warning: str) -> None:
        """Takes down what the caller is to be warned of, once however often the model is run."""
        self.warnings[warning] = None

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        model, loss_fn, slots, in_spec, flat_args = self._run
        self.ledger.sweep(refuse=False)  # what an earlier call has left behind
        num_given = len(self._given)
        tensors, carriers = tensors[:num_given], tensors[num_given:]
        state, rest = tensors[: len(slots)], iter(tensors[len(slots) :])
        self.ledger.note_given(state, tensors[len(slots) :])
        flat = [next(rest) if isinstance(a, torch.Tensor) else a for a in flat_args]
        for leaf, carrier in zip(self._ints, carriers, strict=True):
            flat[leaf] = carrier.shape[0]
        objects = Objects()
        args, kwargs = objects.unpack(pytree.tree_unflatten(flat, in_spec))
        count = len(objects.found)
        before = [objects.parts(number) for number in range(count)]
        structures = objects.identities()
        containers = pytree.tree_flatten((args, kwargs))
        # A buffer that is assigned anew is read from a copy: writing the new value to the buffer
        # itself must not reach what was read before. The tracer's first call finds out which.
        own = [t.clone() if i in self._assigned else t for i, t in enumerate(state)]
        given = [*own, *tensors[len(slots) :]]
        self.outside.given = frozenset(map(id, given))
        shapes = [t.shape for t in given]
        with (
            swapped(slots, own),
            prepared(self.tell, self.origins.checkpoint),
            self.origins,
            self.outside,
            contextlib.nullcontext() if self.repeats is None else self.repeats.watching(),
        ):
            attributes = Attributes(model, loss_fn)
            try:
                with own_gradients(given):
                    result = run_user_code(model, loss_fn, args, kwargs)
            except BaseException:
                with contextlib.suppress(CaptureError):
                    attributes.put_back(self.ledger, self.tell)
                raise
            attributes.put_back(self.ledger, self.tell)
            self._write_assigned(slots, state, own)
        _refuse_reshaped(given, shapes, self._given)
        _refuse_restructured(objects, structures, (args, kwargs))
        _refuse_changed_containers(containers, pytree.tree_flatten((args, kwargs)))
        packed = objects.pack(result)
        refuse_hidden_tensors(packed, "the result")
        flat_result, self.out_spec = pytree.tree_flatten(packed)
        changes, self.changes_spec = pytree.tree_flatten(objects.changed(count, before))
        flat_result += changes
        self.flat_outputs = [
            None if isinstance(leaf, torch.Tensor) else leaf for leaf in flat_result
        ]
        self.tensor_outputs = [isinstance(leaf, torch.Tensor) for leaf in flat_result]
        # A copy has its own tangent, also where an output is an input, a view, or another output.
        results = [leaf.clone() for leaf in flat_result if isinstance(leaf, torch.Tensor)]
        if self.repeats is not None and get_proxy_mode() is not None:
            self.repeats.additions.results = results
        return results

    def _write_assigned(
        self, slots: list[StateSlot], state: Sequence[torch.Tensor], own: Sequence[torch.Tensor]
    ) -> None:
        """Writes the buffers that the model assigned anew, as if it had changed them in place."""
        for i, (slot, tensor, before) in enumerate(zip(slots, state, own, strict=True)):
            module, name = slot.holders[0]
            current = getattr(module, name)
            if slot.role != "buffer" or (current is before and i not in self._assigned):
                continue
            if not isinstance(current, torch.Tensor) or current.shape != tensor.shape:
                shape = list(current.shape) if isinstance(current, torch.Tensor) else current
                raise CaptureError(
                    f'capture: the model assigned {shape} to its buffer "{slot.names[0]}" of '
                    f"shape {list(tensor.shape)}; a buffer keeps its shape"
                )
            self._assigned.add(i)
            tensor.copy_(current.detach())


def run_user_code(model: Callable, loss_fn: Callable | None, args: tuple, kwargs: dict) -> Any:
    """Returns the model's result, or with a loss function the loss of it and the last argument."""
    if loss_fn is None:
        return model(*args, **kwargs)
    return loss_fn(model(*args[:-1], **kwargs), args[-1])


def trace(
    model: Callable,
    args: tuple,
    kwargs: dict,
    loss_fn: Callable | None,
    training: bool,
    repeats: bool,
    symbols: Symbols | None = None,
) -> Trace:
    """Traces one call, in which sizes of inputs may be symbols.

    Raises CaptureError that names the user's line, and NotRepeatedError, or any other error for it,
    where calls were copied that are not equal.
    """
    slots = all_slots(model, loss_fn)
    packed = Objects().pack((args, kwargs))
    refuse_hidden_tensors(packed[0], "args")
    refuse_hidden_tensors(packed[1], "kwargs")
    keyed, in_spec = flatten_with_paths(packed)
    flat_args = [leaf for _, leaf in keyed]
    names = argument_names(model, loss_fn, args, keyed)
    inputs = [leaf for leaf in flat_args if isinstance(leaf, torch.Tensor)]
    named = [(slot.names[0], slot.tensor) for slot in slots]
    for name, tensor in [*named, *zip(names, inputs, strict=True)]:
        refuse_layout(tensor, f'"{name}"')
    env = None if symbols is None else symbols.env
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    with fake_mode:
        fakes = [_fake(slot.tensor, slot.tensor.shape) for slot in slots]
        for number, tensor in enumerate(inputs):
            shape = tensor.shape if symbols is None else symbols.shape(number)
            fakes.append(_fake(tensor, shape))
        ints = {} if symbols is None else _carriers(symbols, flat_args, len(inputs))
        fakes += ints.values()
    caller = _Caller(model, loss_fn, slots, in_spec, flat_args, names, repeats, list(ints))
    try:
        module = _export(caller, fakes, fake_mode, training)
        bodies = caller.bodies(module.graph)
        shared = caller.shared
        caller.forget()
        caller.ledger.sweep(refuse=True)
    except BaseException as error:
        caller.forget()
        caller.ledger.sweep(refuse=False)
        if isinstance(error, Exception) and caller.copies:
            raise NotRepeatedError from error
        raise
    for warning in caller.warnings:
        warnings.warn(warning, CaptureWarning, stacklevel=user_stacklevel())
    assert caller.out_spec is not None
    assert caller.changes_spec is not None
    tangent_of, results = _describe(module, names, slots)
    _refuse_shared_memory(slots, {r[1] for r in results if r and r[0] == "update"}, training)
    return Trace(
        graph=module.graph,
        module=module,
        fake_mode=fake_mode,
        slots=slots,
        input_names=names,
        input_requires_grad=[t.requires_grad for t in inputs],
        tangent_of=tangent_of,
        results=results,
        in_spec=in_spec,
        flat_args=flat_args,
        out_spec=caller.out_spec,
        changes_spec=caller.changes_spec,
        flat_outputs=[
            _TENSOR if is_tensor else leaf
            for is_tensor, leaf in zip(caller.tensor_outputs, caller.flat_outputs, strict=True)
        ],
        training=training,
        outside=_outside(model, keyed),
        bodies=bodies,
        shared=shared,
        num_carriers=len(ints),
    )


def _carriers(symbols: Symbols, leaves: Sequence[Any], num_tensors: int) -> dict[int, torch.Tensor]:
    """By leaf that is an int and a symbol an empty tensor of that size: tracers find sizes."""
    found = {}
    ints = [place for place, leaf in enumerate(leaves) if type(leaf) is int]
    for number, place in enumerate(ints, num_tensors):
        (size,) = symbols.shape(number)
        if isinstance(size, torch.SymInt):
            found[place] = torch.empty((size, 0), device="cpu")
    return found


def _outside(model: Callable, keyed: list[tuple[Any, Any]]) -> dict[int, str]:
    """Parameters that the model may use and that are not among its own, where they are kept."""
    found: dict[int, str] = {}
    for path, leaf in keyed:
        if isinstance(leaf, torch.nn.Module):
            for name, parameter in leaf.named_parameters():
                found[id(parameter)] = f'"{name}" of the module passed as {_spelt(path)}'
    if isinstance(model, torch.nn.Module):
        for path, tensor in attribute_tensors(model):
            found.setdefault(id(tensor), f'"{path}"')
    return found


def _spelt(path: tuple[Any, ...]) -> str:
    """Returns the place of an argument: `args[0].x`."""
    group, *rest = path
    return ("kwargs" if group.idx else "args") + pytree.keystr(tuple(rest))


def _refuse_shared_memory(slots: list[StateSlot], updated: set[int], training: bool) -> None:
    """Tensors of the model that overlap would be kept apart, and differ once one has changed."""
    trained = {n for n, slot in enumerate(slots) if training and slot.tensor.requires_grad}
    for pair in overlapping([slot.tensor for slot in slots]):
        if not (updated | trained).isdisjoint(pair):
            one, other = (slots[n].names[0] for n in pair)
            raise CaptureError(
                f'capture: "{one}" and "{other}" of the model share memory, and one of them is '
                "changed or trained: make them one tensor (decoder.weight = encoder.weight), or "
                "give each its own, tensor.clone()"
            )


def _refuse_reshaped(
    tensors: Sequence[torch.Tensor], before: Sequence[torch.Size], names: Sequence[str]
) -> None:
    """Tensors of the caller's and the model's get new values in the shapes that they have."""
    for tensor, shape, name in zip(tensors, before, names, strict=True):
        if tensor.shape != shape:
            raise CaptureError(
                f'capture: the model changes the shape of "{name}" itself, from {list(shape)} to '
                f"{list(tensor.shape)}: use the function without an underscore, x = x.t() in place "
                "of x.t_()"
            )


def _refuse_restructured(objects: Objects, before: list[Any], call: tuple[tuple, dict]) -> None:
    """Refuses a graph whose structure changed: a program is for one and writes only features."""
    for thing, old, new in zip(objects.found, before, objects.identities(), strict=False):
        if new != old:
            paths = [path for path, leaf in flatten_with_paths(call)[0] if leaf is thing]
            where = f" {_spelt(paths[0])}" if paths else ""
            raise CaptureError(
                f"capture: the model changes the structure of its argument{where}, a "
                f"{type(thing).__name__}, which a divided model does not: change a copy "
                "(g = g.clone(), or g.local_var()), or change it before the call"
            )


def _refuse_changed_containers(before: tuple[list[Any], Any], now: tuple[list[Any], Any]) -> None:
    """Refuses a change of a dict or list among the arguments, which the caller would not see."""
    if before[1] != now[1] or any(a is not b for a, b in zip(before[0], now[0], strict=True)):
        raise CaptureError(
            "capture: the model changes a dict or list that is its argument, which a divided model "
            "does not; return what it is to hold, or pass a copy"
        )


class _TensorMark:
    """Stands for a tensor among the flattened outputs."""


_TENSOR = _TensorMark()


def is_tensor_mark(leaf: Any) -> bool:
    """Returns whether a leaf of `Trace.flat_outputs` is a tensor."""
    return leaf is _TENSOR


_TOKENS = ("ForwardTokenAOTInput", "BackwardTokenAOTInput")
_TOKEN_RESULTS = ("ForwardTokenAOTOutput", "BackwardTokenAOTOutput")


def is_token(node: torch.fx.Node) -> bool:
    """Returns whether a placeholder only orders calls that are made for their effects."""
    return node.op == "placeholder" and type(node.meta.get("desc")).__name__ in _TOKENS


def _fake(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    fake = torch.empty(shape, dtype=tensor.dtype, device="cpu")
    return fake.requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def _checks_kept() -> Iterator[None]:
    """Keeps checks of matrices, which make no tensor: before torch 2.15 they count as unused."""
    check = torch.ops.aten._linalg_check_errors.default
    if effects._get_effect(check) is not None:
        yield
        return
    handle = effects._register_effectful_op(check, effects._EffectType.ORDERED)
    try:
        yield
    finally:
        handle.destroy()


def _export(caller, fakes, fake_mode, training) -> torch.fx.GraphModule:
    # What it imports takes longer than all else that smex does, and only captures need it.
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    grad_mode = torch.enable_grad() if training else torch.no_grad()
    try:
        with (
            contextlib.ExitStack() as stack,
            quiet_fakes(),
            replaced(torch.compiler, "_is_compiling_flag", True),  # no looking at values
            library_layers(),
            _checks_kept(),
            # As where backward() is called: after the region of autocast.
            torch._functorch.config.patch(backward_pass_autocast="off"),
            fake_mode,
            grad_mode,
        ):
            joint = aot_export_joint_with_descriptors(
                stack, caller, tuple(fakes), decompositions=decomposition_table()
            )
            return joint.graph_module
    except SmexError:
        raise
    except Exception as error:
        raise _explain(error, caller.origins.failed_module, caller.ledger.taken) from error


_HINTS = {
    "UnsupportedOperator": "tell the shapes of its results with torch.library.register_fake",
    "derivative for": "detach() what it is given, or leave out the backward pass with "
    "torch.no_grad()",
    "requires_grad flags of leaf": "freeze or thaw parameters outside of forward",
    "set_ on a graph input": "write x.copy_(...) in place of x.set_(...)",
    "no autograd formula": "register one with torch.library.register_autograd, or leave out the "
    "backward pass with torch.no_grad()",
    "torch._C.Generator": NO_GENERATOR,
    "positional arguments but": "what the loss alone reads, such as a target, is an argument "
    "where loss_fn= is given",
}
"""What helps, by a part of an error's kind or text."""

_DATA_DEPENDENT = ("DataDependent", "DynamicOutputShape", "UnbackedSymInt")


def _explain(error: Exception, module: str, taken: str) -> CaptureError:
    cause: BaseException | None = error
    line = ""
    while cause is not None and not line:
        line = error_line(cause, run_user_code.__name__)
        cause = cause.__cause__ or cause.__context__
    kind = type(error).__name__
    text = str(error).strip() or kind
    if "TorchScript interpreter" in text:
        line = script_line(text)
    where = f" at {line}" if line else f" in module {module!r}" if module else ""
    if "aten.linalg_lstsq" in text:
        return CaptureError(
            f"capture: the shapes of linalg.lstsq's results depend on the rank of a matrix{where}: "
            "write torch.linalg.pinv(A) @ B for the solution"
        )
    if any(name in kind for name in _DATA_DEPENDENT) or "aten._local_scalar_dense" in text:
        validates = f"{os.sep}distributions{os.sep}" in "".join(
            traceback.format_tb(error.__traceback__)
        )
        return CaptureError(
            f"capture: the model's structure depends on a tensor's values{where} "
            f"({kind}: {text}); compute with torch.where or masks of a fixed shape instead"
            f"{', and give distributions validate_args=False' if validates else ''}"
        )
    hints = [hint for sign, hint in _HINTS.items() if sign in f"{kind} {text}"]
    if taken:
        hints.append(f"a tensor {taken} from call to call: return it from the model instead")
    hint = f"; {hints[0]}" if hints else ""
    return CaptureError(f"capture: the model failed{where} ({kind}: {text}){hint}")


def argument_names(
    model: Callable,
    loss_fn: Callable | None,
    args: tuple,
    keyed: list[tuple[Any, Any]],
    kind: type = torch.Tensor,
) -> list[str]:
    """A name for each tensor of the call: the parameter of `forward` and the path inside it.

    Args:
        model: that is called.
        loss_fn: that takes the last argument.
        args: of the call.
        keyed: its leaves, with their paths.
        kind: what is named in place of tensors.
    """
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    positional: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        for parameter in inspect.signature(forward).parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                positional.append(parameter.name)
    given = len(args)
    if loss_fn is not None:
        positional = positional[: given - 1]
    positional += [f"args{i}" for i in range(len(positional), given)]
    if loss_fn is not None:
        positional[given - 1] = "target"
    names = []
    for (group, key, *path), leaf in keyed:
        if isinstance(leaf, kind) and not isinstance(leaf, bool):
            head = key.key if group.idx else positional[key.idx]
            names.append(head + pytree.keystr(tuple(path)))
    return names


def _describe(
    module: Any, names: list[str], slots: list[StateSlot]
) -> tuple[list[int], list[tuple[str, int] | None]]:
    """Reads the descriptors that say what each placeholder and result is."""
    from torch._functorch._aot_autograd import descriptors

    tangent_of = []
    results: list[tuple[str, int] | None] = []
    nodes = list(module.graph.nodes)
    for node in nodes:
        if node.op == "placeholder" and isinstance(node.meta["desc"], descriptors.TangentAOTInput):
            of = node.meta["desc"].output
            # That of a parameter that the model changes in place is nobody's.
            tangent_of.append(getattr(of, "idx", NOBODY))
            if isinstance(of, descriptors.InputMutationAOTOutput):
                _refuse_trained_input(of.mutated_input.idx - len(slots), names)  # type: ignore[attr-defined]
    for desc in nodes[-1].meta["desc"]:
        if isinstance(desc, descriptors.PlainAOTOutput):
            results.append(("output", desc.idx))
        elif isinstance(desc, descriptors.GradAOTOutput):
            position = desc.grad_of.idx  # type: ignore[attr-defined]
            has_one = position < len(slots) + len(names)  # what carries an int has none
            results.append(("gradient", position) if has_one else None)
        elif isinstance(desc, descriptors.InputMutationAOTOutput):
            results.append(("update", desc.mutated_input.idx))  # type: ignore[attr-defined]
        elif desc is None or type(desc).__name__ in _TOKEN_RESULTS:
            results.append(None)
        else:
            raise CaptureError(f"capture: cannot represent the result {desc!r}")
    return tangent_of, results


def _refuse_trained_input(position: int, names: list[str]) -> None:
    """Hands back an input that the model changes as plain numbers, without a graph."""
    if position >= 0:
        raise CaptureError(
            f'capture: the model changes its input "{names[position]}" in place, and gradients '
            "would flow through the change: call the net under torch.no_grad(), write "
            "detach()ed values into an input that requires no gradient, or work on a copy, "
            "x = x.clone()"
        )
